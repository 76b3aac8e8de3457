"""Celery tasks: a few lines each, one service function per task."""

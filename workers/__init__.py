"""Every process: Celery app, tasks, schedule, the embedded worker and the command line."""

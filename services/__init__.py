"""Durable memory for AI agents."""

"""Embedding: vector spaces, their collections, and keeping both in step with the rows."""

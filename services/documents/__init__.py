"""Documents: read, split, store, search."""

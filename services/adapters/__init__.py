"""The only place that imports databases, vector stores, models and parsers."""

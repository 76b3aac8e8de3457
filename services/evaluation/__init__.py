"""Measuring retrieval quality: metrics, data sets, runs."""

"""Corrections: what users put right, found in what they say, stored, and recalled when it matters again."""

"""Conversations and recall: what an agent said, and finding it again."""

"""Summarization models, with and without copying."""

"""Layers of words and characters."""

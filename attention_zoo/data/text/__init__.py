"""Texts: readers of lines, text pairs and tagged sentences."""

"""Sequence labeling models."""

"""Batches: bucketed by length, masked, with images."""

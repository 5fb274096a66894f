"""Attention over whole sequences and sets: pooling, hierarchies, pairs of texts, image regions."""

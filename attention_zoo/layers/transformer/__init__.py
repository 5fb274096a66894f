"""Sublayers of Transformers: encoder and decoder layers, feed-forward network, KV cache."""

"""Tokenizers and vocabularies."""

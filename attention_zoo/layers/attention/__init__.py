"""Attention with query, key and value: the steps, the base class, and the named mechanisms."""

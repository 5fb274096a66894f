"""Masks in the texts of masked language modeling."""

MASK = "[MASK]"
"""The mask token in input texts."""

DEFAULT_TOP = 5
"""Default number of predictions for each mask."""

PRIVATE_USE = range(0xE000, 0xF900)
"""Private-use characters of Unicode; every tokenizer makes each of them a separate piece."""

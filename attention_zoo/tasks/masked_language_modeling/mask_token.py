"""The mask token of input texts, and defaults of its predictions."""

MASK = "[MASK]"
"""The mask token in input texts."""
PRIVATE_USE = range(0xE000, 0xF900)
"""Private-use characters of Unicode; every tokenizer makes each of them a separate piece."""
TOP = 5
"""Default number of predictions for each mask."""

"""Masks in the texts of masked language modeling."""

MASK = "[MASK]"
"""The mask token in input texts."""

DEFAULT_TOP = 5
"""Default number of predictions for each mask; see `get_default_top`."""

PRIVATE_USE = range(0xE000, 0xF900)
"""Private-use characters of Unicode; every tokenizer makes each of them a separate piece."""


def get_default_top(n_best: int, count: int) -> int:
    """Return the default number of predictions for each mask, from `count` candidate tokens.

    It is the search option `n_best`, or `DEFAULT_TOP` if that is 1.
    """
    return min(n_best if n_best > 1 else DEFAULT_TOP, count)

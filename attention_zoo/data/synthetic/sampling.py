"""Choices and permutations from a seeded function that samples integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from attention_zoo.data.synthetic.slots import RandomBelow

Item = TypeVar("Item")


def choose(items: Sequence[Item], randbelow: RandomBelow) -> Item:
    """Sample one of the items uniformly."""
    return items[randbelow(len(items))]


def shuffle(items: Sequence[Item], randbelow: RandomBelow) -> list[Item]:
    """Return the items in random order; all orders have the same probability."""
    items = list(items)
    for last in range(len(items) - 1, 0, -1):
        index = randbelow(last + 1)
        items[index], items[last] = items[last], items[index]
    return items

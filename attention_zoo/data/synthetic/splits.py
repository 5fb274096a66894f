"""Sampling of generated corpora, with splits that a hash determines."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attention_zoo.data.synthetic.slots import Pick
from attention_zoo.registry import did_you_mean

SPLITS = {
    "train": range(70),
    "validation": range(70, 80),
    "test": range(80, 90),
    "long": range(90, 100),
}
"""The hash values, out of 100, of each split."""

Drawn = tuple[str, Callable[[], tuple[Any, Any]]]
"""The text to hash, and a function that returns key and value, called if the split matches."""


class Parts(NamedTuple):
    """Range of the number of parts in a sentence, which is sampled uniformly.

    Attributes:
        name: name of the parts in a corpus's options.
        least, most: range outside of "long", which has from most + 1 to 2 * most.
        limit: maximum of `most`.
    """

    name: str
    least: int
    most: int
    limit: int


def draw_sentences(
    corpus: str,
    split: str,
    seed: int,
    size: int,
    parts: Parts,
    draw: Callable[[int, Pick], Drawn],
    splits: Mapping[str, range] = SPLITS,
) -> dict[Any, Any]:
    """Sample `size` sentences of a split with different keys, and return their values by key.

    A corpus of size n is a prefix of any larger one.

    Args:
        corpus: name of the corpus.
        split: a name of `splits`.
        seed: seed of the corpus.
        size: number of sentences.
        parts: range of the number of parts in a sentence.
        draw: function that samples a sentence with a given number of parts.
        splits: the hash values, out of 100, of each split.

    Raises:
        ValueError: an unknown split, a size below 1, an invalid range of the number of parts.
    """
    if split not in splits:
        raise ValueError(
            f"{corpus}: unknown split {split!r}{did_you_mean(split, splits)}"
            f" (known: {', '.join(splits)})"
        )
    if size < 1 or size != int(size):
        raise ValueError(f"size must be an integer of at least 1, got {size}")
    name, least, most, limit = parts
    if not 1 <= least <= most <= limit:
        raise ValueError(
            f"min_{name}={least}, max_{name}={most}: expected"
            f" 1 <= min_{name} <= max_{name} <= {limit}"
        )
    if split == "long":
        least, most = most + 1, 2 * most
    numbers = random.Random(f"{corpus}/{split}/{seed}").random

    def pick(n: int) -> int:
        return int(numbers() * n)

    found: dict[Any, Any] = {}
    while len(found) < size:
        count, before = least + pick(most - least + 1), len(found)
        while len(found) == before:
            hashed, make = draw(count, pick)
            if _bucket(hashed) in splits[split]:
                key, value = make()
                found.setdefault(key, value)
    return found


def _bucket(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % 100

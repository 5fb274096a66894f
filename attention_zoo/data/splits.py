"""Generated corpora: sentences drawn by a seed, in splits that a hash tells apart."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attention_zoo.data.slots import Pick
from attention_zoo.registry import did_you_mean

SPLITS = {
    "train": range(70),
    "validation": range(70, 80),
    "test": range(80, 90),
    "long": range(90, 100),
}
"""Of 100 hash values, those of each split."""

Drawn = tuple[str, Callable[[], tuple[Any, Any]]]
"""What a sentence is hashed by, and what makes its key and value when its split takes it."""


class Parts(NamedTuple):
    """How many parts a sentence may have, each number as likely as any other.

    Attributes:
        name: what they are, in the names of a corpus's options.
        least, most: of a sentence outside of "long", which has from most + 1 to 2 * most.
        limit: what `most` may be at most.
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
    """So many sentences of a split, all of different keys; more of them begin with the same ones.

    Args:
        corpus: its name.
        split: a name of `splits`.
        seed: of the corpus.
        size: how many.
        parts: of a sentence.
        draw: makes a sentence of so many parts.
        splits: of 100 hash values, those of each split.

    Raises:
        ValueError: an unknown split, a size below 1, or numbers of parts that are none.
    """
    if split not in splits:
        raise ValueError(
            f"{corpus} has no {split!r}{did_you_mean(split, splits)} (known: {', '.join(splits)})"
        )
    if size < 1 or size != int(size):
        raise ValueError(f"size={size} must be at least 1, and whole")
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

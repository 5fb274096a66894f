"""Sampling of generated corpora, with splits that a hash determines."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.ops.arguments import whole_number
from attention_zoo.registry import check_known

SPLITS = {
    "train": range(70),
    "validation": range(70, 80),
    "test": range(80, 90),
    "long": range(90, 100),
}
"""The hash buckets (0 to 99) of each split."""

Candidate = tuple[str, Callable[[], tuple[Any, Any]]]
"""The text to hash, and a function that returns key and value, called if the split matches."""


class PartRange(NamedTuple):
    """Range of the number of parts in a sentence, which is sampled uniformly.

    Attributes:
        name: name of the parts in a corpus's options.
        minimum, maximum: range outside of "long", which has from maximum + 1 to
            2 * maximum.
        limit: maximum of `maximum`.
    """

    name: str
    minimum: int
    maximum: int
    limit: int


def sample_corpus(
    corpus: str,
    split: str,
    seed: int,
    size: int,
    part_range: PartRange,
    sample: Callable[[int, RandomBelow], Candidate],
    splits: Mapping[str, range] = SPLITS,
) -> dict[Any, Any]:
    """Sample `size` sentences of a split with different keys, and return their values by key.

    A corpus of size n is a prefix of any larger one.

    Args:
        corpus: name of the corpus.
        split: a name of `splits`.
        seed: seed of the corpus.
        size: number of sentences.
        part_range: range of the number of parts in a sentence.
        sample: function that samples a sentence with a given number of parts.
        splits: the hash values, out of 100, of each split.

    Raises:
        ValueError: an unknown split, a size below 1, an invalid range of the number of parts.
    """
    check_known(f"{corpus}: unknown split", [split], splits)
    whole_number("size", size)
    name, minimum, maximum, limit = part_range
    if not 1 <= minimum <= maximum <= limit:
        raise ValueError(
            f"expected 1 <= min_{name} <= max_{name} <= {limit}, got min_{name}={minimum},"
            f" max_{name}={maximum}"
        )
    if split == "long":
        minimum, maximum = maximum + 1, 2 * maximum
    randbelow = make_randbelow(f"{corpus}/{split}/{seed}")
    items: dict[Any, Any] = {}
    while len(items) < size:
        count, num_items = minimum + randbelow(maximum - minimum + 1), len(items)
        while len(items) == num_items:
            text, make = sample(count, randbelow)
            hashed = hashlib.blake2b(text.encode(), digest_size=8).digest()
            if int.from_bytes(hashed) % 100 in splits[split]:
                key, value = make()
                items.setdefault(key, value)
    return items


def make_randbelow(name: str) -> RandomBelow:
    """Return a function that samples an integer from 0 to n - 1, seeded with a name."""
    numbers = random.Random(name).random
    return lambda n: int(numbers() * n)

"""What tasks share that answer texts: batches of few shapes, and what a vocabulary cannot hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from attention_zoo.data import Tokenizer
from attention_zoo.data.vocabulary import PAD, SPECIAL_TOKENS

BUCKET = 8  # sources are padded up to multiples of this, so that few shapes are compiled


def bucket(length: int, step: int = BUCKET) -> int:
    """The width that a sequence of this length is padded to."""
    return -(-length // step) * step


def padded(rows: Sequence[Sequence[int]], size: int, width: int) -> np.ndarray:
    """`(size, width)`; rows beyond those given repeat the first one."""
    batch = np.full((size, width), PAD, "int32")
    for row in range(size):
        ids = rows[row] if row < len(rows) else rows[0]
        batch[row, : len(ids)] = ids
    return batch


def same_width(
    rows: Sequence[Sequence[int]], batch_size: int, step: int = BUCKET
) -> list[tuple[list[int], int]]:
    """Row numbers of at most `batch_size` sequences each, and the width they share.

    A sequence's width depends on its own length alone, and so does then its answer.
    """
    buckets: dict[int, list[int]] = defaultdict(list)
    for row, ids in enumerate(rows):
        buckets[bucket(len(ids), step)].append(row)
    return [
        (rows[start : start + batch_size], width)
        for width, rows in sorted(buckets.items())
        for start in range(0, len(rows), batch_size)
    ]


def unknown_characters(tokenizer: Tokenizer, text: str) -> list[str]:
    """The characters of a text that no token of the vocabulary can hold."""
    vocabulary: Sequence[str] = getattr(tokenizer, "vocabulary", ())  # public ones have none
    seen = set("".join(vocabulary[len(SPECIAL_TOKENS) :]))
    shown = text.lower() if tokenizer.lowercase else text
    strange = [c for c in dict.fromkeys(shown) if not c.isspace() and c not in seen]
    alone = tokenizer.encode(strange) if strange else []
    return [c for c, ids in zip(strange, alone, strict=True) if tokenizer.unknown in ids]

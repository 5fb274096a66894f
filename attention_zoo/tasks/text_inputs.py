"""Helpers of text tasks: padding, grouping by length, unknown characters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from attention_zoo.data import PublicTokenizer, Tokenizer
from attention_zoo.data.tokenizers.vocabulary import PAD, SPECIAL_TOKENS

BUCKET = 8  # sources are padded to multiples of this, so that few shapes are compiled


def bucket(length: int, step: int = BUCKET) -> int:
    """Return the padded width of a sequence: its length rounded up to a multiple of `step`."""
    return -(-length // step) * step


def padded(rows: Sequence[Sequence[int]], size: int, width: int) -> np.ndarray:
    """Pad token ids to `(size, width)`; rows beyond those given repeat the first one."""
    batch = np.full((size, width), PAD, "int32")
    for row in range(size):
        ids = rows[row] if row < len(rows) else rows[0]
        batch[row, : len(ids)] = ids
    return batch


def same_width(
    rows: Sequence[Sequence[int]], batch_size: int, step: int = BUCKET
) -> list[tuple[list[int], int]]:
    """Group sequences by padded width: (row numbers, width), at most `batch_size` rows each.

    The width depends only on the sequence's length, so a prediction does not depend on the other
    sequences.
    """
    buckets: dict[int, list[int]] = defaultdict(list)
    for row, ids in enumerate(rows):
        buckets[bucket(len(ids), step)].append(row)
    return [
        (rows[start : start + batch_size], width)
        for width, rows in sorted(buckets.items())
        for start in range(0, len(rows), batch_size)
    ]


def unknown_characters(tokenizer: Tokenizer | PublicTokenizer, text: str) -> list[str]:
    """Return the characters of a text that no token of the vocabulary contains."""
    vocabulary = tokenizer.vocabulary if isinstance(tokenizer, Tokenizer) else ()
    known = set("".join(vocabulary[len(SPECIAL_TOKENS) :]))
    shown = text.lower() if tokenizer.lowercase else text
    strange = [c for c in dict.fromkeys(shown) if not c.isspace() and c not in known]
    alone = tokenizer.encode(strange) if strange else []
    return [c for c, ids in zip(strange, alone, strict=True) if tokenizer.unknown in ids]

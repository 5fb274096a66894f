"""Helpers of text tasks: padding, grouping by length, unknown characters."""

from __future__ import annotations

import itertools
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import PublicTokenizer, Tokenizer
from attention_zoo.data.progress import log_progress
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from attention_zoo.data.tokenizers.vocabulary import PAD, SPECIAL_TOKENS, UNKNOWN
from attention_zoo.tasks.progress import report_predicted

R = TypeVar("R")
T = TypeVar("T")
PART = 1024  # examples encoded at a time
BUCKET = 8  # sources are padded to multiples of this, so that few shapes are compiled


def encode_in_parts(
    examples: Any, rows: range, encode: Callable[[Any], T], noun: str
) -> Iterator[tuple[range, Any, T]]:
    """Yield the rows of each part of a corpus, its examples, and what `encode` returns for them.

    Parts are small, because lists of Python integers need ten times the memory of an array. A
    ValueError of `encode` names the corpus and the first example of the part.

    Args:
        examples: the corpus.
        rows: the rows to encode.
        encode: function that encodes examples.
        noun: name of the examples, in the plural.
    """
    starts = range(rows.start, rows.stop, PART)
    for begin in log_progress(starts, "encoding", noun, PART):
        part_rows = range(begin, min(begin + PART, rows.stop))
        part = examples.take(part_rows)
        try:
            encoded = encode(part)
        except ValueError as error:
            where = f"{examples.origin}, from {noun.removesuffix('s')} {begin + 1} on"
            raise ValueError(f"{where}: {error}") from None
        yield part_rows, part, encoded


def round_up(length: int, step: int = BUCKET) -> int:
    """Return the padded width of a sequence: its length rounded up to a multiple of `step`."""
    return -(-length // step) * step


def pad_batch(rows: Sequence[Sequence[int]], size: int, width: int) -> NDArray[np.int32]:
    """Pad token ids to `(size, width)`; rows beyond those given repeat the first one."""
    batch = np.full((size, width), PAD, "int32")
    for row in range(size):
        ids = rows[row] if row < len(rows) else rows[0]
        batch[row, : len(ids)] = ids
    return batch


def group_by_width(
    rows: Sequence[Sequence[int]], batch_size: int, step: int = BUCKET
) -> list[tuple[list[int], int]]:
    """Group sequences by padded width: (row numbers, width), at most `batch_size` rows each.

    The width depends only on the sequence's length, so a prediction does not depend on the other
    sequences.
    """
    buckets: dict[int, list[int]] = defaultdict(list)
    for row, ids in enumerate(rows):
        buckets[round_up(len(ids), step)].append(row)
    return [
        (rows[start : start + batch_size], width)
        for width, rows in sorted(buckets.items())
        for start in range(0, len(rows), batch_size)
    ]


def list_shapes(batch_sizes: Sequence[int], lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs of a batch size and a length, in the order for a warm-up.

    The first pairs differ in both: TensorFlow then traces the second one for unknown sizes of both.
    """
    pairs = zip(batch_sizes, lengths, strict=False)
    return list(dict.fromkeys([*pairs, *itertools.product(batch_sizes, lengths)]))


def round_batch_size(count: int, batch_size: int) -> int:
    """Return the padded size of a batch: a power of two, at most `batch_size`."""
    return min(batch_size, 2 ** (count - 1).bit_length())


def predict_by_width(
    encoded: Sequence[Sequence[int]],
    batch_size: int,
    predict_batch: Callable[[list[int], NDArray[np.int32]], Iterable[R]],
    step: int = BUCKET,
) -> list[R]:
    """Return the predictions of sequences, in order, computed in batches of equal padded width.

    Args:
        encoded: token ids of each sequence.
        batch_size: maximum number of sequences in a batch.
        predict_batch: returns the predictions of a batch, from the row numbers of its sequences and
            their padded ids `(B, T)`. B is a power of two or `batch_size`; ids after those of the
            sequences repeat the first sequence.
        step: T is a multiple of it.
    """
    predictions: dict[int, R] = {}
    for rows, width in group_by_width(encoded, batch_size, step):
        size = round_batch_size(len(rows), batch_size)
        batch = pad_batch([encoded[row] for row in rows], size, width)
        predictions.update(zip(rows, predict_batch(rows, batch), strict=True))
        report_predicted(len(rows))
    return [predictions[row] for row in range(len(encoded))]


def select_evenly_spaced(count: int, size: int) -> list[int]:
    """Return `size` evenly spaced row numbers out of `count`, or all if there are not more."""
    size = min(size, count)
    return [row * count // size for row in range(size)]


def find_unknown(ids: Sequence[int], unknown: int = UNKNOWN) -> tuple[int, ...]:
    """Return the positions of unknown tokens."""
    return tuple(position for position, token in enumerate(ids) if token == unknown)


def find_unknown_characters(
    tokenizer: Tokenizer | PublicTokenizer | SentencePieceTokenizer, text: str
) -> list[str]:
    """Return the characters of a text that no token of the vocabulary contains."""
    vocabulary: Sequence[str] = ()
    if isinstance(tokenizer, Tokenizer):
        vocabulary, text = tokenizer.vocabulary, unicodedata.normalize("NFC", text)
    known = set("".join(vocabulary[len(SPECIAL_TOKENS) :]))
    shown = text.lower() if tokenizer.lowercase else text
    strange = [c for c in dict.fromkeys(shown) if not c.isspace() and c not in known]
    alone = tokenizer.encode(strange) if strange else []
    return [c for c, ids in zip(strange, alone, strict=True) if tokenizer.unknown in ids]

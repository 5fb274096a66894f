"""Cache of the token ids of words.

White space separates words, and no token spans two words, so that the ids of a text are those of
its words. Looking up a word takes much less time than encoding it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from threading import Lock
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from attention_zoo.data.tokenizers.flat_ids import FlatIds
from attention_zoo.data.tokenizers.vocabulary import MARK

MAX_SIZE = 1_000_000
"""Number of characters and ids that a cache keeps, which need about 25 MB."""


def split_white_space(text: str) -> list[str]:
    """Split a text at white space (`WHITE_SPACE`), and put `MARK` before its first word.

    `MARK` is white space, so no word contains it: here it only distinguishes the first word from
    the same word later in a text. The result for a text without words is `[MARK]`.
    """
    words = text.replace(MARK, " ").split()
    return [MARK + words[0], *words[1:]] if words else [MARK]


class WordTable:
    """Table of words and their token ids.

    Attributes:
        rows: index of each word.
        size: number of characters and ids.
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.size = 0
        # These arrays are longer than what they hold.
        self._ids = np.zeros(0, np.int32)
        self._starts, self._lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._num_ids = 0

    def add(self, words: Sequence[str], encoded: FlatIds) -> None:
        """Add words and their token ids."""
        ids, lengths = encoded
        starts = self._num_ids + np.cumsum(lengths) - lengths
        first = len(self.rows)
        self._ids = _append(self._ids, self._num_ids, ids)
        self._starts = _append(self._starts, first, starts)
        self._lengths = _append(self._lengths, first, lengths)
        self._num_ids += len(ids)
        self.size += sum(map(len, words)) + len(ids)
        # `rows` comes last: another thread that finds a word in it must find its ids too.
        self.rows.update(zip(words, range(first, first + len(words)), strict=True))

    def gather(self, words: Collection[str]) -> FlatIds:
        """Return the token ids of words; raise KeyError if the table lacks one."""
        rows = np.fromiter(map(self.rows.__getitem__, words), np.int64, len(words))
        lengths = self._lengths[rows]
        ends = np.cumsum(lengths)
        shifts = np.repeat(self._starts[rows] - (ends - lengths), lengths)
        return FlatIds(self._ids[np.arange(len(shifts)) + shifts], lengths)


def _append(array: NDArray[Any], size: int, values: NDArray[Any]) -> NDArray[Any]:
    """Write values behind the first `size` values of an array, which is copied if it is full."""
    if size + len(values) > len(array):
        larger = np.empty(2 * (size + len(values)), array.dtype)
        larger[:size] = array[:size]
        array = larger
    array[size : size + len(values)] = values
    return array


class WordCache:
    """Cache of the token ids of words, as `split_white_space` returns them.

    Args:
        first: the engine that encodes the first word of a text, without the mark.
        later: the engine that encodes another word, with a mark before it.
    """

    def __init__(self, first: tokenizers.Tokenizer, later: tokenizers.Tokenizer) -> None:
        self._first, self._later = first, later
        self._table, self._lock = WordTable(), Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return WordCache, (self._first, self._later)  # without the lock

    def encode(self, words: Collection[str]) -> FlatIds:
        """Return the token ids of each word."""
        try:
            return self._table.gather(words)
        except KeyError:
            return self._add(words).gather(words)

    def _add(self, words: Collection[str]) -> WordTable:
        """Encode words that the table lacks, and return a table that has them all."""
        with self._lock:
            table = self._table
            missing = set(words).difference(table.rows)
            first = [word for word in missing if word.startswith(MARK)]
            later = [*missing.difference(first)]
            table.add(first + later, self._encode(first, later))
            if table.size > MAX_SIZE:
                self._table = WordTable()
            return table

    def _encode(self, first: Sequence[str], later: Sequence[str]) -> FlatIds:
        """Return the token ids of first words, then those of later words."""
        texts = [word[1:] for word in first], [MARK + word for word in later]
        rows = self._first.encode_batch_fast(texts[0], add_special_tokens=False)
        rows += self._later.encode_batch_fast(texts[1], add_special_tokens=False)
        return FlatIds.from_rows([row.ids for row in rows])

    def split(self, word: str) -> list[str]:
        """Return the pieces of a word, as its engine splits it."""
        is_first = word.startswith(MARK)
        engine, text = (self._first, word[1:]) if is_first else (self._later, MARK + word)
        normal = engine.normalizer.normalize_str(text)
        return [piece for piece, _ in engine.pre_tokenizer.pre_tokenize_str(normal)]

"""Cache of the token ids of words.

White space separates words, and no token spans two words, so that the ids of a text are those of
its words. Looking up a word takes much less time than encoding it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from threading import Lock

import numpy as np
import tokenizers

from attention_zoo.data.tokenizers.flat_ids import FlatIds, concatenate_ids
from attention_zoo.data.tokenizers.vocabulary import MARK

MAX_SIZE = 1_000_000
"""Number of characters and ids that a cache keeps, which need about 25 MB."""


def split_words(text: str) -> list[str]:
    """Return the words of a text, the first with a mark before it; the mark alone if it has none.

    Words are what is between white space, as `WHITE_SPACE` of the tokenizers defines it.
    """
    words = text.replace(MARK, " ").split()
    return [MARK + words[0], *words[1:]] if words else [MARK]


class WordTable:
    """Token ids of words that were encoded before.

    Attributes:
        rows: index of each word.
        size: number of characters and ids.
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.size = 0
        self._ids = FlatIds.from_rows([])
        self._starts = self._ids.lengths

    def add(self, words: Sequence[str], encoded: FlatIds) -> None:
        """Add words and their token ids."""
        first = len(self._starts)
        self.size += sum(map(len, words)) + len(encoded.ids)
        # Another thread that finds a word in `rows` must find its ids too.
        self._ids = concatenate_ids([self._ids, encoded])
        self._starts = np.cumsum(self._ids.lengths) - self._ids.lengths
        self.rows.update(zip(words, range(first, first + len(words)), strict=True))

    def gather(self, words: Collection[str]) -> FlatIds:
        """Return the token ids of words; raise KeyError if the table lacks one."""
        rows = np.fromiter(map(self.rows.__getitem__, words), np.int64, len(words))
        lengths = self._ids.lengths[rows]
        ends = np.cumsum(lengths)
        shifts = np.repeat(self._starts[rows] - (ends - lengths), lengths)
        return FlatIds(self._ids.ids[np.arange(len(shifts)) + shifts], lengths)


class WordCache:
    """Cache of the token ids of words, as `split_words` returns them.

    Args:
        first: the engine that encodes the first word of a text, without the mark.
        later: the engine that encodes another word, with a mark before it.
    """

    def __init__(self, first: tokenizers.Tokenizer, later: tokenizers.Tokenizer) -> None:
        self._first, self._later = first, later
        self._table, self._lock = WordTable(), Lock()

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
            missing = sorted(set(words).difference(table.rows))
            table.add(missing, self._encode(missing))
            if table.size > MAX_SIZE:
                self._table = WordTable()
            return table

    def _encode(self, words: Sequence[str]) -> FlatIds:
        """Return the token ids of each word, from the engines."""
        ids: dict[str, list[int]] = {}
        for engine, is_first in ((self._first, True), (self._later, False)):
            group = [word for word in words if word.startswith(MARK) == is_first]
            texts = [word[1:] if is_first else MARK + word for word in group]
            rows = engine.encode_batch_fast(texts, add_special_tokens=False)
            ids |= {word: row.ids for word, row in zip(group, rows, strict=True)}
        return FlatIds.from_rows([ids[word] for word in words])

    def split(self, word: str) -> list[str]:
        """Return the pieces of a word, as its engine splits it."""
        is_first = word.startswith(MARK)
        engine, text = (self._first, word[1:]) if is_first else (self._later, MARK + word)
        normal = engine.normalizer.normalize_str(text)
        return [piece for piece, _ in engine.pre_tokenizer.pre_tokenize_str(normal)]

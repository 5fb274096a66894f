"""Cache of the token ids of words.

White space separates words, and no token spans two words, so that the ids of a text are those of
its words. Looking up a word takes much less time than encoding it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import tokenizers

MAX_SIZE = 1_000_000
"""Number of characters and ids that a cache keeps, which need about 25 MB."""

Ids = tuple[int, ...]


class WordCache:
    """Cache of the token ids of words.

    Args:
        engine: the engine that encodes a word.
        prefix: a string before each word.
    """

    def __init__(self, engine: tokenizers.Tokenizer, prefix: str = "") -> None:
        self._engine, self._prefix = engine, prefix
        self._ids: dict[str, Ids] = {}
        self._size = 0

    def look_up(self, words: Collection[str]) -> Mapping[str, Ids]:
        """Return the token ids by word; the mapping may contain more words."""
        ids = self._ids
        missing = [word for word in dict.fromkeys(words) if word not in ids]
        if not missing:
            return ids
        rows = self._engine.encode_batch_fast(
            [self._prefix + word for word in missing], add_special_tokens=False
        )
        encoded = {word: tuple(row.ids) for word, row in zip(missing, rows, strict=True)}
        self._size += sum(len(word) + len(row) for word, row in encoded.items())
        if self._size > MAX_SIZE:
            # Other threads may still use the old dict.
            ids, self._ids, self._size = ids | encoded, {}, 0
        else:
            ids.update(encoded)
        return ids

    def split(self, word: str) -> list[str]:
        """Return the pieces of a word, as the engine splits it."""
        normal = self._engine.normalizer.normalize_str(self._prefix + word)
        return [piece for piece, _ in self._engine.pre_tokenizer.pre_tokenize_str(normal)]

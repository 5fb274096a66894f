"""Encoding of many texts, shared by all tokenizers."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence

import tokenizers

from attention_zoo.data.progress import log_batches
from attention_zoo.data.tokenizers.flat_ids import FlatIds, concatenate_ids
from attention_zoo.data.tokenizers.vocabulary import check_all_unicode

CHUNK = 10_000
"""Number of texts that are encoded at once."""


class EngineTokenizer:
    """Base class of tokenizers; by default, `_engine` encodes the texts."""

    _engine: tokenizers.Tokenizer
    language_codes: Sequence[str] = ()
    """Tokens that select the target language at the start of a source."""
    text_start: int | None = None
    """Id of a token that every text begins with in the inputs of the model; None if there is none.
    `encode` does not add it."""

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        return int(self._engine.get_vocab_size(with_added_tokens=True))

    @property
    def content_hash(self) -> str:
        """SHA-256 of everything that determines the ids of a text."""
        content = f"{type(self).__qualname__}\n{self._engine.to_str()}"
        return hashlib.sha256(content.encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without start and end tokens.

        Raises:
            ValueError: one string instead of a list; a text that is invalid Unicode (a lone
                surrogate).
        """
        return self.encode_flat(texts).to_rows()

    def encode_flat(self, texts: Sequence[str]) -> FlatIds:
        """Return the token ids of `encode` as flat arrays, which is faster for many texts."""
        if isinstance(texts, str):
            raise ValueError("encode takes a list of strings, not one string; write encode([text])")
        check_all_unicode(texts)
        chunks = log_batches(texts, CHUNK, "encoding", "texts")
        return concatenate_ids([*map(self._encode_chunk, chunks)])

    def find_language_code(self, text: str) -> str:
        """Return the language code at the start of a text, known or not; "" if there is none."""
        return ""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each token of `encode` in the text, in characters.

        The end is exclusive. White space before a word belongs to no token. A token without
        characters of its own, such as a mark of the start of a word, is empty.
        """
        (encoding,) = self._engine.encode_batch([text], add_special_tokens=False)
        starts = [end - len(text[start:end].lstrip()) for start, end in encoding.offsets]
        offsets = []
        for (_, end), start, after in zip(
            encoding.offsets, starts, [*starts, len(text)][1:], strict=True
        ):
            while end < after and _is_composed(text[end]):
                end += 1
            offsets.append((min(start, after), min(end, after)))
        return offsets

    def _encode_chunk(self, texts: Sequence[str]) -> FlatIds:
        """Return the token ids of each of one or more texts."""
        rows = self._engine.encode_batch_fast(texts, add_special_tokens=False)
        return FlatIds.from_rows([row.ids for row in rows])

    def _check_id(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocabulary_size:
            raise ValueError(
                f"token id {token_id} is outside the vocabulary of {self.vocabulary_size} tokens"
            )
        return token_id


def _is_composed(character: str) -> bool:
    """Return whether normalization (NFC) may compose a character with the one before it."""
    return unicodedata.combining(character) > 0 or "\u1161" <= character <= "\u11ff"

"""The tokenizers of `attention_zoo.data` in core TensorFlow operations, with the same ids.

Tables of character classes are filled by the tokenizer's own engine, so that both use the same
version of Unicode.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tokenizers import Regex, normalizers

from attention_zoo.data.tokenizers.tokenizer import (
    CJK,
    MARK,
    MAX_RUN,
    NOT_IN_WORDS,
    TOKENIZERS,
    WHITE_SPACE,
    Tokenizer,
)
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.export.graph_normalization import GraphNormalizer

SPACE, IN_WORDS, BEGINS_BARE = 1, 2, 4  # bits of the character classes
UNASSIGNED = slice(0x40001, 0xE0000)  # same classes as 0x40000
CODE_POINTS = [*range(0xD800), *range(0xE000, 0x40001), *range(0xE0000, 0x110000)]


class CharacterClasses(tf.Module):
    """The classes of characters, as defined by the tokenizer engine.

    Args:
        *insides: for each class, the text between the brackets in the engine's patterns, or its
            code points.
    """

    def __init__(self, *insides: str | Sequence[int]) -> None:
        super().__init__(name="character_classes")
        parts = tuple(part if isinstance(part, str) else tuple(part) for part in insides)
        self._starts, self._classes = map(tf.constant, _character_classes(parts))

    def __call__(self, characters: tf.Tensor) -> tf.Tensor:
        """Return one bit per class for code points, int32: 1 for the first, 2 for the second ..."""
        index = tf.searchsorted(self._starts, characters, side="right") - 1
        return tf.gather(self._classes, index)


class GraphTokens(tf.Module):
    """Texts and labels of token ids. A subclass sets `_surfaces` and `_labels`, one for each id."""

    _surfaces: tf.Tensor
    _labels: tf.Tensor

    def surfaces(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the text that each id adds to an output."""
        return tf.gather(self._surfaces, ids)

    def labels(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the label of each id."""
        return tf.gather(self._labels, ids)

    def decode(self, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the text and the label of each id."""
        return self.surfaces(ids), self.labels(ids)

    def find_unknown_codes(self, texts: tf.Tensor) -> tf.Tensor:
        """Return the unknown language code at the start of each text `(B,)`, "" for none."""
        return tf.zeros_like(texts)

    def bare(self, pieces: tf.Tensor) -> tf.Tensor:
        """Return the labels of pieces: the pieces without a leading mark, unless it is all."""
        return tf.strings.regex_replace(pieces, rf"\A{MARK}(.)", r"\1")


class GraphTokenizer(GraphTokens):
    """Conversion of strings to ids and back, as a tokenizer does it.

    Args:
        tokenizer: a registered `data.Tokenizer`.

    Raises:
        ValueError: if the tokenizer is not a registered `data.Tokenizer`.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(name="tokenizer")
        kind = type(tokenizer)
        if TOKENIZERS.get_name(kind) is None:
            raise ValueError(
                f"tokenizer {kind.__name__} cannot be exported (known:"
                f" {', '.join(TOKENIZERS.names())})"
            )
        self._to_nfc = GraphNormalizer()
        vocabulary = tokenizer.vocabulary
        self._ids = make_table(vocabulary, np.arange(len(vocabulary)), UNKNOWN)
        large, small = _list_lowercase()
        self._lower = make_table(large, small, "") if tokenizer.lowercase else None
        self._classes_of = CharacterClasses(WHITE_SPACE, f"^{NOT_IN_WORDS}", CJK)
        self._marks_start = tokenizer.marks_start
        self._cut = CUTS[tokenizer.kind]
        self._longest = max(map(len, vocabulary)) if tokenizer.kind == "subword" else None
        self._vocabulary = tf.constant(vocabulary)
        self._surfaces = tf.constant([tokenizer.decode_one(i) for i in range(len(vocabulary))])
        self._labels = tf.constant(tokenizer.tokens(range(len(vocabulary))))

    # Text to ids.

    def encode(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return the ids of texts `(B,)`, ragged `(B, S)` int32, and their strings with marks.

        Invalid UTF-8 is replaced by U+FFFD.
        """
        characters = self._normalize(texts)
        flat, rows = characters.flat_values, characters.value_rowids()
        classes = self._classes_of(flat)
        starts = self._cut(rows, flat == ord(MARK), classes & IN_WORDS > 0)
        pieces = tf.RaggedTensor.from_row_starts(flat, tf.where(starts)[:, 0])
        words = tf.strings.unicode_encode(pieces, "UTF-8")
        text_rows = tf.boolean_mask(rows, starts)
        if self._longest is None:  # one id per piece
            tokens = tf.RaggedTensor.from_tensor(self._ids.lookup(words)[:, None])
        else:
            tokens = match_longest_tokens(words, self._ids, self._longest, UNKNOWN)
        strings = tf.repeat(words, tokens.row_lengths())
        ids = tokens.flat_values
        strings = tf.where(ids == UNKNOWN, strings, tf.gather(self._vocabulary, ids))
        text_rows = tf.repeat(text_rows, tokens.row_lengths())
        tokens = tf.RaggedTensor.from_value_rowids(ids, text_rows, tf.size(texts, tf.int64))
        return tokens, tokens.with_values(strings)

    def _normalize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the code points `(B, C)` of texts in NFC, with lowercase letters and marks.

        Each run of white space becomes one mark. Marks at both ends are removed, then a mark is put
        in front if the tokenizer does so.
        """
        texts = self._to_nfc(texts)
        if self._lower is not None:
            characters = tf.strings.unicode_split(texts, "UTF-8")
            small = self._lower.lookup(characters.flat_values)
            small = tf.where(small == "", characters.flat_values, small)
            texts = tf.strings.reduce_join(characters.with_flat_values(small), axis=-1)
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        flat, rows = characters.flat_values, characters.value_rowids()
        space = self._classes_of(flat) & SPACE > 0
        kept = ~(space & (is_first_of_row(rows) | shift_right(space)))
        flat = tf.boolean_mask(tf.where(space, ord(MARK), flat), kept)
        rows = tf.boolean_mask(rows, kept)
        last = tf.concat([rows[1:] != rows[:-1], tf.ones_like(rows[:1], "bool")], 0)
        kept = ~(last & (flat == ord(MARK)))
        flat, rows = tf.boolean_mask(flat, kept), tf.boolean_mask(rows, kept)
        characters = tf.RaggedTensor.from_value_rowids(flat, rows, tf.size(texts, tf.int64))
        return self._prepend_marks(characters) if self._marks_start else characters

    def _prepend_marks(self, characters: tf.RaggedTensor) -> tf.RaggedTensor:
        """Prepend a mark to the rows that do not start with a CJK character."""
        flat, rows = characters.flat_values, characters.value_rowids()
        bare = self._classes_of(flat) & BEGINS_BARE > 0
        marked = tf.boolean_mask(rows, is_first_of_row(rows) & ~bare)
        mark = tf.fill(tf.shape(marked), ord(MARK))
        marks = tf.RaggedTensor.from_value_rowids(mark, marked, characters.nrows())
        return tf.concat([marks, characters], axis=1)

    # Ids to text.

    def text(self, surfaces: tf.Tensor) -> tf.Tensor:
        """Join surfaces `(..., L)` to texts."""
        joined = tf.strings.regex_replace(tf.strings.reduce_join(surfaces, axis=-1), MARK, " ")
        return tf.strings.regex_replace(joined, r"\A ", "") if self._marks_start else joined


def match_longest_tokens(
    words: tf.Tensor,
    table: tf.lookup.StaticHashTable,
    longest: int,
    unknown: int,
    prefix: str = "",
) -> tf.RaggedTensor:
    """Return the ids of the longest tokens of words `(N,)` from left to right, ragged `(N, S)`.

    Args:
        words: strings; a word that tokens do not cover completely is unknown.
        table: ids by token; its default is the unknown token.
        longest: length of the longest token, in characters.
        unknown: id of the unknown token.
        prefix: prefix of tokens that continue a word.
    """
    sizes = tf.strings.length(words, "UTF8_CHAR")
    count = tf.size(words)

    def is_running(begins: tf.Tensor, ids: tf.Tensor, matched: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(matched & (begins < sizes))

    def match_next(begins: tf.Tensor, running: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return id and length of the longest token at a position of each word, or -1 and 0."""
        lengths = tf.range(longest, 0, -1)
        repeated = tf.repeat(tf.gather(words, running), longest), tf.repeat(begins, longest)
        parts = tf.strings.substr(*repeated, tf.tile(lengths, tf.shape(begins)), "UTF8_CHAR")
        if prefix:
            parts = tf.where(repeated[1] > 0, tf.strings.join([prefix, parts]), parts)
        ids = tf.reshape(table.lookup(parts), [-1, longest])
        left = tf.gather(sizes, running) - begins
        fits = (ids != unknown) & (lengths <= left[:, None])
        best = tf.argmax(fits, axis=1, output_type="int32")
        is_match = tf.reduce_any(fits, axis=1)
        best_ids = tf.where(is_match, tf.gather(ids, best, batch_dims=1), -1)
        return best_ids, tf.where(is_match, tf.gather(lengths, best), 0)

    def match(begins: tf.Tensor, ids: tf.Tensor, matched: tf.Tensor) -> tuple[tf.Tensor, ...]:
        running = tf.where(matched & (begins < sizes))[:, 0]
        next_ids, lengths = match_next(tf.gather(begins, running), running)
        index = running[:, None]
        begins = tf.tensor_scatter_nd_add(begins, index, lengths)
        matched = tf.tensor_scatter_nd_update(matched, index, next_ids >= 0)
        column = tf.tensor_scatter_nd_update(tf.fill([count], -1), index, next_ids)
        return begins, tf.concat([ids, column[:, None]], axis=1), matched

    initial = tf.zeros([count], "int32"), tf.zeros([count, 0], "int32"), sizes > 0
    shapes = tf.TensorShape([None]), tf.TensorShape([None, None]), tf.TensorShape([None])
    _, ids, matched = tf.while_loop(is_running, match, initial, shapes)
    ids = tf.where(matched[:, None], ids, -1)
    unknown_ids = tf.where(matched, -1, unknown)[:, None]
    ids = tf.concat([unknown_ids, ids], axis=1)
    return tf.ragged.boolean_mask(ids, ids >= 0)


def _every(rows: tf.Tensor, mark: tf.Tensor, in_words: tf.Tensor) -> tf.Tensor:
    """Start a piece at every character."""
    return tf.ones_like(mark)


def _at_marks(rows: tf.Tensor, mark: tf.Tensor, in_words: tf.Tensor) -> tf.Tensor:
    """Start pieces at marks and at the start of a text."""
    return mark | is_first_of_row(rows)


def _in_words(rows: tf.Tensor, mark: tf.Tensor, in_words: tf.Tensor) -> tf.Tensor:
    """Start pieces at marks, at characters that do not continue a word, and in long words.

    A character after a mark never starts a piece. A run of word characters is split after every
    MAX_RUN characters.
    """
    first = is_first_of_row(rows)
    after_mark = shift_right(mark) & ~first
    continues = in_words & shift_right(in_words) & ~first
    positions = tf.range(tf.size(rows))
    run = tf.cumsum(tf.cast(~continues, "int32")) - 1
    begins = tf.boolean_mask(positions, ~continues)
    full = (positions - tf.gather(begins, run)) % MAX_RUN == 0
    return tf.where(continues, full, ~after_mark)


CUTS = {"character": _every, "whitespace": _at_marks, "word": _in_words, "subword": _in_words}


def is_first_of_row(rows: tf.Tensor) -> tf.Tensor:
    """Return whether each position is the first of its row; `rows` has the row of each."""
    return tf.concat([tf.ones_like(rows[:1], "bool"), rows[1:] != rows[:-1]], 0)


def shift_right(flags: tf.Tensor) -> tf.Tensor:
    """Return the flag of the previous position; False at the first."""
    return tf.concat([tf.zeros_like(flags[:1]), flags[:-1]], 0)


def make_table(keys: Any, values: Any, default: Any) -> tf.lookup.StaticHashTable:
    values = tf.constant(values, "int32") if isinstance(default, int) else tf.constant(values)
    content = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), values)
    return tf.lookup.StaticHashTable(content, default)


@functools.cache
def _list_lowercase() -> tuple[list[str], list[str]]:
    """Return the characters that lowercasing changes, and their lowercase forms."""
    characters = [chr(c) for c in CODE_POINTS if chr(c) != "\n"]
    small = normalizers.Lowercase().normalize_str("\n".join(characters)).split("\n")
    pairs = [(one, other) for one, other in zip(characters, small, strict=True) if one != other]
    return [one for one, _ in pairs], [other for _, other in pairs]


@functools.cache
def _character_classes(
    insides: tuple[str | tuple[int, ...], ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the start of each range of code points in the same classes, and its class bits."""
    classes = np.zeros(0x110000, "int32")
    for number, inside in enumerate(insides):
        codes = _list_code_points(inside) if isinstance(inside, str) else list(inside)
        classes[codes] |= 1 << number
    classes[UNASSIGNED] = classes[UNASSIGNED.start - 1]
    starts = np.flatnonzero(np.diff(classes, prepend=-1))
    return starts.astype("int32"), classes[starts]


def _list_code_points(inside: str) -> list[int]:
    """Return the code points of a class, given by the inside of its brackets in a pattern."""
    text = "".join(map(chr, CODE_POINTS))
    others = set(normalizers.Replace(Regex(f"[{inside}]+"), "").normalize_str(text))
    return [c for c in CODE_POINTS if chr(c) not in others]

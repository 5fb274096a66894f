"""Equivalent of `data.split_words` in core TensorFlow operations."""

from __future__ import annotations

import tensorflow as tf

from attention_zoo.data.text.words import (
    DIGIT_JOINERS,
    DIGITS,
    EXTENDERS,
    INVISIBLE,
    JOINERS,
    LETTERS,
    SYMBOLS,
    ZERO_WIDTH_JOINER,
)
from attention_zoo.export.graph_tokenizer import CharacterClasses, is_first_of_row, shift_right

# Bits of the character classes.
INVISIBLE_BIT, LETTER, DIGIT, SYMBOL, EXTENDER, JOINER, DIGIT_JOINER, TIE_BIT = (
    1 << number for number in range(8)
)


class GraphWords(tf.Module):
    """Word splitter with the same words and offsets as `data.split_words`.

    A visible character either continues the current word or starts a new one. Which one depends on
    its neighbours and on the base character before it, the last one that is not an extender (such
    as a combining mark).
    """

    def __init__(self) -> None:
        super().__init__(name="words")
        classes = INVISIBLE, LETTERS, DIGITS, SYMBOLS, EXTENDERS, JOINERS, DIGIT_JOINERS
        self._classes_of = CharacterClasses(*classes, ZERO_WIDTH_JOINER)

    def split(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Return the words of texts `(B,)`, ragged `(B, W)`, and their start and end, int32.

        Start and end are character offsets, the end exclusive. Invalid UTF-8 is replaced by U+FFFD.
        """
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        flat, rows = characters.flat_values, characters.value_rowids()
        classes = self._classes_of(flat)
        visible = classes & INVISIBLE_BIT == 0
        begins = visible & ~_continues_word(classes, is_first_of_row(rows))
        at = tf.ragged.range(characters.row_lengths()).flat_values
        starts = tf.cast(tf.boolean_mask(at, begins), "int32")
        first_letters = tf.where(tf.boolean_mask(begins, visible))[:, 0]
        letters = tf.RaggedTensor.from_row_starts(tf.boolean_mask(flat, visible), first_letters)
        ends = starts + tf.cast(letters.row_lengths(), "int32")
        text_rows, batch = tf.boolean_mask(rows, begins), tf.size(texts, tf.int64)
        encoded = tf.strings.unicode_encode(letters, "UTF-8")
        words = tf.RaggedTensor.from_value_rowids(encoded, text_rows, batch)
        return words, words.with_values(starts), words.with_values(ends)


def _continues_word(classes: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    """Return for each character whether it belongs to the word of the previous character."""

    def has(bits: int, of: tf.Tensor = classes) -> tf.Tensor:
        return of & bits > 0

    def before(flags: tf.Tensor) -> tf.Tensor:
        return shift_right(flags) & ~first

    def after(flags: tf.Tensor) -> tf.Tensor:
        there = flags & ~first
        return tf.concat([there[1:], tf.zeros_like(there[:1])], 0)

    extends = has(EXTENDER) & before(~has(INVISIBLE_BIT))
    solid = ~extends
    base = tf.gather(tf.boolean_mask(classes, solid), tf.cumsum(tf.cast(solid, "int32")) - 1)
    of_letter, of_symbol = before(has(LETTER, base)), before(has(SYMBOL, base))
    joins_letters = has(JOINER) & of_letter & after(has(LETTER))
    joins = joins_letters | (has(DIGIT_JOINER) & before(has(DIGIT)) & after(has(DIGIT)))
    letter = has(LETTER) & (of_letter | before(joins))
    tied = has(SYMBOL) & before(has(TIE_BIT)) & of_symbol
    return extends | joins | letter | tied

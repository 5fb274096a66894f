"""Equivalent of `data.split_sentences` in core TensorFlow operations."""

from __future__ import annotations

import tensorflow as tf

from attention_zoo.data.text.sentences import BOUNDARIES, PIECES, SPACES
from attention_zoo.export.graph_tokenizer import is_first_of_row, shift_right
from attention_zoo.registry import check_choice

DELIMITER = b"\xff"  # occurs in no UTF-8 text


class GraphSentences(tf.Module):
    """Sentence splitter with the same sentences as `data.split_sentences`.

    Args:
        rule: "punctuation" or "lines".

    Raises:
        ValueError: for an unknown rule.
    """

    def __init__(self, rule: str = "punctuation") -> None:
        super().__init__(name="sentences")
        check_choice("rule", rule, BOUNDARIES)
        self._boundary = BOUNDARIES[rule]

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the sentences of texts `(B,)`, ragged `(B, L)` strings.

        Invalid UTF-8 is replaced by U+FFFD.
        """
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        marked = tf.strings.regex_replace(texts, f"({PIECES})", rb"\1" + DELIMITER)
        ragged = tf.strings.split(marked, DELIMITER)
        pieces, rows = ragged.flat_values, ragged.value_rowids()
        following = tf.concat([pieces[1:], tf.fill(tf.shape(pieces[:1]), "")], 0)
        first_characters = tf.strings.substr(following, 0, 1, "UTF8_CHAR")
        is_boundary = tf.strings.regex_full_match(pieces + first_characters, self._boundary)
        starts = is_first_of_row(rows) | shift_right(is_boundary)
        numbers = tf.cumsum(tf.cast(starts, "int64")) - 1
        sentences = tf.strings.reduce_join(tf.RaggedTensor.from_value_rowids(pieces, numbers), -1)
        sentences = tf.strings.regex_replace(sentences, f"^[{SPACES}]+|[{SPACES}]+$", "")
        rows = tf.boolean_mask(rows, starts)
        is_visible = sentences != ""
        return tf.RaggedTensor.from_value_rowids(
            tf.boolean_mask(sentences, is_visible),
            tf.boolean_mask(rows, is_visible),
            tf.size(texts, tf.int64),
        )

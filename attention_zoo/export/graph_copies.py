"""Token ids with a copy mechanism in core TensorFlow operations, equal to those in training."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from attention_zoo.data.tokenizers.tokenizer import Tokenizer
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer


class CopiedIds(NamedTuple):
    """Texts as token ids, in which unknown words can have ids of their own.

    Attributes:
        ids: ragged `(B, S)` int32; the k-th distinct unknown word of a text, from 0, has id V + k.
        pieces: the string of each id, with its space marker, ragged `(B, S)`.
        words: the strings of the ids V, V + 1, .. of each text, ragged `(B, K)`.
    """

    ids: tf.RaggedTensor
    pieces: tf.RaggedTensor
    words: tf.RaggedTensor


class GraphCopies(tf.Module):
    """Conversion of strings to ids and back, in which unknown source words have ids of their own.

    A word outside the vocabulary of size V gets id V + k, where k is its index among the distinct
    unknown words of its text, in order of first appearance. Words with k >= C remain unknown.

    Args:
        tokenizer: a tokenizer that `make_graph_tokenizer` supports.
        copies: C.

    Raises:
        ValueError: if the tokenizer cannot be exported.
    """

    def __init__(self, tokenizer: Tokenizer, copies: int) -> None:
        super().__init__(name="copies")
        self.tokenizer = make_graph_tokenizer(tokenizer)
        self._size, self._copies = tokenizer.vocabulary_size, copies
        self._unknown = tokenizer.decode_one(UNKNOWN)

    def encode(self, texts: tf.Tensor) -> CopiedIds:
        """Return the ids of texts `(B,)`."""
        ids, pieces = self.tokenizer.encode(texts)
        at = tf.where(ids.flat_values == UNKNOWN)
        rows, words = (tf.gather(x, at[:, 0]) for x in (ids.value_rowids(), pieces.flat_values))
        numbers, first = _numbers(rows, words)
        new = tf.where(numbers < self._copies, self._size + numbers, UNKNOWN)
        first = tf.boolean_mask(first, tf.gather(numbers, first) < self._copies)
        extended = tf.tensor_scatter_nd_update(ids.flat_values, at, new)
        first_words, first_rows = tf.gather(words, first), tf.gather(rows, first)
        own_words = tf.RaggedTensor.from_value_rowids(first_words, first_rows, ids.nrows())
        return CopiedIds(ids.with_flat_values(extended), pieces, own_words)

    def encode_targets(
        self, texts: tf.Tensor, words: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return the ids of targets `(B,)`, ragged `(B, T)`, and the label of each id.

        Args:
            texts: targets.
            words: as returned by `encode` for their sources.
        """
        ids, pieces = self.tokenizer.encode(texts)
        row_words = tf.gather(words.to_tensor(""), ids.value_rowids())
        matches = (row_words == pieces.flat_values[:, None]) & (ids.flat_values == UNKNOWN)[:, None]
        number = tf.argmax(tf.pad(matches, [[0, 0], [0, 1]], constant_values=True), axis=1)
        number = tf.where(tf.reduce_any(matches, axis=1), tf.cast(number, "int32"), -1)
        extended = tf.where(number >= 0, self._size + number, ids.flat_values)
        return ids.with_flat_values(extended), pieces.with_flat_values(
            self.tokenizer.bare(pieces.flat_values)
        )

    def decode(self, ids: tf.Tensor, words: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the text that ids `(B, ..)` stand for, with space markers, and their labels.

        Args:
            ids: below V + C; an id without a word in the text is shown as unknown.
            words: as returned by `encode`.
        """
        table = words.to_tensor(self._unknown)
        none = tf.fill([tf.shape(table)[0], 1], self._unknown)
        number = tf.clip_by_value(ids - self._size, 0, tf.shape(table)[1])
        copied = tf.gather(tf.concat([table, none], axis=1), number, batch_dims=1)
        surfaces, labels = self.tokenizer.decode(tf.minimum(ids, self._size - 1))
        is_known = ids < self._size
        labels = tf.where(is_known, labels, self.tokenizer.bare(copied))
        return tf.where(is_known, surfaces, copied), labels


def _numbers(rows: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the index of each word among the distinct words of its row, and their first positions.

    Words are equal if their strings are equal; each row is numbered separately.

    Args:
        rows: the row of each word, ascending, `(N,)`.
        words: `(N,)`.
    """
    distinct, through = tf.unique(tf.strings.join([tf.strings.as_string(rows), words], " "))
    before = tf.math.segment_min(through, rows)
    first = tf.math.unsorted_segment_min(tf.range(tf.size(rows)), through, tf.size(distinct))
    return through - tf.gather(before, rows), first

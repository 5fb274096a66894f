"""`metrics.read_spans` for tag ids, in core TensorFlow operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from attention_zoo.export.graph_tokenizer import is_first_of_row, shift_right
from attention_zoo.ops.tag_schemes import OUTSIDE, OUTSIDE_TAG, get_tag_scheme, split_tag


class Spans(NamedTuple):
    """The spans of B tagged sentences, ragged `(B, S)`.

    Attributes:
        starts, ends: int32, indices of a span's first word and of the word after its last.
        labels: strings, the types of the spans.
        least: minimum over a span of the values of its words.
    """

    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    labels: tf.RaggedTensor
    least: tf.RaggedTensor


class GraphSpans(tf.Module):
    """Extractor of the spans that tags encode.

    Args:
        tags: tag names, by id.
        scheme: see `metrics.read_spans`; None if tags encode no spans.

    Raises:
        ValueError: for an unknown scheme, or a tag that does not belong to the scheme.
    """

    def __init__(self, tags: Sequence[str], scheme: str | None) -> None:
        super().__init__(name="spans")
        parsed = [OUTSIDE_TAG for _ in tags]
        begins, continues = frozenset[str](), ""
        if scheme is not None:
            parsed, rules = [split_tag(tag, scheme) for tag in tags], get_tag_scheme(scheme)
            begins, continues = rules.span_letters(), rules.continuable
        kinds = sorted({kind for _, kind in parsed})
        self._labels = tf.constant([kind for _, kind in parsed])
        self._kinds = tf.constant([kinds.index(kind) for _, kind in parsed])
        self._inside, self._begins, self._continues = (
            tf.constant([letter in letters for letter, _ in parsed])
            for letters in ({letter for letter, _ in parsed} - {OUTSIDE}, begins, continues)
        )

    def read(self, tags: tf.RaggedTensor, values: tf.RaggedTensor) -> Spans:
        """Return the spans of tag ids, ragged `(B, W)`; `values` has one number per word."""
        flat, rows = tags.flat_values, tags.value_rowids()
        inside, first = tf.gather(self._inside, flat), is_first_of_row(rows)
        follows = shift_right(tf.gather(self._continues, flat)) & ~first
        kinds = tf.gather(self._kinds, flat)
        same = tf.concat([kinds[:1], kinds[:-1]], 0) == kinds
        continues = inside & follows & same & ~tf.gather(self._begins, flat)
        begins = inside & ~continues
        ends_span = inside & ~tf.concat([continues[1:], tf.zeros_like(continues[:1])], 0)
        words = tf.cast(tf.ragged.range(tags.row_lengths()).flat_values, "int32")
        number = tf.cumsum(tf.cast(begins, "int32")) - 1
        inner = (tf.boolean_mask(one, inside) for one in (values.flat_values, number))
        first_words, rows = tf.boolean_mask(words, begins), tf.boolean_mask(rows, begins)
        starts = tf.RaggedTensor.from_value_rowids(first_words, rows, tags.nrows())
        ends = tf.boolean_mask(words + 1, ends_span)
        labels = tf.boolean_mask(tf.gather(self._labels, flat), begins)
        parts = ends, labels, tf.math.segment_min(*inner)
        return Spans(starts, *map(starts.with_values, parts))

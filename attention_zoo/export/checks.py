"""Checks in the graph of inputs that `predict` rejects."""

from __future__ import annotations

import tensorflow as tf


def refuse_empty(lengths: tf.Tensor, called: str = "source") -> tf.Operation:
    """Fail in the graph if one of the lengths `(B,)` is 0; the message has the first such row.

    Args:
        lengths: of the sources.
        called: what the message calls a source.
    """
    row = tf.where(lengths == 0)[:1, 0]
    return tf.debugging.Assert(tf.size(row) == 0, [called, row, "is empty"])


def refuse_long(lengths: tf.Tensor, limit: int, text: str) -> tf.Operation:
    """Fail in the graph if a source is longer than the limit; the message has the first such row.

    Args:
        lengths: of the sources, `(B,)`.
        limit: maximum length.
        text: message text between the length and the limit.
    """
    row = tf.where(lengths > limit)[:1, 0]
    message = ["source", row, "has", tf.gather(lengths, row), text, limit]
    return tf.debugging.Assert(tf.size(row) == 0, message)

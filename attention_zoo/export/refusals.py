"""What an exported graph refuses, and with it the batch: what `predict` refuses."""

from __future__ import annotations

import tensorflow as tf


def refuse_empty(lengths: tf.Tensor) -> tf.Operation:
    """Refuses sources `(B,)` of which one has length 0, naming the first such row."""
    row = tf.where(lengths == 0)[:1, 0]
    return tf.debugging.Assert(tf.size(row) == 0, ["source", row, "is empty"])


def refuse_long(lengths: tf.Tensor, limit: int, told: str) -> tf.Operation:
    """Refuses sources `(B,)` of which one is longer than the limit, naming the first such row.

    Args:
        lengths: of the sources.
        limit: the greatest that is let in.
        told: of what they are lengths, up to the limit in the message.
    """
    row = tf.where(lengths > limit)[:1, 0]
    message = ["source", row, "has", tf.gather(lengths, row), told, limit]
    return tf.debugging.Assert(tf.size(row) == 0, message)

"""What an export refuses: of a task what it has no use for, in its graph what `predict` refuses."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from attention_zoo.decoding import Rule


def refuse_rules(rules: Sequence[Rule], task: str) -> None:
    """ValueError if there are rules, of a task that has no search."""
    if rules:
        raise ValueError(f"rules are for searches, and {task} has none; leave them out")


def refuse_empty(lengths: tf.Tensor, called: str = "source") -> tf.Operation:
    """Refuses the batch if one of the lengths `(B,)` is 0, naming the first such row.

    Args:
        lengths: of the sources.
        called: what one of them is called in the message.
    """
    row = tf.where(lengths == 0)[:1, 0]
    return tf.debugging.Assert(tf.size(row) == 0, [called, row, "is empty"])


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

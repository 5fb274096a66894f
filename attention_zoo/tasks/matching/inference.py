"""Inference of matchers on encoded pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import ops

from attention_zoo.layers.attention.expected_lengths import (
    expect_long_sequences,
    expects_long_sequences,
)
from attention_zoo.tasks.inference import Arrays, Inference, PaddedShape
from attention_zoo.tasks.matching.texts import EncodedPair
from attention_zoo.tasks.text_inputs import pad_batch, round_up
from attention_zoo.typing import Tensor


class MatcherInference(Inference):
    """Inference of a matcher: log probabilities of classes, or one number, and the alignment.

    Args:
        matcher: a `models.Matcher`.
        attention: also return the alignment, if the matcher has attention.
        expect_long: whether texts may be long, see `expect_long_sequences`.
    """

    def __init__(
        self, matcher: keras.Model, attention: bool = False, expect_long: bool = False
    ) -> None:
        super().__init__(matcher, expect_long)
        self.use_attention = attention

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `outputs` and, if requested, `alignment` `(B, S, T)`, float32.

        `outputs` are the log probabilities of the classes `(B, K)`, or `(B, 1)` without classes.
        """
        alignment = None
        with expect_long_sequences(self.expect_long or expects_long_sequences()):
            if self.use_attention:
                logits, alignment = self.model(inputs, training=False, return_attention_scores=True)
            else:
                logits = self.model(inputs, training=False)
        logits = ops.cast(logits, "float32")
        outputs = logits if self.model.classes is None else ops.log_softmax(logits, axis=-1)
        if alignment is None:
            return {"outputs": outputs}
        return {"outputs": outputs, "alignment": ops.cast(alignment, "float32")}


def compute_shape(pair: EncodedPair, limits: tuple[int, int]) -> PaddedShape:
    """Return the padded lengths of both texts of a pair, at most their limits."""
    lengths = len(pair.first), len(pair.second)
    return tuple(min(round_up(n), limit) for n, limit in zip(lengths, limits, strict=True))


def pad_pairs(pairs: Sequence[EncodedPair], shape: PaddedShape) -> Arrays:
    """Return the inputs of a matcher, padded to lengths of both texts."""
    return {
        "first": pad_batch([pair.first for pair in pairs], len(pairs), shape[0]),
        "second": pad_batch([pair.second for pair in pairs], len(pairs), shape[1]),
    }

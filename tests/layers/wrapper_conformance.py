"""Conformance of the named classes that only set defaults of `Attention`."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers import Attention
from tests.layers.attention_case import VALUE_MASK, AttentionCase
from tests.layers.layer_laws import ConfigurationTests, DocumentationTests, without_names
from tests.layers.running import arrays, randomise, same


class WrapperConformance(AttentionCase, ConfigurationTests, DocumentationTests):
    """A named class equals the `Attention` of its score and alignment; nothing is computed here.

    What it computes is tested once, for the score, for the alignment and for `Attention`.
    """

    def equivalent(self) -> Attention:
        """The attention that the class is with its defaults, spelled out."""
        raise TypeError(f"{type(self).__name__} does not say which Attention it equals")

    def test_defaults_equal_attention(self) -> None:
        layer, other = self.covers(), self.equivalent()
        for part in ("score", "alignment"):
            first, second = (
                keras.saving.serialize_keras_object(getattr(x, part)) for x in (layer, other)
            )
            assert without_names(first) == without_names(second)
        assert (layer.dropout, layer.seed) == (other.dropout, other.seed)
        tensors = self.tensors()
        for x in (layer, other):
            x(*tensors)
        randomise(layer)
        other.set_weights(layer.get_weights())
        switches = {"return_attention_scores": True, "return_state": True}
        first, second = (
            keras.tree.flatten(arrays(x(*tensors, value_mask=VALUE_MASK, **switches)))
            for x in (layer, other)
        )
        same(first, second)

    def test_dtype_reaches_score_and_alignment(self) -> None:
        layer: Any = self.make(dtype="mixed_bfloat16")
        assert layer.score.dtype_policy.name == "mixed_bfloat16"
        assert layer.alignment.dtype_policy.name == "mixed_bfloat16"

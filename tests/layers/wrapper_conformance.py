"""Conformance of the named classes that only set defaults of `Attention`."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers import Attention
from tests.layers.attention_case import VALUE_MASK, AttentionCase
from tests.layers.keras_conformance import KerasContract
from tests.layers.layer_conformance import ConfigurationTests, DocumentationTests, without_names
from tests.layers.running import arrays, randomise, same


class WrapperConformance(AttentionCase, ConfigurationTests, DocumentationTests, KerasContract):
    """A named class equals `Attention` with its score and alignment, whose tests cover values."""

    def equivalent(self) -> Attention:
        """Return `Attention` with the score and alignment that the class has by default."""
        raise NotImplementedError

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

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import (
    SelfAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    WindowedAttention,
)
from attention_zoo.ops import implicit_mask
from tests.layers.attention_case import numbers, softmax
from tests.layers.mask_conformance import masked
from tests.layers.running import JAX, MODES, array, arrays, close, compiled, randomise, same
from tests.layers.structure_conformance import Arrays, StructureConformance
from tests.variants import numerics_only

B, T, D = 3, 5, 6
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1]], "bool")


class SelfCase(StructureConformance):
    covers = SelfAttention

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, *lengths, D),)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> Arrays:
        (x,), (mask,) = tensors, masks
        return self.expected(numbers(layer), x, mask[:, None] & mask[:, :, None])

    def expected(self, weights: dict[str, np.ndarray], x: np.ndarray, mask: np.ndarray) -> Any:
        """Outputs and weights in float64; the mask is `(B, T, T)`."""
        raise TypeError(f"{type(self).__name__} has no oracle")

    @pytest.mark.numerics
    def test_oracle(self) -> None:
        """100 random cases of five shapes, causal or with pads."""
        rng = np.random.default_rng(7)
        for shape in range(2 if JAX else 5):
            batch, steps = int(rng.integers(1, 5)), int(rng.integers(1, 8))
            layer = self.make_random()
            randomise(layer, shape)
            run = compiled(
                lambda x, mask, layer=layer: (
                    layer(x, mask=mask, return_attention_scores=True),
                    layer(x, use_causal_mask=True, return_attention_scores=True),
                ),
                MODES[1],
            )
            for seed in range(20):
                (x,) = self.random(batch, (steps,), seed)
                mask = rng.random((batch, steps)) > 0.3
                pads, causal = arrays(run(x, mask))
                both = mask[:, None] & mask[:, :, None]
                past = np.tril(np.ones((steps, steps), "bool")) & np.ones((batch, 1, 1), "bool")
                for got, allowed in ((pads, both), (causal, past)):
                    expected = self.expected(numbers(layer), x.astype("float64"), allowed)
                    close(got[0], expected[0], 1e-6)
                    close(got[1], expected[1], 1e-6)

    def test_mask_is_passed_on_and_inputs_keep_their_masks(self) -> None:
        layer, (x,) = self.make_random(), self.tensors()
        other = np.roll(MASK, 1, axis=1)
        assert implicit_mask(layer(x)) is None
        same(implicit_mask(layer(x, mask=MASK)), MASK)
        carrying = masked(x, MASK)
        outputs, _ = layer(carrying, mask=other, return_attention_scores=True)
        same(implicit_mask(outputs), MASK & other)
        same(implicit_mask(carrying), MASK)

    def test_mask_reaches_the_second_layer_of_a_functional_model(self) -> None:
        tokens = keras.Input((None,), dtype="int32")
        embedded = keras.layers.Embedding(9, D, mask_zero=True)(tokens)
        model = keras.Model(tokens, self.make()(self.make()(embedded)))
        randomise(model)
        ids = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
        outputs = model(ids)
        same(implicit_mask(outputs), ids != 0)
        assert not array(outputs)[0, 3:].any()
        close(array(outputs)[:1, :3], model(ids[:1, :3]), 1e-5)

    def test_causal_attention_ignores_later_positions(self) -> None:
        layer, (x,) = self.make_random(), self.tensors()
        before = array(layer(x, use_causal_mask=True))
        later = x.copy()
        later[:, 3:] += 2
        after = array(layer(later, use_causal_mask=True))
        same(after[:, :3], before[:, :3])
        assert np.abs(after[:, 3:] - before[:, 3:]).max() > 1e-3

    def test_dropout_acts_in_training_only(self) -> None:
        plain, (x,) = self.make_random(), self.tensors()
        layer = self.make_random(dropout=0.5, seed=3)
        same(layer(x), plain(x))
        first, weights = arrays(layer(x, return_attention_scores=True, training=True))
        same(weights, plain(x, return_attention_scores=True)[1])
        assert np.abs(first - array(plain(x))).max() > 1e-3


class TestSelfAttention(SelfCase):
    """The simplest form, without weights."""

    changed = {
        "use_projection": True,
        "units": 4,
        "score": "general",
        "alignment": "sparsemax",
        "dropout": 0.3,
        "seed": 5,
    }
    together = {**SelfCase.together, "units": {"use_projection": True}}

    def expected(self, weights: dict[str, np.ndarray], x: np.ndarray, mask: np.ndarray) -> Any:
        attention_weights = softmax(np.einsum("bid,bjd->bij", x, x), mask)
        return np.einsum("bij,bjd->bid", attention_weights, x), attention_weights

    test_widths_other_than_built_are_rejected = None  # nothing is built

    def test_nothing_is_learned(self) -> None:
        layer = self.make_random()
        assert layer.weights == []
        assert tuple(layer(np.ones((2, 3, D + 1), "float32")).shape) == (2, 3, D + 1)


@numerics_only
class TestSelfAttentionWithProjections(SelfCase):
    options = {"use_projection": True, "units": 4, "score": "scaled_dot"}

    def expected(self, weights: dict[str, np.ndarray], x: np.ndarray, mask: np.ndarray) -> Any:
        query, key, value = (
            np.einsum("bid,da->bia", x, weights[f"{name}_projection"])
            for name in ("query", "key", "value")
        )
        attention_weights = softmax(np.einsum("bia,bja->bij", query, key) / 2, mask)
        return np.einsum("bij,bja->bia", attention_weights, value), attention_weights


def test_worked_by_hand() -> None:
    """x = (0, a, b) with a^2 = ln 2, b = 2 a: the products are 0, ln 2, ln 4 and ln 16.

    Row 1 weighs 1 : 1 : 1, row 2 weighs 1 : 2 : 4, row 3 weighs 1 : 4 : 16.
    """
    a = np.sqrt(np.log(2))
    x = np.array([[[0.0], [a], [2 * a]]], "float32")
    outputs, weights = SelfAttention()(x, return_attention_scores=True)
    expected = [[1 / 3, 1 / 3, 1 / 3], [1 / 7, 2 / 7, 4 / 7], [1 / 21, 4 / 21, 16 / 21]]
    np.testing.assert_allclose(array(weights)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(array(outputs)[0, :, 0], [a, 10 * a / 7, 36 * a / 21], rtol=1e-6)


def test_width_of_the_projections() -> None:
    x = np.ones((1, 2, 3), "float32")
    for units, width in ((None, 3), (5, 5)):
        layer = SelfAttention(use_projection=True, units=units)
        assert tuple(layer(x).shape) == (1, 2, width)
        assert [tuple(w.shape) for w in layer.weights] == [(3, width)] * 3
        assert layer.compute_output_shape(x.shape) == (1, 2, width)
        with pytest.raises(ValueError, match=r"inputs must be \(batch, steps, 3\), got shape"):
            layer(np.ones((2, 3, 5), "float32"))


@pytest.mark.parametrize(("score", "alignment"), [("additive", "hard"), ("general", "monotonic")])
def test_any_score_and_alignment(score: str, alignment: str) -> None:
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    layer = SelfAttention(score=score, alignment=alignment)
    outputs, weights = layer(x, mask=MASK, return_attention_scores=True)
    assert not array(weights)[~(MASK[:, None] & MASK[:, :, None])].any()
    assert tuple(outputs.shape) == (B, T, D)


@pytest.mark.parametrize("windowed", [False, True])
def test_attention_mask_and_bias(windowed: bool) -> None:
    """They reach the attention layer inside."""
    layer = WindowedAttention(2, 3, window=2) if windowed else SelfAttention()
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(B, T, D)).astype("float32"), rng.random((B, T, T)) > 0.3
    bias = rng.normal(size=(T, T)).astype("float32")
    got = layer(x, attention_mask=mask, attention_bias=bias, return_attention_scores=True)
    expected = layer.attention(x, x, attention_mask=mask, attention_bias=bias)
    close(got[0], expected, 1e-6)
    weights = array(got[1])
    assert not (weights if weights.ndim == 3 else weights[:, 0])[~mask].any()
    assert np.abs(array(layer(x, attention_mask=mask)) - expected).max() > 1e-3


@pytest.mark.parametrize(
    "make",
    [
        SelfAttention,
        lambda: WindowedAttention(2, 4, window=1),
        lambda: TransformerEncoderLayer(8, 2),
        lambda: TransformerDecoderLayer(8, 2),
    ],
    ids=["self", "windowed", "encoder", "decoder"],
)
def test_inputs_of_one_row_take_masks_of_several(make: Any) -> None:
    layer = make()
    x = np.random.default_rng(0).normal(size=(1, 5, 8)).astype("float32")
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool")
    memory = [x] if isinstance(layer, TransformerDecoderLayer) else []
    output = layer(x, *memory, mask=mask)
    close(output, layer(np.repeat(x, 3, axis=0), *memory, mask=mask), 1e-6)
    symbolic = [keras.KerasTensor((1, 5, 8))] * (1 + len(memory))
    assert layer.compute_output_spec(*symbolic, mask=mask).shape == (3, 5, 8)


def test_output_specs_take_attention_masks() -> None:
    mask = np.ones((3, 5, 5), "bool")
    spec = SelfAttention().compute_output_spec(keras.KerasTensor((1, 5, 8)), attention_mask=mask)
    assert spec.shape == (3, 5, 8)

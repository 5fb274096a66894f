from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    AdditiveAttention,
    SelfAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    WindowedAttention,
)
from attention_zoo.ops import use_compact_gradients
from tests.layers.running import array, build_random, close, normal, same
from tests.layers.structure_conformance import Arrays, StructureConformance
from tests.layers.transformer.transformer_oracle import (
    apply_residual,
    attending,
    feed_forward,
    heads,
)

X = np.random.default_rng(5).normal(size=(3, 5, 6)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], "bool")


class TransformerLayerCase(StructureConformance):
    options = {"units": 8, "num_heads": 2}
    changed = {
        "units": 9,
        "num_heads": 3,
        "attention": lambda: AdditiveAttention(4),
        "activation": {"activation": "geglu_tanh", "use_bias": False, "dropout": 0.1},
        "norm": "rms",
        "norm_first": False,
        "epsilon": 1e-3,
        "dropout": 0.2,
        "stochastic_depth": 0.1,
        "seed": 3,
    }
    oracle_tolerance = 1e-5


class TestTransformerEncoderLayer(TransformerLayerCase):
    covers = TransformerEncoderLayer

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, *lengths, 6),)

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        (x,), (mask,) = tensors, masks
        x = np.where(mask[..., None], x, 0)
        allowed = mask[:, :, None] & mask[:, None]
        weights: list[np.ndarray] = []
        x = apply_residual(
            layer.attention_residual, x, attending(layer.attention, None, allowed, weights)
        )
        x = apply_residual(
            layer.feed_forward_residual, x, lambda y: feed_forward(layer.feed_forward, y)
        )
        return np.where(mask[..., None], x, 0), *weights


def test_post_norm_by_hand() -> None:
    layer = build_random(TransformerEncoderLayer(8, 2, norm_first=False), X)
    every = np.ones((3, 5, 5), "bool")
    expected = apply_residual(
        layer.attention_residual, X, lambda y: heads(layer.attention, y, y, every)[0]
    )
    expected = apply_residual(
        layer.feed_forward_residual, expected, lambda y: feed_forward(layer.feed_forward, y)
    )
    close(layer(X), expected, 1e-5)


def test_causality() -> None:
    layer = TransformerEncoderLayer(8, 2)
    before, weights = layer(X, use_causal_mask=True, return_attention_scores=True)
    assert not np.triu(array(weights), 1).any()
    changed = X.copy()
    changed[:, 3:] += 1
    after = layer(changed, use_causal_mask=True)
    np.testing.assert_array_equal(array(after)[:, :3], array(before)[:, :3])


@pytest.mark.full
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_mask_reaches_the_last_of_twelve_layers(norm: str) -> None:
    """Padding of any length does not affect outputs; Keras's layers lose the mask at the second."""
    inputs = keras.Input((None, 6))
    x = keras.layers.Masking()(inputs)
    for seed in range(12):
        x = TransformerEncoderLayer(8, 2, norm=norm, norm_first=seed % 2 == 0)(x)
    model = keras.Model(inputs, x)
    zeroed = np.where(MASK[..., None], X, 0)
    padded = np.concatenate([zeroed, np.zeros((3, 70, 6), "float32")], 1)
    expected, got = array(model(zeroed)), array(model(padded))
    close(got[:, :5], expected, 1e-5)
    assert not got[:, 5:].any()
    assert not expected[~MASK].any()


def test_stochastic_depth_drops_layers_per_sequence() -> None:
    keras.utils.set_random_seed(1)
    layer = TransformerEncoderLayer(8, 2, stochastic_depth=0.5)
    x = np.tile(X[:1], (200, 1, 1))
    shifted = np.abs(array(layer(x, training=True)) - x).max((1, 2)) > 1e-6
    assert 0.15 < (~shifted).mean() < 0.35  # both sublayers are dropped in a quarter of the cases


def test_width_must_be_divisible_by_heads() -> None:
    with pytest.raises(ValueError, match="num_heads must divide the width of the inputs, got 4 "):
        TransformerEncoderLayer(8, 4)(X)


@pytest.mark.parametrize("norm_first", [True, False])
def test_block_steps_equal_the_causal_layer(norm_first: bool) -> None:
    layer = build_random(TransformerEncoderLayer(8, 2, norm_first=norm_first), X)
    expected = array(layer(X, mask=MASK, use_causal_mask=True))
    got, cache = layer.prefill(ops.convert_to_tensor(X), ops.convert_to_tensor(MASK))
    close(got, expected, 1e-5)
    assert cache.keys.shape == (3, 2, 3, 5)
    assert cache.values.shape == (3, 2, 5, 3)
    poisoned = np.where(MASK[..., None], X, np.nan)
    close(
        layer.prefill(ops.convert_to_tensor(poisoned), ops.convert_to_tensor(MASK))[0],
        expected,
        1e-5,
    )


@pytest.mark.parametrize(
    "make", [lambda: WindowedAttention(2, 3, window=1), lambda: SelfAttention(use_projection=True)]
)
def test_encoder_layer_accepts_self_attention_layers(make: Any, tmp_path: Path) -> None:
    """The output at a position depends on unmasked positions in the window only."""
    (x,) = normal((2, 6, 6))
    layer = TransformerEncoderLayer(8, attention=make())
    inputs = keras.Input((None, 6))
    model = keras.Model(inputs, layer(inputs))
    mask = np.arange(6) < [[6], [4]]
    outputs, weights = layer(x, mask=mask, return_attention_scores=True)
    assert outputs.shape == x.shape
    assert not array(weights)[1, ..., 4:].any()
    if isinstance(layer.attention, WindowedAttention):
        distance = np.abs(np.arange(6)[:, None] - np.arange(6))
        assert not array(weights)[..., distance > 1].any()
    model.save(tmp_path / "model.keras")
    same(keras.models.load_model(tmp_path / "model.keras")(x), model(x))


class TestTransformerDecoderLayer(TransformerLayerCase):
    covers = TransformerDecoderLayer
    names = ("mask", "memory_mask")
    lengths = (4, 5)

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        return ((batch, lengths[0], 6), (batch, lengths[1], 7))

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        (x, memory), (mask, zeroed) = tensors, masks
        x, memory = (np.where(m[..., None], y, 0) for y, m in ((x, mask), (memory, zeroed)))
        steps = x.shape[1]
        own = mask[:, :, None] & mask[:, None] & np.tri(steps, dtype="bool")
        other = mask[:, :, None] & zeroed[:, None]
        weights: list[np.ndarray] = []
        attend = attending(layer.attention, None, own, weights)
        x = apply_residual(layer.attention_residual, x, attend)
        attend = attending(layer.memory_attention, memory, other, weights)
        x = apply_residual(layer.memory_residual, x, attend)
        x = apply_residual(
            layer.feed_forward_residual, x, lambda y: feed_forward(layer.feed_forward, y)
        )
        return np.where(mask[..., None], x, 0), *weights

    def check_fully_masked(self, name: str, tensors: Arrays, outputs: list[np.ndarray]) -> None:
        """Masked queries give zeros; without memory, cross-attention adds nothing."""
        for output in outputs if name == "mask" else outputs[2:]:
            assert not output[1].any()
        if name == "memory_mask":
            assert outputs[0][1].any()


def test_a_memory_of_one_row_takes_masks_of_all_rows() -> None:
    layer = TransformerDecoderLayer(units=8, num_heads=2)
    inputs, memory = normal((3, 4, 6), (1, 5, 6))
    build_random(layer, inputs, memory)
    masks = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "bool")
    expected = layer(inputs, np.repeat(memory, 3, axis=0), memory_mask=masks)
    close(layer(inputs, memory, memory_mask=masks), expected, 1e-6)


def test_without_causal_mask_all_positions_are_visible() -> None:
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    layer = TransformerDecoderLayer(8, 2)
    _, own, _ = layer(x, x, use_causal_mask=False, return_attention_scores=True)
    assert (array(own) > 0).all()
    _, own, _ = layer(ops.convert_to_tensor(x), x, return_attention_scores=True)
    assert not np.triu(array(own), 1).any()


def test_kv_cache_needs_multi_head_attention() -> None:
    layer = TransformerEncoderLayer(8, attention=WindowedAttention(2, 3, window=1))
    layer(X)
    with pytest.raises(ValueError, match="KV cache needs a MultiHeadAttention, got Windowed"):
        layer.prefill(X, MASK)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="graphs of TensorFlow")
def test_gradients_of_a_layer_need_few_graph_operations() -> None:
    """A layer with plain gradients needs more than 700 for dynamic shapes."""
    import tensorflow as tf

    layer = TransformerEncoderLayer(16, 2, dropout=0.1)
    layer.build((None, None, 8))

    @tf.function(
        input_signature=[tf.TensorSpec([None, None, 8]), tf.TensorSpec([None, None], bool)]
    )
    def compute(x: Any, mask: Any) -> Any:
        with tf.GradientTape() as tape, use_compact_gradients():
            loss = tf.reduce_sum(layer(x, mask=mask, training=True))
        return tape.gradient(loss, layer.trainable_variables)

    assert len(compute.get_concrete_function().graph.get_operations()) < 500

"""Blockwise attention: values and gradients of direct attention, with less memory."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import MaskPattern, blockwise_attention, dropout_mask, masked_softmax, skew
from tests.layers.running import (
    MODES,
    QUICK,
    array,
    arrays,
    close,
    differentiable,
    needs_dynamic_shapes,
    same,
    with_dynamic_shapes,
)
from tests.ops.test_mask_pattern import make_expected_mask

B, H, G, K, V = 2, 4, 2, 5, 3
SCALE = 0.4
MASKED = {"mask", "attention_mask"}

CASES: list[tuple[tuple[int, int], MaskPattern, set[str]]] = [
    ((21, 30), MaskPattern(), set()),
    ((21, 30), MaskPattern(), MASKED | {"distance_bias", "attention_bias"}),
    ((24, 24), MaskPattern(causal=True), {"distance_bias"}),
    ((30, 21), MaskPattern(causal=True, window=5), {"mask"}),
    ((40, 7), MaskPattern(window=3), {"attention_bias"}),
    ((26, 26), MaskPattern(window=4, leading=3), {"attention_mask", "distance_bias"}),
    ((26, 27), MaskPattern(causal=True), {"attention_bias"}),
    ((1, 1), MaskPattern(), {"distance_bias"}),
    ((3, 0), MaskPattern(causal=True), set()),
    ((0, 3), MaskPattern(), {"mask"}),
]


BIAS_AXES = {21: (B, H), 40: (1, 1), 26: (1, H)}  # by number of queries


def tensors(steps: int, sources: int, batch: int = B) -> list[np.ndarray]:
    """Return query, key, value, distance bias and attention bias."""
    rng = np.random.default_rng(0)
    shapes = ((batch, H, steps, K), (batch, G, sources, K), (batch, G, sources, V))
    every = (*shapes, (H, steps + sources + 1), (*BIAS_AXES.get(steps, (B, H)), steps, sources))
    *results, bias = [rng.normal(size=shape).astype("float32") for shape in every]
    bias[..., 1::3, :1] = -np.inf
    return [*results, bias]


def masks(names: set[str], steps: int, sources: int) -> dict[str, np.ndarray]:
    """Return masks with gaps; the last row of the batch is fully masked."""
    rng = np.random.default_rng(1)
    every = {
        "mask": rng.random((B, sources)) > 0.3,
        "attention_mask": rng.random((B, H if steps == 26 else 1, steps, sources)) > 0.3,
    }
    every["mask"][-1] = False
    return {name: mask for name, mask in every.items() if name in names}


def run_blockwise(pattern: MaskPattern, names: set[str], **options: Any) -> Any:
    def run(query: Any, key: Any, value: Any, *biases: Any) -> Any:
        every = dict(zip(("distance_bias", "attention_bias"), biases, strict=True))
        extra = {name: x for name, x in every.items() if name in names}
        both = blockwise_attention(
            query, key, value, scale=SCALE, pattern=pattern, block=8, **extra, **options
        )
        return both[0], ops.where(both[1] > -1e30, both[1], 0)

    return run


def run_direct(pattern: MaskPattern, names: set[str], **options: Any) -> Any:
    def run(query: Any, key: Any, value: Any, distance_bias: Any, attention_bias: Any) -> Any:
        key, value = (ops.repeat(x, H // G, axis=1) for x in (key, value))
        steps, sources = query.shape[2], key.shape[2]
        scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) * SCALE
        if "distance_bias" in names:
            scores = scores + skew(ops.repeat(distance_bias[:, None], steps, axis=1), sources)
        if "attention_bias" in names:
            scores = scores + attention_bias
        visible = np.ones((B, 1, 1, 1), "bool") & make_expected_mask(pattern, steps, sources)
        if "mask" in options:
            visible = visible & options["mask"][:, None, None]
        if "attention_mask" in options:
            visible = visible & options["attention_mask"]
        context = ops.matmul(masked_softmax(scores, ops.convert_to_tensor(visible)), value)
        total = ops.log(ops.sum(ops.where(visible, ops.exp(scores), 0), axis=-1) + 1e-35)
        return context, ops.where(visible.any(-1), total, 0)

    return run


def compare(case: tuple[tuple[int, int], MaskPattern, set[str]], mode: str) -> None:
    lengths, pattern, names = case
    options, x = masks(names, *lengths), tensors(*lengths)
    layer = keras.layers.Identity()
    got = differentiable(layer, run_blockwise(pattern, names, **options), mode)(*x)
    expected = differentiable(layer, run_direct(pattern, names, **options))(*x)
    for a, b in zip(keras.tree.flatten(got), keras.tree.flatten(expected), strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max(initial=0) <= 1e-5


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {sorted(case[2])}")
def test_blockwise_equals_direct_attention(
    case: tuple[tuple[int, int], MaskPattern, set[str]],
) -> None:
    compare(case, QUICK)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != QUICK])
def test_blocks_in_every_mode(mode: str) -> None:
    compare(CASES[1], mode)


def test_empty_batch() -> None:
    x = tensors(9, 9, batch=0)
    context, total = blockwise_attention(*x[:3], pattern=MaskPattern(causal=True), block=4)
    assert tuple(context.shape) == (0, H, 9, V)
    assert tuple(total.shape) == (0, H, 9)


@pytest.mark.parametrize("fill", [np.nan, np.inf])
def test_fully_masked_rows_and_values_at_masked_positions(fill: float) -> None:
    """Masked values have no effect; fully masked rows give exactly 0 and zero gradients."""
    query, key, value, *biases = tensors(20, 20)
    mask = masks({"mask"}, 20, 20)["mask"]
    hidden = ~mask[:, None, :, None]
    run = differentiable(
        keras.layers.Identity(), lambda *x: run_blockwise(MaskPattern(), {"mask"}, mask=mask)(*x)[0]
    )
    clean = run(query, np.where(hidden, 0, key), np.where(hidden, 0, value), *biases)
    dirty = run(
        query,
        np.where(hidden, np.float32(fill), key),
        np.where(hidden, np.float32(fill), value),
        *biases,
    )
    same(dirty, clean)
    context, (by_query, by_key, by_value, *_), _ = dirty
    assert context[0].all()
    for x in (context, by_query, by_key, by_value):
        assert not x[-1].any()
    assert not by_key[np.broadcast_to(hidden, by_key.shape)].any()
    _, total = blockwise_attention(query, key, value, mask=mask)
    assert (array(total)[-1] == -np.inf).all()


def test_large_scores_neither_overflow_nor_underflow() -> None:
    """Scores of several thousand, the largest in the first, the last or a middle block."""
    key = np.zeros((1, 1, 24, 1), "float32")
    key[0, 0, :, 0] = 1000 - np.arange(24)
    query = np.array([1, -1, 3e3], "float32").reshape(1, 1, 3, 1)
    value = np.arange(24, dtype="float32").reshape(1, 1, 24, 1)
    context, total = arrays(blockwise_attention(query, key, value, block=8))
    ratio = np.exp(-np.arange(24))
    mean = (ratio * np.arange(24)).sum() / ratio.sum()
    np.testing.assert_allclose(context[0, 0, :, 0], [mean, 23 - mean, 0], rtol=1e-5, atol=1e-6)
    expected = [1000 + np.log(ratio.sum()), -977 + np.log(ratio.sum()), 3e6]
    np.testing.assert_allclose(total[0, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-3), ("bfloat16", 1e-2)])
def test_half_precision(dtype: str, tolerance: float) -> None:
    """Sums are in float32: only inputs and returned gradients are rounded."""
    names = {"distance_bias", "attention_bias"}
    rounded = [ops.cast(ops.convert_to_tensor(x), dtype) for x in tensors(16, 20)]
    exact = [array(x).astype("float32") for x in rounded]
    run = differentiable(keras.layers.Identity(), run_blockwise(MaskPattern(), names))
    context, _ = run_blockwise(MaskPattern(), names)(*rounded)
    assert keras.backend.standardize_dtype(context.dtype) == "float32"
    got, expected = run(*rounded), run(*exact)
    close(got, expected, tolerance)


SEED = np.array([3, 7], "uint32")


def test_dropout_of_a_block_equals_dropout_of_the_full_matrix() -> None:
    full = array(dropout_mask(SEED, 0.3, 6, (40, 50)))
    assert sorted(set(full.ravel().round(5))) == [0, round(1 / 0.7, 5)]
    assert abs(full.mean() - 1) < 0.02
    part = array(dropout_mask(SEED, 0.3, 6, (8, 5), (16, 45)))
    np.testing.assert_array_equal(part, full[:, 16:24, 45:])
    assert (full != array(dropout_mask(SEED + 1, 0.3, 6, (40, 50)))).any()


def test_dropout() -> None:
    options = tensors(20, 28)
    keep = array(dropout_mask(SEED, 0.3, B * H, (20, 28))).reshape(B, H, 20, 28).astype("float32")

    def want(query: Any, key: Any, value: Any) -> Any:
        key, value = (ops.repeat(x, H // G, axis=1) for x in (key, value))
        weights = masked_softmax(ops.matmul(query, ops.swapaxes(key, -1, -2)))
        return ops.matmul(weights * keep, value)

    def got(query: Any, key: Any, value: Any) -> Any:
        return blockwise_attention(query, key, value, dropout=0.3, seed=SEED, block=8)[0]

    layer = keras.layers.Identity()
    results = [differentiable(layer, run)(*options[:3]) for run in (got, want)]
    close(*results, 1e-5)


@needs_dynamic_shapes
@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_dynamic_lengths(mode: str) -> None:
    import tensorflow as tf

    def call(*x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            *qkv, bias = x
            context, _ = blockwise_attention(
                *qkv, pattern=MaskPattern(causal=True), attention_bias=bias, block=8
            )
        return context, *tape.gradient(context, x)

    specs = (None, H, None, K), (None, G, None, K), (None, G, None, V), (None, H, None, None)
    run = with_dynamic_shapes(call, *specs, mode=mode)
    for lengths in ((21, 30), (5, 0)) if mode == "graph" else ((21, 30),):
        *options, _, bias = tensors(*lengths)
        options.append(bias)
        close(run(*options), call(*map(tf.constant, options)), 1e-5)


@needs_dynamic_shapes
def test_no_tensor_of_all_scores_is_created() -> None:
    import tensorflow as tf

    length = 500

    def call(*x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            context, _ = blockwise_attention(*x, pattern=MaskPattern(causal=True), block=16)
        return tape.gradient(context, x)

    specs = [tf.TensorSpec(x.shape) for x in tensors(length, length)[:3]]
    graph = tf.function(call, specs, autograph=False).get_concrete_function().graph
    graphs = [graph, *(f.graph for f in graph._functions.values() if hasattr(f, "graph"))]
    sizes = [
        int(np.prod([n or 1 for n in x.shape]))
        for each in graphs
        for op in each.get_operations()
        for x in op.outputs
        if x.shape.rank
    ]
    assert len(graphs) >= 3, "the loops of forward and backward pass are checked"
    assert max(sizes) < length * length / 4

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import SCORES, Attention
from attention_zoo.ops import additive_scores, inverse_distances, masking, pairwise
from tests.layers.running import (
    JAX,
    build_random,
    close,
    differentiable,
    in_fresh_process,
    needs_dynamic_shapes,
    normal,
    with_dynamic_shapes,
)

FULL = pytest.mark.full
WIDTH = 4
LAYER = keras.layers.Identity()
SHAPES = {  # query, keys, number of features, negative for features with a batch of 1
    "plain": ((2, 5, WIDTH), (2, 7, WIDTH), 0),
    "features": ((2, 5, WIDTH), (2, 7, WIDTH), 3),
    "one query": ((3, 1, WIDTH), (3, 7, WIDTH), 1),
    "heads": ((2, 3, 5, WIDTH), (2, 1, 7, WIDTH), 2),
    "one row of queries": ((1, 5, WIDTH), (3, 7, WIDTH), 0),
    "one row of keys": ((3, 5, WIDTH), (7, WIDTH), 0),
    "one row of features": ((3, 5, WIDTH), (3, 7, WIDTH), -2),
}


@pytest.fixture(params=[10**6, 100], ids=["one block", "blocks"])
def recomputed(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recompute always, in one block or in blocks of one or two queries."""
    monkeypatch.setattr(masking, "MIN_PAIR_ENTRIES", 0)
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", request.param)
    monkeypatch.setattr(pairwise, "MAX_SINGLE_BLOCK", 1)


def make_inputs(name: str) -> list[np.ndarray]:
    query, keys, num_features = SHAPES[name]
    shapes = [query, keys, (WIDTH,)]
    if num_features:
        leading = np.broadcast_shapes(query[:-2], keys[:-2]) if num_features > 0 else (1,)
        size = abs(num_features)
        shapes += [(*leading, query[-2], keys[-2], size), (size, WIDTH)]
    return normal(*shapes)


def additive_oracle(inputs: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Compute scores and the gradients of the probed scores in float64, with all activations."""
    query, keys, v, *pairs = (x.astype("float64") for x in inputs)
    hidden = query[..., :, None, :] + keys[..., None, :, :]
    if pairs:
        hidden = hidden + pairs[0] @ pairs[1]
    hidden = np.tanh(hidden)
    scores = hidden @ v
    upstream = np.cos(np.arange(scores.size) + 1.0).reshape(scores.shape)
    by_hidden = upstream[..., None] * v * (1 - hidden**2)
    gradients = [
        reduce(by_hidden.sum(-2), query),
        reduce(by_hidden.sum(-3), keys),
        upstream.ravel() @ hidden.reshape(-1, WIDTH),
    ]
    if pairs:
        rows = np.broadcast_to(pairs[0], (*scores.shape, pairs[0].shape[-1]))
        rows = rows.reshape(-1, rows.shape[-1])
        gradients += [reduce(by_hidden @ pairs[1].T, pairs[0])]
        gradients += [rows.T @ by_hidden.reshape(-1, WIDTH)]
    return scores, gradients


def reduce(x: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Sum over the axes along which `like` was broadcast."""
    x = x.sum(tuple(range(x.ndim - like.ndim)))
    axes = tuple(n for n, size in enumerate(like.shape) if size == 1 != x.shape[n])
    return x.sum(axes, keepdims=True)


def check(run: Any, inputs: list[np.ndarray], want: tuple[np.ndarray, list[np.ndarray]]) -> None:
    scores, gradients, _ = run(*inputs)
    close(scores, want[0], 1e-5)
    close(gradients, want[1], 1e-5)


@pytest.mark.parametrize("mode", ["eager", pytest.param("graph", marks=FULL), "xla"])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.usefixtures("recomputed")
def test_additive_scores_and_gradients_equal_reference(name: str, mode: str) -> None:
    inputs = make_inputs(name)
    check(differentiable(LAYER, additive_scores, mode), inputs, additive_oracle(inputs))


@needs_dynamic_shapes
@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize(
    "name", ["plain", *(pytest.param(name, marks=FULL) for name in list(SHAPES)[1:])]
)
@pytest.mark.usefixtures("recomputed")
def test_dynamic_shapes(name: str, mode: str) -> None:
    import tensorflow as tf

    inputs = make_inputs(name)
    want, want_gradients = additive_oracle(inputs)

    def run(upstream: Any, *inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            scores = additive_scores(*inputs)
        return scores, tape.gradient(scores, inputs, upstream)

    specs = [(*[None] * (x.ndim - 1), x.shape[-1]) for x in inputs]
    scores_spec = (None,) * want.ndim
    upstream = np.cos(np.arange(want.size) + 1.0).reshape(want.shape).astype("float32")
    graph = with_dynamic_shapes(run, scores_spec, *specs, mode=mode)
    scores, gradients = graph(upstream, *inputs)
    close(scores, want, 1e-5)
    close(list(gradients), want_gradients, 1e-5)


@pytest.mark.parametrize("sizes", [(0, 5, 7), (2, 0, 7), (2, 5, 0)])
@pytest.mark.usefixtures("recomputed")
def test_empty_axes(sizes: tuple[int, int, int]) -> None:
    batch, steps, sources = sizes
    inputs = normal((batch, steps, WIDTH), (batch, sources, WIDTH), (WIDTH,))
    for function, given in ((additive_scores, inputs), (inverse_distances, inputs[:2])):
        scores, gradients, _ = differentiable(LAYER, function)(*given)
        assert scores.shape == (batch, steps, sources)
        assert [x.shape for x in gradients] == [x.shape for x in given]
        assert not any(x.any() for x in gradients)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.usefixtures("recomputed")
def test_half_precision(dtype: str) -> None:
    inputs = make_inputs("features")
    want = additive_oracle(inputs)[0]
    query, keys, *others = map(ops.convert_to_tensor, inputs)
    scores = additive_scores(ops.cast(query, dtype), ops.cast(keys, dtype), *others)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    close(scores, want, 0.02)


@needs_dynamic_shapes
@pytest.mark.usefixtures("recomputed")
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_gradients_have_the_dtypes_of_the_arguments(dtype: str) -> None:
    import tensorflow as tf

    inputs = make_inputs("features")
    given = [tf.constant(x, dtype if n < 2 else "float32") for n, x in enumerate(inputs)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        scores = additive_scores(*given)
    upstream = tf.reshape(tf.cos(tf.range(70.0) + 1.0), scores.shape)
    gradients = tape.gradient(scores, given, tf.cast(upstream, scores.dtype))
    assert [x.dtype for x in gradients] == [x.dtype for x in given]
    close(gradients, additive_oracle(inputs)[1], 0.01)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.usefixtures("recomputed")
def test_inverse_distances_equal_reference(mode: str) -> None:
    query, keys = normal((2, 5, WIDTH), (2, 7, WIDTH))
    keys[:, 3] = query[:, 2]  # distance 0: the gradient is 0
    keys[:, 4] = query[:, 1] + 1e-4
    difference = query[:, :, None].astype("float64") - keys[:, None]
    distance = np.sqrt((difference**2).sum(-1))
    want = 1 / (1 + distance)
    upstream = np.cos(np.arange(want.size) + 1.0).reshape(want.shape)
    slope = -upstream * want**2 / np.where(distance == 0, np.inf, distance)
    by_difference = slope[..., None] * difference
    gradients = [by_difference.sum(2), -by_difference.sum(1)]
    check(differentiable(LAYER, inverse_distances, mode), [query, keys], (want, gradients))


@pytest.mark.skipif(JAX, reason="counts eager calls")
def test_blocks_bound_the_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call computes more activations than a block has, and the backward pass repeats all."""
    monkeypatch.setattr(masking, "MIN_PAIR_ENTRIES", 0)
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 2 * 2 * 7 * WIDTH)  # two queries
    monkeypatch.setattr(pairwise, "MAX_SINGLE_BLOCK", 1)
    sizes = []
    activate = pairwise._activate

    def counted(*inputs: Any) -> Any:
        hidden = activate(*inputs)
        sizes.append(hidden.shape[1])
        return hidden

    monkeypatch.setattr(pairwise, "_activate", counted)
    differentiable(LAYER, additive_scores, "eager")(*make_inputs("plain"))
    assert sizes == [2, 2, 2] * 2


@pytest.mark.parametrize("name", ["additive", "concat", "euclidean"])
def test_few_pairs_are_stored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Static shapes with few entries take the path without a custom gradient."""
    layer = Attention(name)
    query, memory = normal((2, 3, 6), (2, 5, 6))
    build_random(layer, query, memory)

    def refuse(*_: Any) -> None:
        raise AssertionError("custom gradient")

    monkeypatch.setattr(ops, "custom_gradient", refuse)
    layer(query, memory)
    monkeypatch.setattr(masking, "MIN_PAIR_ENTRIES", 0)
    with pytest.raises(AssertionError, match="custom gradient"):
        layer(query, memory)


@pytest.mark.parametrize(
    "name",
    ["additive", *(pytest.param(name, marks=FULL) for name in ("coverage", "location_sensitive"))],
)
@pytest.mark.parametrize("mode", ["eager", pytest.param("graph", marks=FULL)])
def test_layers_train_alike_with_and_without_recomputation(
    name: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = Attention(SCORES.get(name)(units=8))
    query, memory = normal((2, 3, 6), (2, 7, 6))
    build_random(layer, query, memory)
    stored = differentiable(layer, layer, mode)(query, memory)
    monkeypatch.setattr(masking, "MIN_PAIR_ENTRIES", 0)
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 100)
    monkeypatch.setattr(pairwise, "MAX_SINGLE_BLOCK", 1)
    close(differentiable(layer, layer, mode)(query, memory), stored, 1e-5)


MEMORY = """
import resource, tensorflow as tf
from attention_zoo.ops import additive_scores, scan
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def run(queries, keys, v):
    with tf.GradientTape() as tape:
        tape.watch((queries, keys, v))
        like = tf.zeros((1, 1, 512))
        step = lambda state, query: (state, additive_scores(query, keys, v))
        loss = tf.reduce_sum(scan(step, (), queries, like)[1] ** 2)
    return tape.gradient(loss, (queries, keys, v))
shapes = (None, 1, 1, 4096), (1, None, 4096), (4096,)
graph = tf.function(run, [tf.TensorSpec(x) for x in shapes], autograph=False, jit_compile=JIT)
keys, v, queries = (tf.random.normal(x) for x in ((1, 512, 4096), (4096,), (128, 1, 1, 4096)))
graph(queries[:1], keys, v)
before = peak()
graph(queries, keys, v)
print((peak() - before) // 1024)
"""


@needs_dynamic_shapes
@pytest.mark.full
@pytest.mark.parametrize("jit", [False, True])
def test_memory_of_a_loop_does_not_grow_with_the_units(jit: bool) -> None:
    """Activations of all steps would take 1 GiB: 128 steps, 512 sources, 4,096 units."""
    output = in_fresh_process(MEMORY.replace("JIT", str(jit)))
    assert int(output.split()[-1]) < 512  # MiB


@pytest.mark.skipif(JAX, reason="no second derivatives on JAX")
def test_second_derivative_in_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = compute_slope_gradient()
    monkeypatch.setattr(masking, "MIN_PAIR_ENTRIES", 0)
    close(compute_slope_gradient(), expected, 1e-5)


def compute_slope_gradient() -> list[np.ndarray]:
    """Return the gradients of the probed gradient by the query."""
    inputs = make_inputs("features")

    def slope(query: Any, *others: Any) -> Any:
        return differentiate(lambda x: additive_scores(x, *others) ** 2, query)

    gradients: list[np.ndarray] = differentiable(LAYER, slope, "graph")(*inputs)[1]
    return gradients


def test_second_derivative_of_few_pairs() -> None:
    """A gradient penalty needs it."""
    inputs = make_inputs("plain")[:2]
    v = np.ones(WIDTH, "float32")
    layer = keras.layers.Identity()

    def slope(query: Any, keys: Any) -> Any:
        return differentiate(lambda x: additive_scores(x, keys, ops.convert_to_tensor(v)), query)

    _, (by_query, _), _ = differentiable(layer, slope, "graph")(*inputs)
    hidden = np.tanh(inputs[0][:, :, None].astype("float64") + inputs[1][:, None])
    want = (-2 * hidden * (1 - hidden**2)).sum(2)
    upstream = np.cos(np.arange(want.size) + 1.0).reshape(want.shape)
    close(by_query, upstream * want, 1e-5)


def differentiate(function: Any, x: Any) -> Any:
    """Return the gradient of the sum of a function's outputs."""
    if JAX:
        import jax

        return jax.grad(lambda x: ops.sum(function(x)))(x)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        total = ops.sum(function(x))
    return tape.gradient(total, x)

"""Helpers that run code eagerly, as a graph and compiled, with gradients, on both backends."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tests.tiers import DIRECTIONS, FULL

JAX = keras.backend.backend() == "jax"
QUICK = "xla" if JAX else "eager"
"""The fastest mode for a few calls: JAX compiles every operation anyway."""
MODES = ("eager", "xla") if JAX else ("eager", "graph", "xla")
POLICIES = ("float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")

# Tests that differ on JAX, at most five, each with its reason.
JAX_EXCEPTIONS = {
    "gradients against finite differences": "in float32, with a longer step and a wider bound: "
    "keras.ops.tanh computes in float32 there, whatever it is given",
    "fully masked": "compiled only, and all five dtypes for the pairs of score and alignment "
    "only: JAX compiles each operation of an eager gradient, which takes minutes",
    "a file in a fresh process": "skipped: it is the same file on every backend",
    "inherited tests without every_backend": "run for the general layers and one model (see "
    "tests/jax_pass.py): they test code without arithmetic, or follow from other tests",
    "all cases of a test but one": "JAX compiles every operation of every case; the remaining case "
    "differs between tests, and `make bench` runs all of them (--whole)",
}

WIDE, STEP, BOUNDS = ("float32", 5e-3, (2e-2, 2e-3)) if JAX else ("float64", 1e-5, (1e-5, 1e-7))
"""For finite differences: dtype, step, and relative and absolute bound."""


def array(x: Any) -> np.ndarray:
    """Return a float tensor as float64 (exact for every narrower dtype), others unchanged."""
    if keras.backend.standardize_dtype(x.dtype) == "bfloat16":
        x = ops.cast(x, "float32")
    x = ops.convert_to_numpy(x)
    return x if x.dtype.kind in "biu" else x.astype("float64")


def arrays(nest: Any) -> Any:
    return keras.tree.map_structure(array, nest)


def compiled(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """Return the function eager, as a graph, or compiled by XLA. On JAX it changes no variable."""
    if JAX:
        import jax

        def scoped(*tensors: Any, **named: Any) -> Any:
            with keras.StatelessScope():
                return function(*tensors, **named)

        return jax.jit(scoped) if mode != "eager" else function
    import tensorflow as tf

    if mode == "eager":
        return function
    return tf.function(function, jit_compile=mode == "xla", autograph=False)


def quick(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in the fastest mode. Weights are constants in it."""
    return compiled(function, QUICK)


def any_batch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function traced with an unknown batch size, as in serving.

    TensorFlow's LSTM implementation fails for a static batch size of 0.
    """
    if JAX:
        return function

    def run(*tensors: Any) -> Any:
        given = [ops.convert_to_tensor(x) for x in tensors]
        specs = [((None, *x.shape[1:]), x.dtype) for x in given]
        return with_dynamic_shapes(function, *specs)(*given)

    return run


needs_dynamic_shapes = pytest.mark.skipif(JAX, reason="JAX has static shapes")


def with_dynamic_shapes(
    function: Callable[..., Any], *specs: tuple[Any, ...], mode: str = "graph"
) -> Callable[..., Any]:
    """Return the function as a TensorFlow graph with dynamic shapes.

    Args:
        function: Takes tensors.
        specs: For each tensor its shape, None where a size is unknown, or `(shape, dtype)`.
        mode: "graph" or "xla".
    """
    import tensorflow as tf

    pairs = [spec if spec and isinstance(spec[0], tuple) else (spec, "float32") for spec in specs]
    signature = [tf.TensorSpec(*pair) for pair in pairs]
    return tf.function(function, signature, autograph=False, jit_compile=mode == "xla")


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Enable float64 (JAX otherwise converts it to float32)."""
    if not JAX:
        yield
        return
    import jax

    with jax.enable_x64(True):
        yield


def probed(outputs: Any) -> Any:
    """Return a sum of all output elements, each with a different weight."""
    total = None
    for x in keras.tree.flatten(outputs):
        x = x if keras.backend.standardize_dtype(x.dtype) == "float64" else ops.cast(x, "float32")
        size = int(np.prod(x.shape))
        probe = np.cos(np.arange(size, dtype="float64") + 1).reshape(tuple(x.shape))
        part = ops.sum(x * ops.cast(ops.convert_to_tensor(probe), x.dtype))
        total = part if total is None else total + part
    return total


Differentiated = tuple[Any, list[np.ndarray], list[np.ndarray]]


def differentiable(
    layer: keras.layers.Layer, function: Callable[..., Any], mode: str = QUICK
) -> Callable[..., Differentiated]:
    """Return `run(*arrays)`: outputs, and gradients of `probed(outputs)` by floats and weights.

    Compiled once for all calls; arrays of other dtypes (masks) are not differentiated.
    """
    run = _by_jax(layer, function, mode) if JAX else _by_tape(layer, function, mode)
    return lambda *given: arrays(run(*[ops.convert_to_tensor(x) for x in given]))


def is_float(x: Any) -> bool:
    """Whether a tensor has a floating-point dtype."""
    return "float" in keras.backend.standardize_dtype(x.dtype)


def _by_tape(layer: Any, function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    import tensorflow as tf

    def run(*tensors: Any) -> Any:
        floats = [x for x in tensors if is_float(x)]
        weights = [v.value for v in layer.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = function(*tensors)
            loss = probed(outputs)
        zero = tf.UnconnectedGradients.ZERO
        by_inputs, by_weights = tape.gradient(loss, [floats, weights], unconnected_gradients=zero)
        return outputs, by_inputs, by_weights

    return compiled(run, mode)


def _by_jax(layer: Any, function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    import jax

    def run(tensors: tuple[Any, ...], weights: list[Any]) -> Any:
        floats = [i for i, x in enumerate(tensors) if is_float(x)]

        def loss(given: list[Any], weights: list[Any]) -> Any:
            full = list(tensors)
            for i, x in zip(floats, given, strict=True):
                full[i] = x
            mapping = list(zip(layer.trainable_variables, weights, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                outputs = function(*full)
            return probed(outputs), outputs

        gradient = jax.grad(loss, argnums=(0, 1), has_aux=True)
        (by_inputs, by_weights), outputs = gradient([tensors[i] for i in floats], weights)
        return outputs, by_inputs, by_weights

    fast = jax.jit(run) if mode != "eager" else run
    return lambda *tensors: fast(tensors, [v.value for v in layer.trainable_variables])


def close(got: Any, want: Any, tolerance: float) -> None:
    """Assert `|got - want| <= tolerance * max|want|` (at least 1e-30) for each pair of tensors.

    Both are tensors, or nested structures with the same number of tensors.
    """
    for a, b in _pairs(got, want):
        if b.size:
            scale = max(float(np.max(np.abs(b))), 1e-30)
            difference = float(np.max(np.abs(a - b)))
            assert difference <= tolerance * scale, f"off by {difference:.2e}, scale {scale:.2e}"


def same(got: Any, want: Any) -> None:
    """Assert that each pair of tensors is equal bit for bit and without NaN."""
    for a, b in _pairs(got, want):
        np.testing.assert_array_equal(a, b)
        assert not np.isnan(a).any()


def _pairs(got: Any, want: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of tensors as arrays; check that shapes are equal."""
    for nest in zip(*map(keras.tree.flatten, (got, want)), strict=True):
        first, second = map(array, nest)
        assert first.shape == second.shape
        yield first, second


def all_finite(*nests: Any) -> bool:
    """Whether no tensor holds NaN or infinity."""
    return all(np.isfinite(array(x)).all() for x in keras.tree.flatten(nests))


def normal(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Return standard normal float32 arrays of these shapes."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def build_random(layer: Any, *inputs: Any) -> Any:
    """Build a layer by a call on the inputs and set random weights."""
    layer(*inputs)
    randomise(layer)
    return layer


def randomise(layer: keras.layers.Layer, seed: int = 0, scale: float = 0.5) -> None:
    """Set every weight to random values, since a bias of 0 hides errors."""
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(scale * rng.normal(size=tuple(variable.shape)))


def check_gradients(layer: Any, run: Any, tensors: list[np.ndarray]) -> None:
    """Compare gradients of the probed outputs with central differences.

    Fast tier: one random direction in all inputs and weights together. Full tier, and JAX (whose
    float32 needs short directions): random directions in each tensor separately.
    """
    rng = np.random.default_rng(3)
    variables = layer.trainable_variables
    points = [*tensors, *map(array, variables)]
    outputs, by_inputs, by_weights = run(*tensors)
    gradients = [*by_inputs, *by_weights]

    def loss(moved: list[np.ndarray]) -> float:
        for variable, value in zip(variables, moved[len(tensors) :], strict=True):
            variable.assign(value)
        given = [value.astype(x.dtype) for value, x in zip(moved, tensors, strict=False)]
        results = keras.tree.flatten(run(*given)[0])
        return sum(float((x.ravel() * np.cos(np.arange(x.size) + 1.0)).sum()) for x in results)

    every = range(len(points))
    groups = [[i] for i in every for _ in range(DIRECTIONS)] if FULL or JAX else [list(every)]
    for group in groups:
        direction = [rng.normal(size=x.shape) * (i in group) for i, x in enumerate(points)]
        ahead = loss([x + STEP * d for x, d in zip(points, direction, strict=True)])
        behind = loss([x - STEP * d for x, d in zip(points, direction, strict=True)])
        expected = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True))
        assert (ahead - behind) / (2 * STEP) == pytest.approx(
            expected, rel=BOUNDS[0], abs=BOUNDS[1]
        )
    for variable, value in zip(variables, points[len(tensors) :], strict=True):
        variable.assign(value)
    assert any(np.abs(x).max() > 1e-3 for x in keras.tree.flatten(outputs))


def pairwise(
    axes: Mapping[str, tuple[Any, ...]], possible: Callable[[dict[str, Any]], bool] | None = None
) -> list[dict[str, Any]]:
    """Return few cases that contain every pair of values of two axes (greedy, deterministic).

    If only some cases are possible, they contain every pair of a possible case.
    """
    everything = full_product(axes, possible)
    pairs = [set(itertools.combinations(case.items(), 2)) for case in everything]
    left = set().union(*pairs)
    chosen = []
    while left:
        best = max(range(len(pairs)), key=lambda number: len(pairs[number] & left))
        left -= pairs[best]
        chosen.append(everything[best])
    return chosen


def full_product(
    axes: Mapping[str, tuple[Any, ...]], possible: Callable[[dict[str, Any]], bool] | None = None
) -> list[dict[str, Any]]:
    cases = (dict(zip(axes, case, strict=True)) for case in itertools.product(*axes.values()))
    return [case for case in cases if possible is None or possible(case)]


def label(case: Any) -> str:
    """Return a readable test id of a case."""
    return "-".join(str(value) for value in case.values()) if isinstance(case, dict) else str(case)


def in_fresh_process(code: str, *arguments: str | Path) -> str:
    """Run Python code in a new interpreter in the repository; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout

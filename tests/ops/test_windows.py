from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import Window, gather_positions, scatter_window, take_first
from tests.layers.running import (
    MODES,
    array,
    compiled,
    differentiable,
    needs_dynamic_shapes,
    same,
    with_dynamic_shapes,
)


def gather_windows_by_loop(x: np.ndarray, positions: np.ndarray, lead: int) -> np.ndarray:
    gathered = np.zeros((*positions.shape, *x.shape[lead + 1 :]), x.dtype)
    for index in np.ndindex(positions.shape):
        position = min(max(positions[index], 0), x.shape[lead] - 1)
        gathered[index] = x[index[:lead]][position]
    return gathered


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("shape", "attention_weights", "lead"),
    [
        ((2, 5, 3), (2, 4, 2), 1),
        ((2, 3, 5, 4), (2, 3, 4, 2), 2),
        ((3, 5), (3, 2, 2), 1),
        ((2, 3, 5), (2, 3, 7), 2),
        ((0, 5, 3), (0, 4, 2), 1),
        ((2, 5, 3), (2, 0, 2), 1),
        ((2, 1, 3), (2, 4, 2), 1),
    ],
)
def test_gathers_separate_positions_in_each_row(
    shape: tuple[int, ...], attention_weights: tuple[int, ...], lead: int, mode: str
) -> None:
    """Positions outside of the memory are clipped to its ends."""
    rng = np.random.default_rng(0)
    positions = rng.integers(-3, 8, size=attention_weights).astype("int32")
    for x in (rng.normal(size=shape).astype("float32"), rng.random(shape) > 0.5):
        got = compiled(lambda x, p: gather_positions(x, p, lead), mode)(
            ops.convert_to_tensor(x), ops.convert_to_tensor(positions)
        )
        same(got, gather_windows_by_loop(x, positions, lead))


@pytest.mark.parametrize("mode", MODES)
def test_empty_windows(mode: str) -> None:
    run = compiled(lambda x, p: gather_positions(x, p, 1), mode)
    positions = ops.convert_to_tensor(np.ones((2, 4, 3), "int32"))
    same(run(ops.zeros((2, 0, 5)), positions), np.zeros((2, 4, 3, 5)))
    same(run(ops.zeros((2, 0)), positions), np.zeros((2, 4, 3)))


@needs_dynamic_shapes
def test_dynamic_lengths() -> None:
    import tensorflow as tf

    def call(x: Any, positions: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            gathered = gather_positions(x, positions, 1)
        return gathered, tape.gradient(gathered, x)

    run = with_dynamic_shapes(call, (None, None, 3), ((None, None, 2), "int32"))
    rng = np.random.default_rng(0)
    for batch, steps, sources in ((2, 4, 5), (1, 1, 1), (0, 4, 5), (2, 0, 5), (2, 4, 0)):
        x = rng.normal(size=(batch, sources, 3)).astype("float32")
        positions = rng.integers(-1, 7, size=(batch, steps, 2)).astype("int32")
        gathered, gradient = run(x, positions)
        assert tuple(gradient.shape) == x.shape
        same(
            gathered,
            gather_windows_by_loop(x, positions, 1) if sources else np.zeros((batch, steps, 2, 3)),
        )


@pytest.mark.parametrize("mode", MODES)
def test_gradient_sums_over_windows(mode: str) -> None:
    """A position in n windows gets n gradients, one in no window exactly 0."""
    positions = np.array([[[0, 1], [1, 9]], [[2, 2], [2, -4]]], "int32")
    run = differentiable(keras.layers.Identity(), lambda x, p: gather_positions(x, p, 1), mode)
    _, (gradient,), _ = run(np.ones((2, 4, 1), "float32"), positions)
    probe = np.cos(np.arange(8) + 1.0)
    expected = [[probe[0], probe[1] + probe[2], 0, probe[3]], [probe[7], 0, probe[4:7].sum(), 0]]
    np.testing.assert_allclose(gradient[..., 0], expected, atol=1e-6)
    assert gradient[0, 2] == gradient[1, 1] == gradient[1, 3] == 0


def window(start: np.ndarray, width: int) -> Window:
    start = ops.cast(ops.convert_to_tensor(start), "int32")
    return Window(start, ops.ones((width,), "bool"), ops.cast(start, "float32"))


def test_positions_of_a_window() -> None:
    positions = window(np.array([[[-1], [3]]]), 3).positions
    assert array(positions).tolist() == [[[-1, 0, 1], [3, 4, 5]]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [(2,), (2, 3), (0,)])
def test_scatter_inverts_gather(rows: tuple[int, ...], mode: str) -> None:
    """Weights return to their positions; those outside of the memory are dropped."""
    rng = np.random.default_rng(0)
    start = rng.integers(-4, 8, size=(*rows, 5, 1))
    weights = rng.random((*rows, 5, 3)).astype("float32")
    expected = np.zeros((*rows, 5, 6))
    for index in np.ndindex(*rows, 5):
        for slot in range(3):
            position = start[index][0] + slot
            if 0 <= position < 6:
                expected[index][position] = weights[index][slot]
    run = compiled(lambda w, s: scatter_window(w, window(s, 3), 6), mode)
    same(run(ops.convert_to_tensor(weights), ops.convert_to_tensor(start)), expected)


def test_gradient_of_scatter() -> None:
    start = np.array([[[-1], [4]]])
    run = differentiable(keras.layers.Identity(), lambda w: scatter_window(w, window(start, 3), 6))
    _, (gradient,), _ = run(np.ones((1, 2, 3), "float32"))
    probe = np.cos(np.arange(12) + 1.0).reshape(2, 6)
    expected = [[0, probe[0, 0], probe[0, 1]], [probe[1, 4], probe[1, 5], 0]]
    np.testing.assert_allclose(gradient[0], expected, atol=1e-6)


def test_take_first_entries_of_an_axis() -> None:
    x = np.arange(12.0).reshape(3, 4)
    same(take_first(x, 2, axis=0), x[:2])
    same(take_first(x, 3, axis=1), x[:, :3])


@needs_dynamic_shapes
def test_take_first_raises_beyond_a_dynamic_axis() -> None:
    run = with_dynamic_shapes(lambda x, like: take_first(x, ops.shape(like)[0], 0), (4,), (None,))
    same(run(np.ones(4, "float32"), np.ones(3, "float32")), np.ones(3))
    with pytest.raises(Exception, match="Expected size"):
        run(np.ones(4, "float32"), np.ones(5, "float32"))

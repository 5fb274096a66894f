from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import Projection, projected_cross_entropy
from tests.layers.running import array, differentiable, needs_dynamic_shapes, with_dynamic_shapes

N, D, V = 11, 4, 9


def make_case(bias: bool) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(N, D)), rng.normal(size=(D, V)), rng.normal(size=V)]
    weights = rng.random(N).astype("float32")
    weights[[2, 7]] = 0.0
    return [part.astype("float32") for part in parts[: 2 + bias]], rng.integers(0, V, N), weights


def oracle(
    parts: list[np.ndarray], labels: np.ndarray, weights: np.ndarray, smoothing: float
) -> tuple[float, list[np.ndarray]]:
    """Compute loss and gradients in float64 from all probabilities."""
    hidden, kernel, *bias = (part.astype("float64") for part in parts)
    logits = hidden @ kernel + (bias[0] if bias else 0.0)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    targets = (1 - smoothing) * np.eye(V)[labels] + smoothing / V
    by_logits = weights[:, None] * (np.exp(log_p) - targets)
    gradients = [by_logits @ kernel.T, hidden.T @ by_logits, by_logits.sum(0)]
    return float(-(weights[:, None] * targets * log_p).sum()), gradients[: len(parts)]


def compute_loss_and_gradients(
    parts: list[np.ndarray],
    labels: np.ndarray,
    weights: np.ndarray,
    smoothing: float,
    rows: Any,
    mode: str = "graph",
) -> tuple[float, list[np.ndarray]]:
    def loss(*parts: Any) -> Any:
        projection = Projection(*parts)
        return projected_cross_entropy(
            projection, ops.convert_to_tensor(labels), weights, smoothing, rows
        )

    run = differentiable(keras.layers.Identity(), loss, mode)
    value, gradients, _ = run(*parts)
    return float(value), [gradient / np.cos(1.0) for gradient in gradients]


@pytest.mark.parametrize("rows", [1, 4, 11, 64, None])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_loss_and_gradients_equal_reference(
    rows: int | None, bias: bool, smoothing: float, mode: str
) -> None:
    inputs = make_case(bias)
    loss, gradients = compute_loss_and_gradients(*inputs, smoothing, rows, mode)
    want, want_gradients = oracle(*inputs, smoothing)
    assert loss == pytest.approx(want, rel=1e-5)
    assert len(gradients) == 2 + bias
    for gradient, expected in zip(gradients, want_gradients, strict=True):
        np.testing.assert_allclose(gradient, expected, atol=2e-6)


def test_tokens_of_weight_zero_have_no_effect() -> None:
    parts, labels, weights = make_case(True)
    loss, gradients = compute_loss_and_gradients(parts, labels, weights, 0.1, 4)
    parts[0] = np.where(weights[:, None] == 0, np.nan, parts[0])
    masked_loss, other_gradients = compute_loss_and_gradients(parts, labels, weights, 0.1, 4)
    assert masked_loss == loss
    for one, other in zip(gradients, other_gradients, strict=True):
        np.testing.assert_array_equal(other, one)
    assert not gradients[0][weights == 0].any()


@pytest.mark.parametrize("mode", ["eager", "xla"])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_nan_gives_nan(part: int, mode: str) -> None:
    parts, labels, weights = make_case(True)
    parts[part].flat[0] = np.nan
    assert np.isnan(compute_loss_and_gradients(parts, labels, weights, 0.1, 4, mode)[0])


def test_no_tokens_give_zero_loss() -> None:
    parts, labels, weights = make_case(True)
    for tokens in (slice(0, 0), slice(2, 3)):
        inputs = [parts[0][tokens], *parts[1:]]
        loss, gradients = compute_loss_and_gradients(
            inputs, labels[tokens], weights[tokens], 0.1, 4
        )
        assert loss == 0.0
        assert not any(gradient.any() for gradient in gradients)


def test_extreme_logits_give_finite_loss() -> None:
    """The loss of an impossible token is its logit difference."""
    hidden, kernel = np.ones((1, 1), "float32"), np.array([[0.0, 500.0, -500.0]], "float32")
    loss, gradients = compute_loss_and_gradients(
        [hidden, kernel], np.array([2]), np.ones(1), 0.0, None
    )
    assert loss == pytest.approx(1000.0)
    np.testing.assert_allclose(gradients[1], [[0.0, 1.0, -1.0]], atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    parts, labels, weights = make_case(True)
    hidden, *others = map(ops.convert_to_tensor, parts)
    projection = Projection(ops.cast(hidden, dtype), *others)
    loss = projected_cross_entropy(projection, ops.convert_to_tensor(labels), weights, 0.1)
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    assert float(array(loss)) == pytest.approx(oracle(parts, labels, weights, 0.1)[0], rel=0.02)


def test_projection_computes_logits() -> None:
    parts, _, _ = make_case(True)
    logits = Projection(*map(ops.convert_to_tensor, parts)).logits()
    np.testing.assert_allclose(array(logits), parts[0] @ parts[1] + parts[2], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_of_confident_tokens_in_half_precision(dtype: str, smoothing: float) -> None:
    """Rounding before the subtraction of the label would cancel them."""
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, V, N), np.ones(N, "float32")
    kernel = rng.normal(size=(D, V))
    hidden = 4 * kernel.T[labels]
    hidden, kernel = (np.asarray(ops.cast(x.astype("float32"), dtype)) for x in (hidden, kernel))
    hidden, kernel = hidden.astype("float32"), kernel.astype("float32")

    def loss(hidden: Any, kernel: Any) -> Any:
        projection = Projection(ops.cast(hidden, dtype), kernel)
        return projected_cross_entropy(
            projection, ops.convert_to_tensor(labels), weights, smoothing, 4
        )

    _, gradients, _ = differentiable(keras.layers.Identity(), loss)(hidden, kernel)
    _, want = oracle([hidden, kernel], labels, weights, smoothing)
    for gradient, expected in zip(gradients, want, strict=True):
        error = np.linalg.norm(gradient / np.cos(1.0) - expected) / np.linalg.norm(expected)
        assert error < 0.02


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("label", [-100, -1, V, V + 50])
def test_label_out_of_range_gives_nan(label: int, mode: str) -> None:
    parts, labels, weights = make_case(False)
    labels[2] = label  # its weight is 0
    assert np.isfinite(compute_loss_and_gradients(parts, labels, weights, 0.1, 4, mode)[0])
    labels[0] = label
    assert np.isnan(compute_loss_and_gradients(parts, labels, weights, 0.1, 4, mode)[0])


@pytest.mark.full
@needs_dynamic_shapes
@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_empty_dynamic_batch(mode: str) -> None:
    def loss(hidden: Any, labels: Any) -> Any:
        weights = ops.ones_like(labels, "float32")
        return projected_cross_entropy(Projection(hidden, ops.ones((D, V))), labels, weights)

    run = with_dynamic_shapes(loss, (None, D), ((None,), "int32"), mode=mode)
    for count in (0, 3):
        got = float(run(np.zeros((count, D), "float32"), np.zeros(count, "int32")))
        assert got == pytest.approx(count * np.log(V))

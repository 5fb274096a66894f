from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import (
    CopyProjection,
    Projection,
    copied_cross_entropy,
    copied_log_probs,
    copied_share,
)
from tests.layers.running import JAX, MODES, WIDE, array, check_gradients, compiled, differentiable

B, T, S, D, V, C = 3, 4, 5, 3, 6, 2
SOURCE = np.array([[4, 6, 4, 7, 1], [6, 5, 5, 3, 0], [0, 0, 0, 0, 0]], "int32")
LABELS = np.array([[4, 7, 1, 3], [2, 6, 0, 0], [5, 6, 3, 0]], "int32")
"""Labels that can be generated and copied, copied only, and generated only. The last source is
empty, so its label 6 can be neither generated nor copied."""


def make_case(dtype: str = "float32") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    weights = np.exp(rng.normal(size=(B, T, S))) * (SOURCE != 0)[:, None]
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-9)
    parts = {
        "hidden": rng.normal(size=(B, T, D)),
        "kernel": rng.normal(size=(D, V)),
        "bias": rng.normal(size=V),
        "gate": rng.normal(size=(B, T)),
        "weights": weights,
    }
    return {name: part.astype(dtype) for name, part in parts.items()}


def oracle(parts: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return P `(B, T, V + C)` and its copied part, in float64."""
    parts = {name: part.astype("float64") for name, part in parts.items()}
    logits = parts["hidden"] @ parts["kernel"] + parts["bias"]
    generated = np.zeros((B, T, V + C))
    generated[..., :V] = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    with np.errstate(over="ignore"):
        p_gen = 1 / (1 + np.exp(-parts["gate"]))
    p_gen = np.where(parts["weights"].any(-1), p_gen, 1)[..., None]
    copied = np.zeros((B, T, V + C))
    for row, step, position in np.ndindex(B, T, S):
        copied[row, step, SOURCE[row, position]] += parts["weights"][row, step, position]
    copied = (1 - p_gen) * copied
    return p_gen * generated + copied, copied


def gather_labels(table: np.ndarray) -> np.ndarray:
    return np.take_along_axis(table, LABELS[..., None], axis=-1)[..., 0]


def compute_log_probs(**parts: Any) -> Any:
    logits = ops.matmul(parts["hidden"], parts["kernel"]) + parts["bias"]
    return copied_log_probs(logits, parts["gate"], parts["weights"], SOURCE, C)


def compute_loss(rows: int | None = 4, labels: np.ndarray = LABELS, **parts: Any) -> Any:
    projection = Projection(parts["hidden"], parts["kernel"], parts["bias"])
    copy_projection = CopyProjection(
        projection, parts["gate"], parts["weights"], ops.convert_to_tensor(SOURCE)
    )
    return copied_cross_entropy(copy_projection, ops.convert_to_tensor(labels), rows)


def compute_reference_loss(**parts: Any) -> Any:
    """Compute the loss from the distribution over all words."""
    label_log_probs = ops.take_along_axis(compute_log_probs(**parts), LABELS[..., None], axis=-1)[
        ..., 0
    ]
    return -ops.sum(ops.where(LABELS != 0, label_log_probs, ops.zeros((), label_log_probs.dtype)))


def compute_gradients(function: Any, parts: dict[str, np.ndarray], mode: str = "graph") -> Any:
    names = list(parts)
    run = differentiable(
        keras.layers.Identity(),
        lambda *given: function(**dict(zip(names, given, strict=True))),
        "xla" if JAX else mode,
    )
    value, gradients_by_name, _ = run(*parts.values())
    return value, dict(zip(names, gradients_by_name, strict=True))


def test_log_probs_and_loss_equal_reference() -> None:
    parts = make_case()
    expected, _ = oracle(parts)
    got = np.exp(array(compute_log_probs(**parts)))
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(got.sum(-1), 1, atol=1e-6)
    log_p = np.log(np.maximum(gather_labels(expected), 1e-30))
    assert log_p[2, 1] == np.log(1e-30), "a word that can be neither generated nor copied"
    assert float(array(compute_loss(**parts))) == pytest.approx(-log_p[LABELS != 0].sum(), rel=1e-6)


def test_any_number_of_leading_axes() -> None:
    parts = make_case()
    swapped = {name: part[:, 1:] for name, part in parts.items() if part.ndim == 3}
    logits = swapped["hidden"] @ parts["kernel"]
    gate, weights = parts["gate"][:, 1:], swapped["weights"]
    got = array(copied_log_probs(logits, gate, weights, SOURCE, C))
    with_extra_axis = [x[:, :, None] for x in (logits, gate, weights)]
    actual = array(copied_log_probs(*with_extra_axis, SOURCE, C))
    np.testing.assert_allclose(actual[:, :, 0], got, atol=1e-6)
    one = array(copied_log_probs(logits[:, 0], gate[:, 0], weights[:, 0], SOURCE, C))
    np.testing.assert_allclose(one, got[:, 0], atol=1e-6)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_loss_and_gradients_equal_those_of_the_full_distribution(mode: str) -> None:
    parts = make_case()
    parts["gate"][0, :2] = [-30.0, 30.0]
    expected, reference_gradients = compute_gradients(compute_reference_loss, parts)
    got, label_gradients = compute_gradients(compute_loss, parts, mode)
    assert got == pytest.approx(expected, rel=1e-6)
    for name, gradient in label_gradients.items():
        np.testing.assert_allclose(
            gradient, reference_gradients[name], rtol=1e-4, atol=1e-5, err_msg=name
        )


def test_gradients_equal_finite_differences() -> None:
    parts = make_case(WIDE)
    names = list(parts)

    def function(*given: Any) -> Any:
        return compute_log_probs(**dict(zip(names, given, strict=True)))

    layer = keras.layers.Identity()
    # Weights near 0, as those of the empty article, are too curved for a finite step.
    parts["weights"] = np.maximum(parts["weights"], 0.3).astype(WIDE)
    check_gradients(layer, differentiable(layer, function), list(parts.values()))


@pytest.mark.parametrize("gate_value", [-np.inf, -200.0, np.inf])
def test_p_gen_of_0_and_1(gate_value: float) -> None:
    parts = make_case()
    parts["gate"] = np.full((B, T), gate_value, "float32")
    expected, _ = oracle(parts)
    got = array(compute_log_probs(**parts))
    assert np.isfinite(got).all()
    np.testing.assert_allclose(np.exp(got), expected, atol=1e-6)
    loss, gradients_by_name = compute_gradients(compute_loss, parts)
    assert loss == pytest.approx(float(array(compute_reference_loss(**parts))), rel=1e-5)
    assert all(np.isfinite(gradient).all() for gradient in gradients_by_name.values())


def test_tiny_weights_have_finite_gradients() -> None:
    """A copied label whose source positions have tiny weights."""
    parts = make_case()
    parts["gate"][:] = -50.0
    for smallest in (1e-20, 1e-33, 0.0):
        parts["weights"][0, 1] = [1, 0, 0, smallest, 0]
        _, gradients_by_name = compute_gradients(compute_loss, parts)
        assert all(np.isfinite(gradient).all() for gradient in gradients_by_name.values())
        score_gradients = gradients_by_name["weights"] * parts["weights"]  # gradient by the scores
        assert np.abs(score_gradients).max() < 10


def test_padding_has_no_effect() -> None:
    parts = make_case()
    expected, reference_gradients = compute_gradients(compute_loss, parts)
    for name in ("hidden", "gate", "weights"):
        parts[name][LABELS == 0] = np.nan
    got, gradients_by_name = compute_gradients(compute_loss, parts)
    assert got == expected
    for name, gradient in gradients_by_name.items():
        np.testing.assert_array_equal(gradient, reference_gradients[name])
    for name in ("hidden", "gate", "weights"):
        assert not gradients_by_name[name][LABELS == 0].any()
    assert float(array(compute_loss(labels=np.zeros_like(LABELS), **parts))) == 0
    negative = np.where(LABELS == 3, -1, LABELS)
    assert np.isnan(array(compute_loss(labels=negative, **make_case())))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", make_case())
def test_nan_gives_nan(name: str, mode: str) -> None:
    parts = make_case()
    parts[name].flat[0] = np.nan
    assert np.isnan(array(compiled(compute_loss, mode)(**parts)))


def test_nan_in_any_weight_gives_nan() -> None:
    """NaN may be at a position whose token differs from the label, or in all weights."""
    for index in (*np.ndindex(S), slice(None)):
        parts = make_case()
        parts["weights"][(0, 1, *np.atleast_1d(index))] = np.nan
        assert np.isnan(array(compute_loss(**parts)))
        logits = parts["hidden"] @ parts["kernel"]
        share = array(copied_share(logits, parts["gate"], parts["weights"], SOURCE, LABELS))
        assert np.argwhere(np.isnan(share)).tolist() == [[0, 1]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    parts = make_case()
    half = {name: ops.cast(part, dtype) for name, part in parts.items()}
    for function in (compute_loss, compute_log_probs):
        got, expected = function(**half), function(**parts)
        assert keras.backend.standardize_dtype(got.dtype) == "float32"
        np.testing.assert_allclose(array(got), array(expected), rtol=0.03, atol=0.03)


def test_gradient_of_tiny_weights_fits_float16() -> None:
    parts = make_case()
    parts["weights"][0, 1, 3] = 6e-8
    parts["gate"][:] = -30.0
    parts["weights"] = parts["weights"].astype("float16")
    _, gradients_by_name = compute_gradients(compute_loss, parts)
    assert gradients_by_name["weights"][0, 1, 3] < -3e4
    assert all(np.isfinite(gradient).all() for gradient in gradients_by_name.values())


def test_copied_share_equals_reference() -> None:
    parts = make_case()
    mixed, copied = oracle(parts)
    logits = parts["hidden"] @ parts["kernel"] + parts["bias"]
    got = array(copied_share(logits, parts["gate"], parts["weights"], SOURCE, LABELS))
    possible = gather_labels(mixed) > 0
    assert not possible[2, 1]
    expected = gather_labels(copied)[possible] / gather_labels(mixed)[possible]
    np.testing.assert_allclose(got[possible], expected, atol=1e-6)
    assert got[0, 1] == pytest.approx(1)
    assert got[2, 0] < 1e-20


@pytest.mark.parametrize("sizes", [(0, 4, 5), (3, 0, 5), (3, 4, 0)], ids=str)
def test_empty_inputs(sizes: tuple[int, int, int]) -> None:
    batch, steps, sources = sizes
    weights, source = np.zeros(sizes, "float32"), np.zeros((batch, sources), "int32")
    gate, hidden = np.zeros((batch, steps), "float32"), np.ones((batch, steps, D), "float32")
    got = array(copied_log_probs(np.zeros((batch, steps, V)), gate, weights, source, C))
    assert got.shape == (batch, steps, V + C)
    np.testing.assert_allclose(got[..., :V], -np.log(V), rtol=1e-5)
    parts = (hidden, np.zeros((D, V), "float32"), gate, weights, source)
    hidden, kernel, *others = map(ops.convert_to_tensor, parts)
    copy_projection = CopyProjection(Projection(hidden, kernel), *others)
    loss = float(array(copied_cross_entropy(copy_projection, ops.full((batch, steps), 4))))
    assert loss == pytest.approx(batch * steps * np.log(V), rel=1e-5)


def test_out_of_range_ids_are_unknown_tokens() -> None:
    parts = make_case()
    logits, others = parts["hidden"] @ parts["kernel"], (parts["gate"], parts["weights"])
    out_of_range = np.where(SOURCE == 7, 50, SOURCE)
    expected = copied_log_probs(logits, *others, np.where(SOURCE == 7, 1, SOURCE), C)
    np.testing.assert_array_equal(
        array(copied_log_probs(logits, *others, out_of_range, C)), array(expected)
    )

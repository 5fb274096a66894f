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
from tests.layers.running import JAX, WIDE, array, check_gradients, differentiable

B, T, S, D, V, C = 3, 4, 5, 3, 6, 2
SOURCE = np.array([[4, 6, 4, 7, 1], [6, 5, 5, 3, 0], [0, 0, 0, 0, 0]], "int32")
LABELS = np.array([[4, 7, 1, 3], [2, 6, 0, 0], [5, 6, 3, 0]], "int32")
"""A word that both ways say, copied ones, one that only the vocabulary says; an empty article, and
in it a word, 6, that neither way can say."""


def case(dtype: str = "float32") -> dict[str, np.ndarray]:
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
    """P `(B, T, V + C)`, and of it what is copied, place by place in float64."""
    parts = {name: part.astype("float64") for name, part in parts.items()}
    logits = parts["hidden"] @ parts["kernel"] + parts["bias"]
    said = np.zeros((B, T, V + C))
    said[..., :V] = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    with np.errstate(over="ignore"):
        p_gen = 1 / (1 + np.exp(-parts["gate"]))
    p_gen = np.where(parts["weights"].any(-1), p_gen, 1)[..., None]
    copied = np.zeros((B, T, V + C))
    for row, step, place in np.ndindex(B, T, S):
        copied[row, step, SOURCE[row, place]] += parts["weights"][row, step, place]
    copied = (1 - p_gen) * copied
    return p_gen * said + copied, copied


def of_labels(table: np.ndarray) -> np.ndarray:
    return np.take_along_axis(table, LABELS[..., None], axis=-1)[..., 0]


def whole(**parts: Any) -> Any:
    logits = ops.matmul(parts["hidden"], parts["kernel"]) + parts["bias"]
    return copied_log_probs(logits, parts["gate"], parts["weights"], SOURCE, C)


def total(rows: int | None = 4, labels: np.ndarray = LABELS, **parts: Any) -> Any:
    projection = Projection(parts["hidden"], parts["kernel"], parts["bias"])
    of = CopyProjection(projection, parts["gate"], parts["weights"], ops.convert_to_tensor(SOURCE))
    return copied_cross_entropy(of, ops.convert_to_tensor(labels), rows)


def by_whole(**parts: Any) -> Any:
    """The same number through the distribution over all words."""
    chosen = ops.take_along_axis(whole(**parts), LABELS[..., None], axis=-1)[..., 0]
    return -ops.sum(ops.where(LABELS != 0, chosen, ops.zeros((), chosen.dtype)))


def gradients(function: Any, parts: dict[str, np.ndarray], mode: str = "graph") -> Any:
    names = list(parts)
    run = differentiable(
        keras.layers.Identity(),
        lambda *given: function(**dict(zip(names, given, strict=True))),
        "xla" if JAX else mode,
    )
    value, found, _ = run(*parts.values())
    return value, dict(zip(names, found, strict=True))


def test_brute_force() -> None:
    parts = case()
    want, _ = oracle(parts)
    got = np.exp(array(whole(**parts)))
    np.testing.assert_allclose(got, want, atol=1e-6)
    np.testing.assert_allclose(got.sum(-1), 1, atol=1e-6)
    log_p = np.log(np.maximum(of_labels(want), 1e-30))
    assert log_p[2, 1] == np.log(1e-30), "a word of no way"
    assert float(array(total(**parts))) == pytest.approx(-log_p[LABELS != 0].sum(), rel=1e-6)


def test_any_axes_before() -> None:
    parts = case()
    swapped = {name: part[:, 1:] for name, part in parts.items() if part.ndim == 3}
    logits = swapped["hidden"] @ parts["kernel"]
    gate, weights = parts["gate"][:, 1:], swapped["weights"]
    got = array(copied_log_probs(logits, gate, weights, SOURCE, C))
    four = [x[:, :, None] for x in (logits, gate, weights)]
    again = array(copied_log_probs(*four, SOURCE, C))
    np.testing.assert_allclose(again[:, :, 0], got, atol=1e-6)
    one = array(copied_log_probs(logits[:, 0], gate[:, 0], weights[:, 0], SOURCE, C))
    np.testing.assert_allclose(one, got[:, 0], atol=1e-6)


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_the_loss_and_its_gradients_are_those_of_the_whole_distribution(mode: str) -> None:
    parts = case()
    parts["gate"][0, :2] = [-30.0, 30.0]
    want, by_all = gradients(by_whole, parts)
    got, by_label = gradients(total, parts, mode)
    assert got == pytest.approx(want, rel=1e-6)
    for name, gradient in by_label.items():
        np.testing.assert_allclose(gradient, by_all[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_gradients_are_finite_differences() -> None:
    parts = case(WIDE)
    names = list(parts)

    def function(*given: Any) -> Any:
        return whole(**dict(zip(names, given, strict=True)))

    layer = keras.layers.Identity()
    # Weights near 0, as those of the empty article, are too curved for a finite step.
    parts["weights"] = np.maximum(parts["weights"], 0.3).astype(WIDE)
    check_gradients(layer, differentiable(layer, function), list(parts.values()))


@pytest.mark.parametrize("sure", [-np.inf, -200.0, np.inf])
def test_p_gen_of_0_and_1(sure: float) -> None:
    parts = case()
    parts["gate"] = np.full((B, T), sure, "float32")
    want, _ = oracle(parts)
    got = array(whole(**parts))
    assert np.isfinite(got).all()
    np.testing.assert_allclose(np.exp(got), want, atol=1e-6)
    loss, found = gradients(total, parts)
    assert loss == pytest.approx(float(array(by_whole(**parts))), rel=1e-5)
    assert all(np.isfinite(gradient).all() for gradient in found.values())


def test_weights_near_nothing_have_finite_gradients() -> None:
    """A label that is copied for certain, from places that weigh next to nothing."""
    parts = case()
    parts["gate"][:] = -50.0
    for least in (1e-20, 1e-33, 0.0):
        parts["weights"][0, 1] = [1, 0, 0, least, 0]
        _, found = gradients(total, parts)
        assert all(np.isfinite(gradient).all() for gradient in found.values())
        moved = found["weights"] * parts["weights"]  # what reaches the scores
        assert np.abs(moved).max() < 10


def test_padding_reaches_nothing() -> None:
    parts = case()
    want, by_all = gradients(total, parts)
    for name in ("hidden", "gate", "weights"):
        parts[name][LABELS == 0] = np.nan
    got, found = gradients(total, parts)
    assert got == want
    for name, gradient in found.items():
        np.testing.assert_array_equal(gradient, by_all[name])
    for name in ("hidden", "gate", "weights"):
        assert not found[name][LABELS == 0].any()
    assert float(array(total(labels=np.zeros_like(LABELS), **parts))) == 0
    below = np.where(LABELS == 3, -1, LABELS)
    assert np.isnan(array(total(labels=below, **case())))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    parts = case()
    half = {name: ops.cast(part, dtype) for name, part in parts.items()}
    for function in (total, whole):
        got, want = function(**half), function(**parts)
        assert keras.backend.standardize_dtype(got.dtype) == "float32"
        np.testing.assert_allclose(array(got), array(want), rtol=0.03, atol=0.03)


def test_one_over_a_weight_fits_float16() -> None:
    parts = case()
    parts["weights"][0, 1, 3] = 6e-8
    parts["gate"][:] = -30.0
    parts["weights"] = parts["weights"].astype("float16")
    _, found = gradients(total, parts)
    assert found["weights"][0, 1, 3] < -3e4
    assert all(np.isfinite(gradient).all() for gradient in found.values())


def test_share_of_the_copied() -> None:
    parts = case()
    mixed, copied = oracle(parts)
    logits = parts["hidden"] @ parts["kernel"] + parts["bias"]
    got = array(copied_share(logits, parts["gate"], parts["weights"], SOURCE, LABELS))
    possible = of_labels(mixed) > 0
    assert not possible[2, 1]
    want = of_labels(copied)[possible] / of_labels(mixed)[possible]
    np.testing.assert_allclose(got[possible], want, atol=1e-6)
    assert got[0, 1] == pytest.approx(1)
    assert got[2, 0] < 1e-20


@pytest.mark.parametrize("sizes", [(0, 4, 5), (3, 0, 5), (3, 4, 0)], ids=str)
def test_nothing_is_fine(sizes: tuple[int, int, int]) -> None:
    batch, steps, sources = sizes
    weights, source = np.zeros(sizes, "float32"), np.zeros((batch, sources), "int32")
    gate, hidden = np.zeros((batch, steps), "float32"), np.ones((batch, steps, D), "float32")
    got = array(copied_log_probs(np.zeros((batch, steps, V)), gate, weights, source, C))
    assert got.shape == (batch, steps, V + C)
    np.testing.assert_allclose(got[..., :V], -np.log(V), rtol=1e-5)
    parts = (hidden, np.zeros((D, V), "float32"), gate, weights, source)
    hidden, kernel, *others = map(ops.convert_to_tensor, parts)
    of = CopyProjection(Projection(hidden, kernel), *others)
    loss = float(array(copied_cross_entropy(of, ops.full((batch, steps), 4))))
    assert loss == pytest.approx(batch * steps * np.log(V), rel=1e-5)


def test_ids_that_nobody_has_are_unknown_words() -> None:
    parts = case()
    logits, others = parts["hidden"] @ parts["kernel"], (parts["gate"], parts["weights"])
    strange = np.where(SOURCE == 7, 50, SOURCE)
    want = copied_log_probs(logits, *others, np.where(SOURCE == 7, 1, SOURCE), C)
    np.testing.assert_array_equal(array(copied_log_probs(logits, *others, strange, C)), array(want))

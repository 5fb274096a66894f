from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.losses import GlimpseLoss
from tests.layers.running import MODES, array, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance

RNG = np.random.default_rng(0)
LABELS = np.array([2, 0, 1, 1])
LOGITS = RNG.normal(size=(4, 3)).astype("float32")
LOGITS[0, 2] = LOGITS[2, 1] = 3.0
RIGHT = np.array([1.0, 0.0, 1.0, 0.0])[:, None]
PATH = {
    "logits": LOGITS,
    "log_probabilities": RNG.normal(size=(4, 2)).astype("float32"),
    "baselines": RNG.random((4, 2)).astype("float32"),
}
LOGITS[1], LOGITS[3] = [0.1, 0.5, 0.2], [0.4, 0.3, 0.2]


def wanted(smoothing: float) -> np.ndarray:
    """Cross entropies in float64."""
    x = LOGITS.astype("float64")
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    right = np.full((4, 3), smoothing / 3)
    right[range(4), LABELS] += 1 - smoothing
    return -(right * logs).sum(-1)


class TestGlimpseLoss(LossConformance):
    covers = GlimpseLoss
    changed = {"label_smoothing": 0.1, "coefficient": 0.5, "reduction": "sum", "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, PATH

    def behaviour(self, loss: GlimpseLoss) -> list[np.ndarray]:
        """Return value and gradients: the coefficient does not change the value."""
        return [*super().behaviour(loss), *gradients(loss)]

    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    @pytest.mark.parametrize("mode", MODES)
    def test_oracle(self, mode: str, smoothing: float) -> None:
        """The cross entropy is its value, with and without a path."""
        loss = GlimpseLoss(smoothing, reduction="none")
        for given in (LOGITS, PATH):
            got = array(compiled(loss, mode)(LABELS, given))
            np.testing.assert_allclose(got, wanted(smoothing), rtol=1e-5)
        got = float(array(GlimpseLoss(smoothing)(LABELS, PATH)))
        assert got == pytest.approx(wanted(smoothing).mean(), rel=1e-5)


def gradients(loss: GlimpseLoss) -> list[np.ndarray]:
    """By logits, log probabilities and baselines."""

    def of(*parts: Any) -> Any:
        return loss(LABELS, dict(zip(PATH, parts, strict=True))) / np.cos(1)

    return differentiable(keras.layers.Identity(), of)(*PATH.values())[1]


def test_each_part_learns_by_its_own_term() -> None:
    by_logits, by_log_probabilities, by_baselines = gradients(GlimpseLoss(coefficient=0.5))
    shares = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    np.testing.assert_allclose(by_logits, (shares - np.eye(3)[LABELS]) / 4, atol=1e-6)
    error = RIGHT - PATH["baselines"]
    np.testing.assert_allclose(by_log_probabilities, -0.5 * error / 4, rtol=1e-5)
    np.testing.assert_allclose(by_baselines, -2 * error / 4, rtol=1e-5)
    assert not gradients(GlimpseLoss(coefficient=0.0))[1].any()


def test_rows_weigh_as_they_are_told_and_none_cost_nothing() -> None:
    share = np.array([0.0, 1.0, 0.0, 3.0], "float32")
    got = float(array(GlimpseLoss(reduction="sum")(LABELS, PATH, share)))
    assert got == pytest.approx((wanted(0.0) * share).sum(), rel=1e-5)
    none = {name: x[:0] for name, x in PATH.items()}
    assert array(GlimpseLoss(reduction="none")(LABELS[:0], none)).shape == (0,)


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match=r"y_true must be \(4\), got shape \(4, 1\)"):
        GlimpseLoss()(LABELS[:, None], PATH)
    with pytest.raises(ValueError, match=r"logits must be \(batch, classes\), got shape"):
        GlimpseLoss()(LABELS, LOGITS[:, 0])

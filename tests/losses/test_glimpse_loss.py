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
IS_CORRECT = np.array([1.0, 0.0, 1.0, 0.0])[:, None]
PATH = {
    "logits": LOGITS,
    "log_probabilities": RNG.normal(size=(4, 2)).astype("float32"),
    "baselines": RNG.random((4, 2)).astype("float32"),
}
LOGITS[1], LOGITS[3] = [0.1, 0.5, 0.2], [0.4, 0.3, 0.2]


def compute_expected_losses(smoothing: float) -> np.ndarray:
    """Compute cross-entropies in float64."""
    x = LOGITS.astype("float64")
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    targets = np.full((4, 3), smoothing / 3)
    targets[range(4), LABELS] += 1 - smoothing
    return -(targets * logs).sum(-1)


class TestGlimpseLoss(LossConformance):
    covers = GlimpseLoss
    changed = {"label_smoothing": 0.1, "coefficient": 0.5, "reduction": "sum", "name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, PATH

    def behaviour(self, loss: GlimpseLoss) -> list[np.ndarray]:
        """Return value and gradients: the coefficient does not change the value."""
        return [*super().behaviour(loss), *compute_gradients(loss)]

    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_cross_entropy(self, mode: str, smoothing: float) -> None:
        """The value is the cross-entropy, with and without a path."""
        loss = GlimpseLoss(smoothing, reduction="none")
        for y_pred in (LOGITS, PATH):
            got = array(compiled(loss, mode)(LABELS, y_pred))
            np.testing.assert_allclose(got, compute_expected_losses(smoothing), rtol=1e-5)
        got = float(array(GlimpseLoss(smoothing)(LABELS, PATH)))
        assert got == pytest.approx(compute_expected_losses(smoothing).mean(), rel=1e-5)


def compute_gradients(loss: GlimpseLoss) -> list[np.ndarray]:
    """Return the gradients by logits, log probabilities and baselines."""

    def run_loss(*parts: Any) -> Any:
        return loss(LABELS, dict(zip(PATH, parts, strict=True))) / np.cos(1)

    return differentiable(keras.layers.Identity(), run_loss)(*PATH.values())[1]


def test_gradient_of_each_term() -> None:
    by_logits, by_log_probabilities, by_baselines = compute_gradients(GlimpseLoss(coefficient=0.5))
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    np.testing.assert_allclose(by_logits, (probs - np.eye(3)[LABELS]) / 4, atol=1e-6)
    error = IS_CORRECT - PATH["baselines"]
    np.testing.assert_allclose(by_log_probabilities, -0.5 * error / 4, rtol=1e-5)
    np.testing.assert_allclose(by_baselines, -2 * error / 4, rtol=1e-5)
    assert not compute_gradients(GlimpseLoss(coefficient=0.0))[1].any()


def test_sample_weights_and_empty_batch() -> None:
    sample_weight = np.array([0.0, 1.0, 0.0, 3.0], "float32")
    got = float(array(GlimpseLoss(reduction="sum")(LABELS, PATH, sample_weight)))
    assert got == pytest.approx((compute_expected_losses(0.0) * sample_weight).sum(), rel=1e-5)
    empty = {name: x[:0] for name, x in PATH.items()}
    assert array(GlimpseLoss(reduction="none")(LABELS[:0], empty)).shape == (0,)


def test_invalid_shapes_raise() -> None:
    with pytest.raises(ValueError, match=r"y_true must be \(4\), got shape \(4, 1\)"):
        GlimpseLoss()(LABELS[:, None], PATH)
    with pytest.raises(ValueError, match=r"logits must be \(batch, classes\), got shape"):
        GlimpseLoss()(LABELS, LOGITS[:, 0])

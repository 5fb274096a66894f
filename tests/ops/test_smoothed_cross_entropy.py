from __future__ import annotations

import keras
import numpy as np
import pytest

from attention_zoo.ops import check_label_smoothing, smoothed_cross_entropy
from tests.layers.running import MODES, array, compiled


def oracle(labels: np.ndarray, logits: np.ndarray, smoothing: float) -> np.ndarray:
    """Compute the cross-entropy to the smoothed label distribution in float64."""
    x = logits.astype("float64")
    log_probs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    targets = (1 - smoothing) * np.eye(x.shape[-1])[labels] + smoothing / x.shape[-1]
    return -(targets * log_probs).sum(-1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_loss_equals_reference(smoothing: float, mode: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3,), (2, 4), (2, 0, 3)):
        labels, logits = rng.integers(0, 5, shape), rng.normal(size=(*shape, 5)).astype("float32")
        got = compiled(lambda y, x: smoothed_cross_entropy(y, x, smoothing), mode)(labels, logits)
        assert array(got).shape == shape
        np.testing.assert_allclose(array(got), oracle(labels, logits, smoothing), rtol=1e-5)


def test_loss_equals_hand_computed_value() -> None:
    """Label 0 of probabilities 1/2, 1/4, 1/4, smoothed by 0.3: 0.8 ln 2 + 0.2 ln 4."""
    logits = np.log([0.5, 0.25, 0.25]).astype("float32")
    got = float(array(smoothed_cross_entropy(np.array(0), logits, 0.3)))
    assert got == pytest.approx(1.2 * np.log(2), rel=1e-6)


def test_half_precision_is_computed_in_float32() -> None:
    logits = keras.ops.convert_to_tensor(np.array([[60000.0, 0, 0]], "float16"))
    got = smoothed_cross_entropy(np.array([1]), logits, 0.1)
    assert keras.backend.standardize_dtype(got.dtype) == "float32"
    assert float(array(got)[0]) == pytest.approx(0.9 * 6e4 + 0.2 / 3 * 6e4, rel=1e-3)


@pytest.mark.parametrize("value", [-0.1, 1, float("nan"), "0.1", True])
def test_invalid_label_smoothing_raises(value: object) -> None:
    assert check_label_smoothing(0.25) == 0.25
    with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 1\), got "):
        check_label_smoothing(value)

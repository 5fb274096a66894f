from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.losses import ClassCrossEntropy
from tests.layers.running import JAX, MODES, array, arrays, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance

LABELS = np.array([2, 0, 1, 2])
SETS = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]])
LOGITS = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
WEIGHTS = [0.5, 2.0, 1.5]


def compute_expected_loss(smoothing: float, weights: list[float], multi_label: bool) -> float:
    """Compute the loss in float64, example by example and class by class."""
    total = 0.0
    for x, label, is_right in zip(LOGITS.astype("float64"), LABELS, SETS, strict=True):
        if multi_label:
            for k in range(3):
                p, t = 1 / (1 + np.exp(-x[k])), (1 - smoothing) * is_right[k] + smoothing / 2
                total -= weights[k] * (t * np.log(p) + (1 - t) * np.log(1 - p)) / 3
        else:
            log_probs = x - np.log(np.exp(x).sum())
            target = np.full(3, smoothing / 3)
            target[label] += 1 - smoothing
            total -= weights[label] * float(target @ log_probs)
    return total / len(LOGITS)


class TestClassCrossEntropy(LossConformance):
    covers = ClassCrossEntropy
    changed = {
        "label_smoothing": 0.1,
        "class_weights": WEIGHTS,
        "multi_label": True,
        "name": "other",
    }

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, LOGITS

    def behaviour(self, loss: ClassCrossEntropy) -> list[np.ndarray]:
        return [array(loss(SETS if loss.multi_label else LABELS, LOGITS))]

    @pytest.mark.parametrize("multi_label", [False, True])
    @pytest.mark.parametrize("smoothing", [0.0, 0.2])
    @pytest.mark.parametrize("weights", [None, WEIGHTS])
    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_reference(
        self, mode: str, weights: Any, smoothing: float, multi_label: bool
    ) -> None:
        loss = ClassCrossEntropy(smoothing, weights, multi_label)
        got = array(compiled(loss, mode)(SETS if multi_label else LABELS, LOGITS))
        expected = compute_expected_loss(smoothing, weights or [1.0] * 3, multi_label)
        assert float(got) == pytest.approx(expected, rel=1e-5)

    def test_loss_equals_hand_computed_value(self) -> None:
        """Probabilities 1/2 and 1/8 of the two labels: (ln 2 + ln 8) / 2 = ln 4.

        With weights 1 and 3: (ln 2 + 3 ln 8) / 2 = 5 ln 2; the sum of the weights is no divisor.
        Two labels with probabilities 3/4 and 1/5, the second one wrong: (ln 4/3 + ln 5/4) / 2.
        """
        logits = np.log([[0.25, 0.5, 0.25], [0.75, 0.125, 0.125]]).astype("float32")
        labels = np.array([1, 2])
        assert float(array(ClassCrossEntropy()(labels, logits))) == pytest.approx(np.log(4))
        weighted = ClassCrossEntropy(class_weights=[9.0, 1.0, 3.0])
        assert float(array(weighted(labels, logits))) == pytest.approx(5 * np.log(2))
        odds = np.log([[3.0, 0.25]]).astype("float32")
        got = ClassCrossEntropy(multi_label=True)(np.array([[1, 0]]), odds)
        assert float(array(got)) == pytest.approx(np.log(4 / 3 * 5 / 4) / 2, rel=1e-6)

    @pytest.mark.parametrize("multi_label", [False, True])
    def test_sample_weights(self, multi_label: bool) -> None:
        labels, loss = (SETS if multi_label else LABELS), ClassCrossEntropy(multi_label=multi_label)
        weights = np.array([0.0, 1.0, 0.0, 3.0], "float32")
        parts = [float(array(loss(labels[n : n + 1], LOGITS[n : n + 1]))) for n in range(4)]
        got = float(array(loss(labels, LOGITS, weights)))
        assert got == pytest.approx(float(weights @ parts) / 4, rel=1e-5)

    def test_large_logits_have_finite_losses_and_gradients(self) -> None:
        logits = np.array([[100.0, -100.0, 100.0]], "float32")
        for labels, expected in ((np.array([[1, 0, 1]]), 0), (np.array([[0, 1, 0]]), 100)):
            loss = ClassCrossEntropy(multi_label=True)
            run = differentiable(keras.layers.Identity(), lambda x, y=labels, f=loss: f(y, x))
            value, (gradient,), _ = run(logits)
            assert float(value) == pytest.approx(expected, abs=1e-6)
            assert np.isfinite(gradient).all()

    @pytest.mark.parametrize("multi_label", [False, True])
    def test_empty_batch_gives_zero(self, multi_label: bool) -> None:
        labels = SETS if multi_label else LABELS
        loss = ClassCrossEntropy(0.1, WEIGHTS, multi_label)
        assert float(array(loss(labels[:0], LOGITS[:0]))) == 0
        assert float(array(loss.count(labels[:0]))) == 0

    @pytest.mark.skipif(JAX, reason="the training loop is TensorFlow's")
    @pytest.mark.parametrize("multi_label", [False, True])
    def test_training_loop_weights_batches_by_examples(self, multi_label: bool) -> None:
        from attention_zoo.training.step import check_loss, compute_sums

        loss = ClassCrossEntropy(0.0, WEIGHTS, multi_label)
        check_loss(loss)
        labels = keras.ops.convert_to_tensor(SETS if multi_label else LABELS)
        total, count = arrays(compute_sums(loss, labels, LOGITS))
        assert count == 4
        expected = 4 * compute_expected_loss(0.0, WEIGHTS, multi_label)
        assert total == pytest.approx(expected, rel=1e-5)

    def test_invalid_arguments_raise(self) -> None:
        for weight in (-1.0, float("nan"), float("inf"), True, "2"):
            with pytest.raises(
                ValueError, match=f"class_weights must be finite .*, got {weight!r}"
            ):
                ClassCrossEntropy(class_weights=[1.0, weight])
        with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 1\), got 1"):
            ClassCrossEntropy(1)
        with pytest.raises(ValueError, match=r"y_true must be \(4\), got shape \(4, 3\)"):
            ClassCrossEntropy()(SETS, LOGITS)
        with pytest.raises(ValueError, match=r"y_true must be \(4, 3\), got shape \(4,\)"):
            ClassCrossEntropy(multi_label=True)(LABELS, LOGITS)
        with pytest.raises(ValueError, match=r"y_pred must be \(batch, 2\), got shape \(4, 3\)"):
            ClassCrossEntropy(class_weights=[1.0, 2.0])(LABELS, LOGITS)

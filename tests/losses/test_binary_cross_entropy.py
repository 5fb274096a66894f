from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.losses import BinaryCrossEntropy
from tests.layers.running import JAX, MODES, array, arrays, compiled, differentiable
from tests.losses.test_sequence_cross_entropy import LossConformance

LABELS = np.array([1.0, 0.0, 1.0], "float32")
LOGITS = np.array([[np.log(3)], [np.log(3)], [0.0]], "float32")


class TestBinaryCrossEntropy(LossConformance):
    covers = BinaryCrossEntropy
    changed = {"name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, LOGITS

    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_hand_computed_value(self, mode: str) -> None:
        """Probabilities 3/4, 1/4 and 1/2 of the labels: ln(4/3 * 4 * 2) / 3."""
        got = compiled(BinaryCrossEntropy(), mode)(LABELS, LOGITS)
        assert float(array(got)) == pytest.approx(np.log(32 / 3) / 3, rel=1e-6)

    def test_large_logits_give_finite_values_and_gradients(self) -> None:
        """A wrong logit costs its size, and its gradient is 1 / B; the rest is 0."""
        logits = np.array([[-1e4], [-1e4], [1e4]], "float32")
        loss = BinaryCrossEntropy()
        run = differentiable(keras.layers.Identity(), lambda x: loss(LABELS, x))
        value, (gradient,), _ = run(logits)
        assert float(value) == pytest.approx(1e4 / 3)
        factor = np.cos(1)  # of the only output, see `probed`
        np.testing.assert_allclose(gradient[:, 0] / factor, [-1 / 3, 0, 0], atol=1e-6)

    def test_empty_batch_gives_zero(self) -> None:
        assert float(array(BinaryCrossEntropy()(LABELS[:0], LOGITS[:0]))) == 0

    @pytest.mark.skipif(JAX, reason="the training loop is TensorFlow's")
    def test_training_loop_weights_batches_by_examples(self) -> None:
        from attention_zoo.training.step import check_loss, compute_sums

        loss = BinaryCrossEntropy()
        check_loss(loss)
        labels, logits = map(keras.ops.convert_to_tensor, (LABELS, LOGITS))
        total, count = arrays(compute_sums(loss, labels, logits))
        assert (total, count) == (pytest.approx(np.log(32 / 3), rel=1e-6), 3)

    def test_invalid_shapes_raise(self) -> None:
        with pytest.raises(ValueError, match=r"y_pred must be \(batch, 1\), got shape \(3,\)"):
            BinaryCrossEntropy()(LABELS, LOGITS[:, 0])
        with pytest.raises(ValueError, match=r"y_true must be \(3\), got shape \(2,\)"):
            BinaryCrossEntropy()(LABELS[:2], LOGITS)

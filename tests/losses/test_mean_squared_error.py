from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.losses import MeanSquaredError
from tests.layers.running import JAX, MODES, array, arrays, compiled
from tests.losses.test_sequence_cross_entropy import LossConformance

NUMBERS = np.array([1.0, 4.5, 3.0], "float32")
OUTPUTS = np.array([[2.0], [4.0], [-1.0]], "float32")


class TestMeanSquaredError(LossConformance):
    covers = MeanSquaredError
    changed = {"name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return NUMBERS, OUTPUTS

    @pytest.mark.parametrize("mode", MODES)
    def test_loss_equals_hand_computed_value(self, mode: str) -> None:
        """(1 + 0.25 + 16) / 3."""
        got = compiled(MeanSquaredError(), mode)(NUMBERS, OUTPUTS)
        assert float(array(got)) == pytest.approx(5.75)

    def test_empty_batch_gives_zero(self) -> None:
        assert float(array(MeanSquaredError()(NUMBERS[:0], OUTPUTS[:0]))) == 0

    @pytest.mark.skipif(JAX, reason="the training loop is TensorFlow's")
    def test_training_loop_weights_batches_by_examples(self) -> None:
        from attention_zoo.training.step import check_loss, compute_sums

        loss = MeanSquaredError()
        check_loss(loss)
        labels, outputs = map(keras.ops.convert_to_tensor, (NUMBERS, OUTPUTS))
        total, count = arrays(compute_sums(loss, labels, outputs))
        assert (total, count) == (pytest.approx(17.25), 3)

    def test_invalid_shapes_raise(self) -> None:
        with pytest.raises(ValueError, match=r"y_pred must be \(batch, 1\), got shape \(3, 2\)"):
            MeanSquaredError()(NUMBERS, np.zeros((3, 2), "float32"))
        with pytest.raises(ValueError, match=r"y_true must be \(3\), got shape \(3, 1\)"):
            MeanSquaredError()(NUMBERS[:, None], OUTPUTS)

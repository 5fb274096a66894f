from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.losses import CopyCrossEntropy, SequenceCrossEntropy
from attention_zoo.ops import CopyProjection, Projection
from tests.layers.running import MODES, array, compiled
from tests.losses.test_sequence_cross_entropy import LABELS, LOGITS, LossConformance

LOG_PROBS = LOGITS - np.log(np.exp(LOGITS).sum(-1, keepdims=True))


class TestCopyCrossEntropy(LossConformance):
    covers = CopyCrossEntropy
    changed = {"name": "other"}

    def labels_and_predictions(self) -> tuple[Any, Any]:
        return LABELS, LOG_PROBS

    @pytest.mark.parametrize("mode", MODES)
    def test_equals_cross_entropy_of_log_probabilities(self, mode: str) -> None:
        expected = array(SequenceCrossEntropy()(LABELS, LOGITS))
        corrupted = np.where((LABELS != 0)[..., None], LOG_PROBS, np.float32(np.nan))
        got = array(compiled(CopyCrossEntropy(), mode)(LABELS, corrupted))
        assert got == pytest.approx(float(expected), rel=1e-6)

    @pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
    def test_padding_only_gives_zero(self, shape: tuple[int, int]) -> None:
        log_probs = np.zeros((*shape, 5), "float32")
        assert array(CopyCrossEntropy()(np.zeros(shape, "int32"), log_probs)) == 0

    @pytest.mark.parametrize("label", [-1, 5])
    def test_label_out_of_range_gives_nan(self, label: int) -> None:
        labels = np.where(LABELS == 4, label, LABELS)
        assert np.isnan(array(CopyCrossEntropy()(labels, LOG_PROBS)))

    def test_invalid_shapes_raise(self) -> None:
        with pytest.raises(ValueError, match=r"y_pred must be \(batch, steps, words\), got"):
            CopyCrossEntropy()(LABELS, LOG_PROBS[:, 0])
        with pytest.raises(ValueError, match=r"y_true must be \(3, 4\), got shape"):
            CopyCrossEntropy()(LABELS[:, :1], LOG_PROBS)


def test_total_equals_mean_times_count() -> None:
    rng = np.random.default_rng(0)
    sizes = ((2, 3, 4), (4, 5), (2, 3), (2, 3, 3))
    parts = [rng.random(size).astype("float32") for size in sizes]
    parts[3] /= parts[3].sum(-1, keepdims=True)
    hidden, kernel, gate, weights = map(ops.convert_to_tensor, parts)
    source, labels = np.array([[5, 1, 6], [4, 4, 5]]), np.array([[1, 6, 0], [5, 0, 4]])
    source, labels = ops.convert_to_tensor(source), ops.convert_to_tensor(labels)
    projection, loss = (
        CopyProjection(Projection(hidden, kernel), gate, weights, source),
        CopyCrossEntropy(),
    )
    expected = float(array(loss(labels, projection.log_probs(2)))) * float(
        array(loss.count(labels))
    )
    assert float(array(loss.total(labels, projection))) == pytest.approx(expected)
    with pytest.raises(ValueError, match="y_true"):
        loss.total(labels[:, :2], projection)
    with pytest.raises(ValueError, match=r"needs an ops.CopyProjection, got Projection; a model"):
        loss.total(labels, projection.projection)
    with pytest.raises(ValueError, match=r"needs an ops.Projection, got CopyProjection; a model"):
        SequenceCrossEntropy().total(labels, projection)

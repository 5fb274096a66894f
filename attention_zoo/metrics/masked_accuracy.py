"""Accuracy of labels with padding."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.metrics.masked_mean import SparseCategoricalMetric
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class MaskedAccuracy(SparseCategoricalMetric):
    """Fraction of the labels that have the highest score, without padding.

    `sum_bt w_bt [argmax_v x_btv = y_bt] / sum_bt w_bt`

    Args:
        ignore_class: label that is ignored; 0, the padding of `losses.SequenceCrossEntropy`, by
            default. None if all labels count.
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true: y, labels `(B, T)`, integers; or `(...)` for scores `(..., V)`.
        y_pred: x, logits or (log) probabilities `(B, T, V)`. A label with a NaN among its scores
            makes the result NaN.
        sample_weight: w, `(B,)` or `(B, T)`; 1 by default.

    Returns:
        A scalar from 0 to 1, over all batches since the last reset; 0 before the first label.

    Masking:
        Labels equal to `ignore_class`, labels that the Keras mask of `y_pred` masks, and labels of
        weight 0 have no effect, whatever their scores.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.metrics import MaskedAccuracy
        >>> labels, logits = np.array([[1, 2, 0]]), np.array([[[0, 3, 1], [0, 3, 1], [9, 0, 0]]])
        >>> accuracy = MaskedAccuracy()
        >>> float(accuracy(labels, logits.astype("float32")))
        0.5

    Reference:
        This library.
    """

    def __init__(
        self, ignore_class: int | None = 0, name: str = "masked_accuracy", dtype: Any = None
    ) -> None:
        super().__init__(ignore_class, name, dtype)

    def compute_values(self, labels: Tensor, scores: Tensor) -> Tensor:
        is_correct = ops.cast(ops.argmax(scores, axis=-1) == labels, self.dtype)
        return ops.where(ops.any(ops.isnan(scores), axis=-1), float("nan"), is_correct)

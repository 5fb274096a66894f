"""Perplexity."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.metrics.masked_mean import SparseCategoricalMetric
from attention_zoo.ops import at_least_float32, smoothed_cross_entropy
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class Perplexity(SparseCategoricalMetric):
    """Exponential of the mean cross-entropy of the labels, without padding.

    `exp(sum_bt w_bt -log p(y_bt) / sum_bt w_bt)`, `p = softmax(x_bt)`

    Args:
        from_logits: whether `y_pred` contains logits or log probabilities, as the models return
            them, and not probabilities.
        ignore_class: label that is ignored; 0, the padding of `losses.SequenceCrossEntropy`, by
            default. None if all labels count.
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true: y, labels `(B, T)`, integers; or `(...)` for scores `(..., V)`.
        y_pred: x, logits `(B, T, V)`, or probabilities if `from_logits=False`.
        sample_weight: w, `(B,)` or `(B, T)`; 1 by default.

    Returns:
        A scalar, at least 1, over all batches since the last reset; 1 before the first label.

    Masking:
        Labels equal to `ignore_class`, labels that the Keras mask of `y_pred` masks, and labels of
        weight 0 have no effect, whatever their scores.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.metrics import Perplexity
        >>> labels, logits = np.array([[1, 2, 0]]), np.zeros((1, 3, 8), "float32")
        >>> perplexity = Perplexity()
        >>> round(float(perplexity(labels, logits)), 3)
        8.0

    Reference:
        Jelinek et al. 1977, "Perplexity - a measure of the difficulty of speech recognition tasks",
        section 1.
    """

    def __init__(
        self,
        from_logits: bool = True,
        ignore_class: int | None = 0,
        name: str = "perplexity",
        dtype: Any = None,
    ) -> None:
        super().__init__(ignore_class, name, dtype)
        self.from_logits = from_logits

    def compute_values(self, labels: Tensor, scores: Tensor) -> Tensor:
        logits = scores if self.from_logits else ops.log(at_least_float32(scores))
        return smoothed_cross_entropy(labels, logits)

    def result(self) -> Tensor:
        """Return the perplexity of all labels so far."""
        return ops.exp(super().result())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_logits": self.from_logits}

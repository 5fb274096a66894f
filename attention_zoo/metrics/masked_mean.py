"""Base classes of the Keras metrics: means over unmasked labels."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops import check_shape, implicit_mask, sizes_or
from attention_zoo.typing import Tensor


class MaskedMean(keras.metrics.Mean):
    """Mean over unmasked labels: one sum over one count, whatever the lengths of the batches."""

    def update_masked(self, values: Tensor, mask: Tensor, sample_weight: Any = None) -> None:
        """Add the values of unmasked labels.

        Args:
            values: `(...)`; where the mask is False or the weight 0, they (NaN too) have no effect.
            mask: `(...)`, True at labels that count.
            sample_weight: weights of the examples, `(B,)`, or of the labels, `(...)`; None for 1.
        """
        weights = ops.cast(mask, self.dtype)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, self.dtype)
            while len(sample_weight.shape) < len(weights.shape):
                sample_weight = sample_weight[..., None]
            weights = weights * sample_weight
        values = ops.where(weights != 0, ops.cast(values, self.dtype), 0)
        # Keras would average over the labels of an example first: flat values prevent this.
        keras.metrics.Mean.update_state(self, ops.reshape(values, -1), ops.reshape(weights, -1))


class SparseCategoricalMetric(MaskedMean):
    """Base class of metrics of integer labels and a score for each class.

    Args:
        ignore_class: the label that is ignored; None if all labels count.
    """

    def __init__(self, ignore_class: int | None, name: str, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.ignore_class = ignore_class

    def compute_values(self, labels: Tensor, scores: Tensor) -> Tensor:
        """Return the values `(...)` of labels `(...)` and scores `(..., K)`."""
        raise TypeError(f"{type(self).__name__} does not define `compute_values`")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add the labels of a batch."""
        labels, scores = ops.cast(y_true, "int32"), ops.convert_to_tensor(y_pred)
        if len(labels.shape) == len(scores.shape) and labels.shape[-1] == 1:
            labels = ops.squeeze(labels, axis=-1)
        axes = tuple(f"axis {number}" for number in range(len(scores.shape) - 1))
        check_shape("y_true", labels.shape, sizes_or(axes, scores.shape[:-1]))
        mask = ops.ones_like(labels, "bool")
        if self.ignore_class is not None:
            mask = ops.not_equal(labels, self.ignore_class)
        keras_mask = implicit_mask(y_pred)
        if keras_mask is not None:
            mask = ops.logical_and(mask, keras_mask)
        labels, scores = ops.where(mask, labels, 0), ops.where(mask[..., None], scores, 0)
        self.update_masked(self.compute_values(labels, scores), mask, sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "ignore_class": self.ignore_class}

"""Cross-entropy of the next token, over all unmasked tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops import (
    Projection,
    check_label_smoothing,
    check_shape,
    projected_cross_entropy,
    sizes_or,
    smoothed_cross_entropy,
)
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class SequenceCrossEntropy(keras.losses.Loss):
    """Mean cross-entropy over all tokens of a batch: one sum over one count, not a mean of means.

    `sum_bt (1 - e) -log p(y_bt) + e mean_v -log p(v)` divided by the number of nonzero labels

    Args:
        label_smoothing: e, in [0, 1).
        name: name of the loss.

    Call arguments:
        y_true: labels `(B, T)`, integers; 0 is padding and is ignored.
        y_pred: logits `(B, T, V)`; values at padded labels (NaN too) are ignored.

    Returns:
        A float32 scalar; 0 if every label is padding.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import SequenceCrossEntropy
        >>> labels, logits = np.array([[1, 0]]), np.zeros((1, 2, 4), "float32")
        >>> round(float(SequenceCrossEntropy()(labels, logits)), 4)
        1.3863

    Reference:
        Szegedy et al. 2015, arXiv 1512.00567, section 7 (label smoothing, u uniform).
    """

    def __init__(
        self, label_smoothing: float = 0.0, name: str = "sequence_cross_entropy", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **{**kwargs, "reduction": "sum"})
        self.label_smoothing = check_label_smoothing(label_smoothing)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        check_shape("y_pred", y_pred.shape, ("batch", "steps", "vocabulary"))
        check_shape("y_true", y_true.shape, sizes_or(("batch", "steps"), y_pred.shape[:2]))
        labels = ops.cast(y_true, "int32")
        is_labelled = ops.not_equal(labels, 0)
        logits = ops.where(is_labelled[..., None], ops.cast(y_pred, "float32"), 0.0)
        losses = smoothed_cross_entropy(labels, logits, self.label_smoothing)
        count = ops.maximum(ops.sum(ops.cast(is_labelled, "float32")), 1.0)
        return ops.where(is_labelled, losses, 0.0) / count

    def total(self, y_true: Tensor, projection: Projection) -> Tensor:
        """Return the summed loss over labels `(B, T)`, without materializing the logits.

        Args:
            y_true: labels `(B, T)`; 0 is padding and is ignored.
            projection: the logits, not yet computed; see `ops.projected_cross_entropy`.
        """
        if not isinstance(projection, Projection):
            raise ValueError(
                f"SequenceCrossEntropy needs an ops.Projection, got {type(projection).__name__};"
                " a model that copies trains with losses.CopyCrossEntropy()"
            )
        hidden = projection.hidden
        check_shape("hidden", hidden.shape, ("batch", "steps", "features"))
        check_shape("y_true", y_true.shape, sizes_or(("batch", "steps"), hidden.shape[:2]))
        labels = ops.reshape(ops.cast(y_true, "int32"), (-1,))
        return projected_cross_entropy(
            projection._replace(hidden=ops.reshape(hidden, (-1, hidden.shape[-1]))),
            labels,
            ops.not_equal(labels, 0),
            self.label_smoothing,
        )

    def count(self, y_true: Tensor) -> Tensor:
        """Return the number of labels that are not padding, as a float32 scalar."""
        return ops.sum(ops.cast(ops.not_equal(y_true, 0), "float32"))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}

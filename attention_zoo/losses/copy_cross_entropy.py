"""Cross-entropy of the next token for models with a copy mechanism, over all unmasked tokens."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops import CopyProjection, check_shape, copied_cross_entropy, sizes_or
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class CopyCrossEntropy(keras.losses.Loss):
    """Mean cross-entropy over the tokens of a batch, from the log probabilities of a copying model.

    `sum_bt -log P(y_bt)` divided by the number of nonzero labels

    Args:
        name: name of the loss.

    Call arguments:
        y_true: labels `(B, T)`, integers below V + C (vocabulary and copied words); 0 is padding
            and is ignored.
        y_pred: log probabilities `(B, T, V + C)`, such as those of `layers.CopyHead`; values at
            padded labels (NaN too) are ignored.

    Returns:
        A float32 scalar; 0 if every label is padding.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import CopyCrossEntropy
        >>> labels, log_probs = np.array([[2, 0]]), np.log(np.full((1, 2, 4), 0.25, "float32"))
        >>> round(float(CopyCrossEntropy()(labels, log_probs)), 4)
        1.3863

    Reference:
        See et al. 2017, arXiv 1704.04368, equations 6, 7 and 9: w*_t is y_t. This loss is the mean
        over all tokens of a batch; the paper's is the mean over each text.
    """

    def __init__(self, name: str = "copy_cross_entropy", **kwargs: Any) -> None:
        super().__init__(name=name, **{**kwargs, "reduction": "sum"})

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        check_shape("y_pred", y_pred.shape, ("batch", "steps", "words"))
        check_shape("y_true", y_true.shape, sizes_or(("batch", "steps"), y_pred.shape[:2]))
        labels = ops.cast(y_true, "int32")
        is_labelled = ops.not_equal(labels, 0)
        in_vocabulary = ops.logical_and(labels >= 0, labels < y_pred.shape[-1])
        index = ops.where(in_vocabulary, labels, 0)[..., None]
        losses = -ops.take_along_axis(ops.cast(y_pred, "float32"), index, axis=-1)[..., 0]
        is_nan = ops.logical_or(ops.logical_not(in_vocabulary), ops.any(ops.isnan(y_pred), axis=-1))
        losses = ops.where(is_nan, float("nan"), losses)
        return ops.where(is_labelled, losses, 0.0) / ops.maximum(self.count(labels), 1.0)

    def total(self, y_true: Tensor, projection: CopyProjection) -> Tensor:
        """Return the summed loss over labels `(B, T)`, computing only the labels' probabilities.

        Args:
            y_true: labels `(B, T)`; 0 is padding and is ignored.
            projection: the log probabilities, not yet computed; see `ops.copied_cross_entropy`.
        """
        if not isinstance(projection, CopyProjection):
            raise ValueError(
                f"CopyCrossEntropy needs an ops.CopyProjection, got {type(projection).__name__};"
                " a model that does not copy trains with losses.SequenceCrossEntropy()"
            )
        check_shape("gate", projection.gate.shape, ("batch", "steps"))
        check_shape("y_true", y_true.shape, sizes_or(("batch", "steps"), projection.gate.shape))
        return copied_cross_entropy(projection, y_true)

    def count(self, y_true: Tensor) -> Tensor:
        """Return the number of labels that are not padding, as a float32 scalar."""
        return ops.sum(ops.cast(ops.not_equal(y_true, 0), "float32"))

"""Cross-entropy of the classes of examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo.losses.example_loss import ExampleLoss
from attention_zoo.ops import (
    at_least_float32,
    check_label_smoothing,
    check_shape,
    number,
    sizes_or,
    smoothed_cross_entropy,
)
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class ClassCrossEntropy(ExampleLoss):
    """Mean cross-entropy over the examples of a batch, each weighted by its class.

    `mean_b w_y ((1 - e) -log p(y) + e mean_k -log p(k))`, `p = softmax(x_b)`; with `multi_label`
    `mean_bk -w_k (t log p_k + (1 - t) log(1 - p_k))`, `p = sigmoid(x_b)`,
    `t = (1 - e) y_bk + e / 2`

    Args:
        label_smoothing: e, in [0, 1).
        class_weights: w, finite numbers of at least 0, one for each class; None for 1. The sum is
            divided by the number of examples, not by the sum of their weights: with weights
            inverse to the frequencies of the classes and a mean of 1 over the training examples,
            the loss has the scale of the unweighted one.
        multi_label: whether an example has any number of classes, not exactly one.
        name: name of the loss.

    Call arguments:
        y_true: y, `(B,)` integers, or with `multi_label` `(B, K)`, 0 or 1.
        y_pred: x, logits `(B, K)`.

    Returns:
        A float32 scalar; 0 for an empty batch.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import ClassCrossEntropy
        >>> logits = np.log([[0.25, 0.75]]).astype("float32")
        >>> round(float(ClassCrossEntropy()(np.array([1]), logits)), 4)
        0.2877
        >>> weighted = ClassCrossEntropy(class_weights=[1.0, 2.0])
        >>> round(float(weighted(np.array([1]), logits)), 4)
        0.5754

    Reference:
        Szegedy et al. 2015, arXiv 1512.00567, section 7 (label smoothing, u uniform). With
        `multi_label`, each class is a problem of two classes with a uniform u of its own.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        class_weights: Sequence[float] | None = None,
        multi_label: bool = False,
        name: str = "class_cross_entropy",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.label_smoothing = check_label_smoothing(label_smoothing)
        self.class_weights = None if class_weights is None else _check_weights(class_weights)
        self.multi_label = multi_label

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        num_classes = "classes" if self.class_weights is None else len(self.class_weights)
        check_shape("y_pred", y_pred.shape, ("batch", num_classes))
        logits = at_least_float32(y_pred)
        compute_losses = self._compute_label_losses if self.multi_label else self._compute_losses
        losses = compute_losses(y_true, logits)
        count = ops.cast(ops.maximum(ops.shape(logits)[0], 1), losses.dtype)
        return losses[:, None] / count  # Keras does not sum losses of shape (0,)

    def _compute_losses(self, y_true: Tensor, logits: Tensor) -> Tensor:
        """Return the loss of each example, `(B,)`."""
        check_shape("y_true", y_true.shape, sizes_or(("batch",), logits.shape[:1]))
        labels = ops.cast(y_true, "int32")
        losses = smoothed_cross_entropy(labels, logits, self.label_smoothing)
        if self.class_weights is None:
            return losses
        return losses * ops.take(ops.cast(self.class_weights, losses.dtype), labels)

    def _compute_label_losses(self, y_true: Tensor, logits: Tensor) -> Tensor:
        """Return the loss of each example with any number of classes, `(B,)`."""
        check_shape("y_true", y_true.shape, sizes_or(("batch", "classes"), logits.shape))
        smoothing = self.label_smoothing
        targets = (1 - smoothing) * ops.cast(y_true, logits.dtype) + smoothing / 2
        losses = targets * ops.softplus(-logits) + (1 - targets) * ops.softplus(logits)
        if self.class_weights is not None:
            losses = losses * ops.cast(self.class_weights, losses.dtype)
        return ops.mean(losses, axis=-1)

    def get_config(self) -> dict[str, Any]:
        names = ("label_smoothing", "class_weights", "multi_label")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _check_weights(weights: Sequence[float]) -> list[float]:
    """Return the weights as floats; raise ValueError for one that is negative or not finite."""
    for weight in weights:
        if not 0 <= number(weight) < math.inf:
            raise ValueError(f"class_weights must be finite and at least 0, got {weight!r}")
    return [float(weight) for weight in weights]

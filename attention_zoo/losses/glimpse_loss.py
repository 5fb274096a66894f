"""The hybrid loss of the recurrent attention model."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.ops import (
    check_label_smoothing,
    check_shape,
    number,
    sizes_or,
    smoothed_cross_entropy,
)
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class GlimpseLoss(keras.losses.Loss):
    """Cross-entropy of the class, REINFORCE for the locations, squared error of the baselines.

    `-log p(y) - coefficient sum_t (R - b_t) log p(l_t) + sum_t (R - b_t)^2`, R = 1 if the predicted
    class is y, else 0

    In the second term only log p(l_t) has a gradient, in the third only b_t. Both terms contribute
    gradients but no value: the returned value is the cross-entropy, in training and in inference.

    Args:
        label_smoothing: of the cross-entropy, in [0, 1).
        coefficient: weight of the second term, at least 0.
        reduction: reduction over examples; the mean by default.
        name: name of the loss.

    Call arguments:
        y_true: classes, `(B,)`, integers.
        y_pred: the output of a `models.RecurrentAttentionModel`: in training `{"logits": (B, K),
            "log_probabilities": (B, T), "baselines": (B, T)}`, and otherwise logits `(B, K)`.

    Returns:
        Losses `(B,)` before the reduction, float32.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import GlimpseLoss
        >>> logits = np.log([[0.25, 0.75]]).astype("float32")
        >>> round(float(GlimpseLoss()(np.array([1]), logits)), 4)
        0.2877
        >>> path = {"log_probabilities": -np.ones((1, 3)), "baselines": np.zeros((1, 3))}
        >>> round(float(GlimpseLoss()(np.array([1]), {"logits": logits, **path})), 4)
        0.2877

    Reference:
        Mnih et al. 2014, arXiv 1406.6247, section 3.2, equation 2 and "Using a hybrid supervised
        loss": R_t is R at every step, since only the final prediction is rewarded.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        coefficient: float = 1.0,
        reduction: str = "sum_over_batch_size",
        name: str = "glimpse_loss",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)
        self.label_smoothing = check_label_smoothing(label_smoothing)
        if not 0 <= number(coefficient) < math.inf:
            raise ValueError(f"coefficient must be at least 0 and finite, got {coefficient!r}")
        self.coefficient = coefficient

    def call(self, y_true: Tensor, y_pred: Any) -> Tensor:
        logits = y_pred["logits"] if isinstance(y_pred, dict) else y_pred
        check_shape("logits", logits.shape, ("batch", "classes"))
        check_shape("y_true", y_true.shape, sizes_or(("batch",), logits.shape[:1]))
        labels = ops.cast(y_true, "int32")
        losses = smoothed_cross_entropy(labels, logits, self.label_smoothing)
        if not isinstance(y_pred, dict):
            return losses
        is_correct = ops.cast(ops.argmax(logits, axis=-1), "int32") == labels
        reward = ops.cast(is_correct, losses.dtype)[:, None]
        error = reward - y_pred["baselines"]
        policy_terms = ops.stop_gradient(error) * y_pred["log_probabilities"]
        surrogate = ops.sum(ops.square(error) - self.coefficient * policy_terms, axis=-1)
        return losses + (surrogate - ops.stop_gradient(surrogate))

    def get_config(self) -> dict[str, Any]:
        config = {"label_smoothing": self.label_smoothing, "coefficient": self.coefficient}
        return {**super().get_config(), **config}

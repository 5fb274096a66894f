"""Binary cross-entropy of one logit per example."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.losses.example_loss import ExampleLoss, check_single_outputs
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class BinaryCrossEntropy(ExampleLoss):
    """Mean binary cross-entropy of one logit per example: one sum over one count.

    `sum_b -(y_b log p_b + (1 - y_b) log(1 - p_b)) / B`, `p = sigmoid(x)`

    Args:
        name: name of the loss.

    Call arguments:
        y_true: y, `(B,)`, 0 or 1, or probabilities.
        y_pred: logits x, `(B, 1)`, the output of a model with one output, such as a `Matcher`
            that ranks candidates.

    Returns:
        A float32 scalar; 0 for an empty batch.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import BinaryCrossEntropy
        >>> loss = BinaryCrossEntropy()(np.array([1.0, 0.0]), np.array([[0.0], [0.0]]))
        >>> round(float(loss), 4)
        0.6931

    Reference:
        Bishop 2006, "Pattern recognition and machine learning", section 4.3.2, equation 4.90,
        divided by the number of examples: t_n is y, y_n is p.
    """

    def __init__(self, name: str = "binary_cross_entropy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        check_single_outputs(y_true, y_pred)
        losses = ops.softplus(y_pred) - y_pred * y_true[:, None]
        return losses / ops.maximum(self.count(y_true), 1.0)

"""Mean squared error of one number per example."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.losses.example_loss import ExampleLoss, check_single_outputs
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class MeanSquaredError(ExampleLoss):
    """Mean squared error of one number per example: one sum over one count.

    `sum_b (x_b - y_b)^2 / B`

    Args:
        name: name of the loss.

    Call arguments:
        y_true: y, `(B,)`.
        y_pred: x, `(B, 1)`, the output of a model with one output, such as a `Matcher` without
            classes.

    Returns:
        A float32 scalar; 0 for an empty batch.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import MeanSquaredError
        >>> float(MeanSquaredError()(np.array([1.0, 4.0]), np.array([[2.0], [1.0]])))
        5.0

    Reference:
        Bishop 2006, "Pattern recognition and machine learning", section 1.1, equation 1.2, without
        the factor 1/2 and divided by the number of examples.
    """

    def __init__(self, name: str = "mean_squared_error", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        check_single_outputs(y_true, y_pred)
        return ops.square(y_pred - y_true[:, None]) / ops.maximum(self.count(y_true), 1.0)

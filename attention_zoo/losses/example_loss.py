"""Base class of losses with one term per example."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from attention_zoo.ops import check_shape, sizes_or
from attention_zoo.typing import Tensor


class ExampleLoss(keras.losses.Loss):
    """Base class of losses that are means over the examples of a batch.

    A subclass implements `call`, which returns the losses of the examples divided by their number.

    Args:
        name: name of the loss.
    """

    unit: ClassVar[str] = "examples"
    """Unit of `count` in progress messages."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name=name, **{**kwargs, "reduction": "sum"})

    def count(self, y_true: Tensor) -> Tensor:
        """Return the number of examples of labels `(B, ...)`, as a float32 scalar."""
        return ops.cast(ops.convert_to_tensor(ops.shape(y_true)[0]), "float32")


def check_single_outputs(y_true: Tensor, y_pred: Tensor) -> None:
    """Raise ValueError unless the labels are `(B,)` and the outputs `(B, 1)`."""
    check_shape("y_pred", y_pred.shape, ("batch", 1))
    check_shape("y_true", y_true.shape, sizes_or(("batch",), y_pred.shape[:1]))

"""Models of public checkpoints without random weights, which the checkpoint would replace.

Keras has no public API for the value of a variable that is not initialized.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import keras
from keras import ops

from attention_zoo.models.limited_building import ModelSize, ModelTooLargeError, limit_variables
from attention_zoo.typing import Shape, Tensor

MAX_COPIES = 4
"""Maximum ratio of the elements of a model and of its checkpoint, which lacks tied copies."""


def skip_initialization() -> AbstractContextManager[Any]:
    """Return a context in which models are built without initializing their variables.

    `set_value` and `finish_initialization` initialize them.
    """
    context: AbstractContextManager[Any] = keras.StatelessScope(initialize_variables=False)
    return context


def set_value(variable: Any, value: Any) -> None:
    """Set the value of a variable, initialized or not."""
    if variable._value is not None:
        variable.assign(value)
        return

    def initialize(shape: Shape, dtype: str) -> Tensor:
        return ops.convert_to_tensor(value, dtype)

    variable._initializer = initialize
    variable._deferred_initialize()


@contextmanager
def finish_initialization(folder: Path, size: ModelSize) -> Iterator[None]:
    """On exit, initialize the states of random generators; all weights must have a value.

    Args:
        folder: the folder of the checkpoint.
        size: size of its tensors.

    Raises:
        ValueError: the checkpoint has no value for a weight, or is far smaller than the model.
    """
    try:
        with limit_variables(size, MAX_COPIES) as variables:
            yield
    except ModelTooLargeError:
        raise ValueError(
            f"{folder / 'config.json'}: the model is larger than the weights of the checkpoint;"
            " copy all files from the same checkpoint"
        ) from None
    for variable in variables:
        if variable._value is not None:  # Keras keeps variables with a value in this list
            continue
        if "float" in variable.dtype:
            raise ValueError(
                f"{folder}: the checkpoint has no weights for {variable.path}; remove the"
                " arguments that change the layers of the model"
            )
        variable._deferred_initialize()

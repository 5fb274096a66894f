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
from keras.src.backend.common.global_state import get_global_attribute

from attention_zoo.typing import Shape, Tensor


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
def finish_initialization(folder: Path) -> Iterator[None]:
    """On exit, initialize the states of random generators; all weights must have a value.

    Raises:
        ValueError: the checkpoint in the folder has no value for a weight.
    """
    start = len(_list_uninitialized())
    try:
        yield
        for variable in _list_uninitialized()[start:]:
            if variable._value is not None:  # Keras keeps variables with a value in this list
                continue
            if "float" in variable.dtype:
                raise ValueError(
                    f"{folder}: the checkpoint has no weights for {variable.path}; remove the"
                    " arguments that change the layers of the model"
                )
            variable._deferred_initialize()
    finally:
        del _list_uninitialized()[start:]


def _list_uninitialized() -> list[Any]:
    variables: list[Any] = get_global_attribute("uninitialized_variables", [], set_to_default=True)
    return variables

"""Models of public checkpoints without random weights, which the checkpoint would replace.

Keras has no public API for the value of a variable that is not initialized.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import keras
from keras import ops
from keras.src.backend.common.global_state import get_global_attribute

from attention_zoo.typing import Shape, Tensor


def skip_initialization() -> AbstractContextManager[Any]:
    """Return a context in which models are built without initializing their variables.

    `set_value` and `initialize_missing_weights` initialize them.
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
def initialize_missing_weights() -> Iterator[None]:
    """On exit, initialize the variables without a value, such as those of a new head."""
    start = len(_list_uninitialized())
    try:
        yield
        for variable in _list_uninitialized()[start:]:
            if variable._value is None:  # Keras keeps variables with a value in this list
                variable._deferred_initialize()
    finally:
        del _list_uninitialized()[start:]


def _list_uninitialized() -> list[Any]:
    variables: list[Any] = get_global_attribute("uninitialized_variables", [], set_to_default=True)
    return variables

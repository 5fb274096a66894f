"""Construction of models without random weights, which a checkpoint would replace.

Keras has no public API for the value of a variable that is not initialized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from attention_zoo.typing import Shape, Tensor


def construct(cls: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Return a model whose variables are not initialized."""
    with keras.StatelessScope(initialize_variables=False):
        return cls(*arguments, **settings)


def set_value(variable: Any, value: Any) -> None:
    """Set the value of a variable, initialized or not."""
    if variable._value is not None:
        variable.assign(value)
        return

    def initialize(shape: Shape, dtype: str) -> Tensor:
        return ops.convert_to_tensor(value, dtype)

    variable._initializer = initialize
    variable._deferred_initialize()


def initialize_others(model: keras.Model) -> None:
    """Initialize the variables of a model that have no value, such as those of a new head."""
    for variable in model.variables:
        if variable._value is None:
            variable._deferred_initialize()

"""Construction of models without random weights, which a checkpoint would replace.

Keras has no public API for the value of a variable that is not initialized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras import ops
from keras.src.backend.common.global_state import get_global_attribute

from attention_zoo.typing import Shape, Tensor


def construct(cls: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Return a model whose variables are not initialized; see `initialize_at_end`."""
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


@contextmanager
def initialize_at_end() -> Iterator[None]:
    """At the end of the context, initialize the variables that were created without a value.

    These are, for example, those of a new head. Keras lists the variables that it has to
    initialize, and does not remove those that have got a value.
    """
    try:
        yield
        for variable in _list_uninitialized():
            if variable._value is None:
                variable._deferred_initialize()
    finally:
        _list_uninitialized().clear()


def _list_uninitialized() -> list[Any]:
    variables: list[Any] = get_global_attribute("uninitialized_variables", [], set_to_default=True)
    return variables

"""Building of models that are no larger than a file with their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras

# Keras has no public API for the variables of a scope without initialization.
from keras.src.backend.common.global_state import get_global_attribute, set_global_attribute

UNINITIALIZED = "uninitialized_variables"
"""Name of Keras's list of the variables that have no value yet."""
VARIABLES_PER_TENSOR = 4
"""Maximum number of variables for each tensor of a file: a fused kernel becomes three, and layers
with dropout have random states, which are in no file."""
MIN_VARIABLES = 256
"""Number of variables that is always allowed."""
LAYER_COUNT_NAMES = ("layers", "blocks", "n_layer", "depth")
"""Substrings of argument names that set the number of layers."""
LABEL_FIELDS = ("id2label", "label2id")
"""Fields of public configs whose keys are names of classes, not of arguments."""
MAX_NUMBER = 1 << 62
"""Maximum absolute value of a number in a config."""
STATE_ELEMENTS = 2
"""Number of elements of the state of a random seed."""


class ModelSize(NamedTuple):
    """Size of a model, or of the weights in a file.

    Attributes:
        tensors: number of tensors.
        elements: number of all their elements.
    """

    tensors: int
    elements: int


class ModelTooLargeError(Exception):
    """A model is larger than the weights in its file."""


class _LimitedList(list[Any]):
    """List of uninitialized variables, whose number and total size are limited."""

    def __init__(self, limit: ModelSize) -> None:
        super().__init__()
        self._limit, self._elements = limit, 0

    def append(self, variable: Any) -> None:
        """Add a variable; raise ModelTooLargeError if all are larger than the limit."""
        super().append(variable)
        self._elements += math.prod(variable.shape)
        states = STATE_ELEMENTS * len(self)  # the states of seeds are in no file
        if len(self) > self._limit.tensors or self._elements > self._limit.elements + states:
            raise ModelTooLargeError


@contextmanager
def limit_variables(weights: ModelSize, factor: int = 1) -> Iterator[list[Any]]:
    """Yield a list of the variables that models create without initialization in this context.

    Args:
        weights: size of the weights in the file.
        factor: maximum ratio of the elements of the model and of the file.

    Raises:
        ModelTooLargeError: the variables have more elements than `weights`, or their number is far
            above that of its tensors. The memory of no variable is allocated before.
    """
    tensors = MIN_VARIABLES + VARIABLES_PER_TENSOR * weights.tensors
    limited = _LimitedList(ModelSize(tensors, factor * weights.elements))
    outer = get_global_attribute(UNINITIALIZED)
    set_global_attribute(UNINITIALIZED, limited)
    try:
        yield limited
    finally:
        set_global_attribute(UNINITIALIZED, outer)


def build_limited(build: Callable[[], Any], weights: ModelSize) -> Any:
    """Return the model that a function builds, if it is no larger than its weights.

    Args:
        build: function that builds the model.
        weights: size of the weights in the file.

    Raises:
        ModelTooLargeError: the model is larger. No memory is allocated for its variables.
    """
    with limit_variables(weights) as variables:
        with keras.StatelessScope(initialize_variables=False):
            model = build()
        for variable in variables:
            if variable._value is None:  # Keras keeps variables with a value in this list
                variable._deferred_initialize()
    return model


def build_part(build: Callable[[], Any]) -> Any:
    """Return the model that a function builds; only its own variables count for `limit_variables`.

    For parts of larger models whose size no config determines, such as the first layers of an image
    classifier.

    Args:
        build: function that builds the model, with variables that it may not use.
    """
    limited = get_global_attribute(UNINITIALIZED)
    if not isinstance(limited, _LimitedList):
        return build()
    set_global_attribute(UNINITIALIZED, [])
    try:
        model = build()
        created = get_global_attribute(UNINITIALIZED)
    finally:
        set_global_attribute(UNINITIALIZED, limited)
    used = {id(variable) for variable in model.variables}
    for variable in created:
        if id(variable) in used:
            limited.append(variable)
    return model


def check_numbers(config: Any, weights: ModelSize, limit: int = MAX_NUMBER) -> None:
    """Check the numbers of a config before a model is built from it.

    Args:
        config: a value of a JSON file.
        weights: size of the weights in the file.
        limit: maximum absolute value.

    Raises:
        ValueError: a number above the limit, a number that is not finite, or a number of layers
            above the number of tensors.
    """
    for name, value in _list_numbers("", config):
        is_count = any(word in name for word in LAYER_COUNT_NAMES) and value > weights.tensors
        if not math.isfinite(value):
            raise ValueError(f"{name}={value} is not a finite number")
        if abs(value) > limit or is_count:
            maximum = weights.tensors if is_count else limit
            raise ValueError(f"{name}={value:.6g} is too large for its weights (above {maximum:,})")


def _list_numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a value, with the last key that leads to each."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in LABEL_FIELDS:
                yield from _list_numbers(key, item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_numbers(name, item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, _to_float(value)


def _to_float(value: float) -> float:
    """Return a number as a float; infinity if it is beyond their range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf

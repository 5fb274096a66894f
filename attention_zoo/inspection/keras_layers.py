"""Check Keras layers and override their attributes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras


def check_keras_model(model: object) -> None:
    """Raise ValueError unless a model is a Keras model or layer."""
    if not isinstance(model, keras.layers.Layer):
        raise ValueError(
            f"model must be a Keras model or layer, got {type(model).__name__}; of a task, pass "
            "`task.model`"
        )


@contextlib.contextmanager
def restore_attribute(layer: Any, name: str) -> Iterator[None]:
    """Restore an attribute of a layer's instance after the context; delete it if there was none."""
    attributes = vars(layer)
    is_set, before = name in attributes, attributes.get(name)
    try:
        yield
    finally:
        if is_set:
            attributes[name] = before
        else:
            attributes.pop(name, None)


@contextlib.contextmanager
def override_attribute(layer: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of a layer's instance within the context."""
    with restore_attribute(layer, name):
        vars(layer)[name] = value
        yield

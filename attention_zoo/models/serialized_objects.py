"""Checks of the config of an untrusted saved model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

MODULES = ("keras.constraints", "keras.dtype_policies", "keras.initializers", "keras.regularizers")
"""Modules of Keras whose objects a config may contain, besides registered classes."""


def refuse_unsafe_config(config: Any) -> None:
    """Raise ValueError if a config contains objects or files that a saved model never has.

    Allowed are serialized Keras objects of registered classes and of `MODULES`, none of which
    executes code of the config, reads a file or imports a module. The weights of a saved model are
    in its own file, so that its config does not name any.
    """
    for item in _list_dicts(config):
        if "class_name" in item:
            _check_object(item)
        if isinstance(item.get("weights"), str):
            raise ValueError(f"it names the weights {item['weights']!r}; set them to null")


def _check_object(item: dict[str, Any]) -> None:
    """Raise ValueError unless a serialized object is of an allowed class."""
    registered, module, name = map(item.get, ("registered_name", "module", "class_name"))
    is_registered = isinstance(registered, str) and keras.saving.get_registered_object(registered)
    is_special = not isinstance(name, str) or name == "function" or name.startswith("__")
    if is_special or not (is_registered or module in MODULES):
        raise ValueError(f"it names the class {name!r} of module {module!r}, which is not allowed")


def _list_dicts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the dicts in a value, at all depths."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from _list_dicts(item)

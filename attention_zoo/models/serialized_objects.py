"""Serialized Keras objects in the config of a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

IMPORTED_BY_KERAS = ("keras_hub", "keras_cv", "keras_nlp")
"""Packages whose modules Keras imports if a serialized object names them."""


def refuse_imports(config: Any) -> None:
    """Raise ValueError if a config names a module that Keras would import."""
    for module in _find_modules(config):
        if module.partition(".")[0] in IMPORTED_BY_KERAS:
            raise ValueError(f"it names the module {module}, which is not imported")


def _find_modules(value: Any) -> Iterator[str]:
    """Yield the modules that serialized Keras objects in a config name."""
    if isinstance(value, dict):
        if "class_name" in value and isinstance(value.get("module"), str):
            yield value["module"]
        for item in value.values():
            yield from _find_modules(item)
    elif isinstance(value, list):
        for item in value:
            yield from _find_modules(item)

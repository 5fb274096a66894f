"""Attention mechanisms as Keras layers, with models, training and decoding built on them."""

from __future__ import annotations

import importlib
from typing import Any

from attention_zoo import decoding, layers, losses, models
from attention_zoo.models import list_presets
from attention_zoo.version import __version__

_ON_DEMAND = ("data", "export", "inspection", "metrics", "tasks", "training")


def __getattr__(name: str) -> Any:
    """Import `load` and the optional subpackages on first use."""
    if name == "load":
        return importlib.import_module("attention_zoo.tasks").load
    if name in _ON_DEMAND:
        return importlib.import_module(f"attention_zoo.{name}")
    raise AttributeError(f"module 'attention_zoo' has no attribute {name!r}")


__all__ = ["__version__", "decoding", "layers", "list_presets", "load", "losses", "models"]
__all__ += _ON_DEMAND

"""Attention mechanisms as Keras layers, with models, training and decoding built on them."""

from __future__ import annotations

import importlib
import sys
from pathlib import PurePath
from typing import Any

from attention_zoo.version import __version__


def _is_command_line() -> bool:
    """Return whether the program is `attention-zoo` or `python -m attention_zoo`."""
    program = sys.argv[0] if sys.argv else ""
    if program != "-m":
        return PurePath(program).stem == "attention-zoo"
    # While Python resolves `-m MODULE`, `sys.argv[0]` is "-m", and MODULE precedes the program's
    # arguments in `sys.orig_argv`.
    module = "".join(sys.orig_argv[-len(sys.argv) :][:1]).removeprefix("-m")
    return module.partition(".")[0] == "attention_zoo"


# Importing registers the layers with Keras, as `keras.models.load_model` needs. The command line
# imports them on demand, so that `--help` does not load TensorFlow.
if not _is_command_line():
    from attention_zoo import decoding, layers, losses, models
    from attention_zoo.models import list_presets

_MODULES = (
    *("data", "decoding", "export", "inspection", "layers", "losses", "metrics", "models"),
    *("serving", "tasks", "training"),
)
_FUNCTIONS = {"list_presets": "models", "load": "tasks"}


def __getattr__(name: str) -> Any:
    """Import `load` and the subpackages on first use."""
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(f"attention_zoo.{_FUNCTIONS[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"attention_zoo.{name}")
    raise AttributeError(f"module 'attention_zoo' has no attribute {name!r}")


__all__ = ["__version__", "decoding", "layers", "list_presets", "load", "losses", "models"]
__all__ += ["data", "export", "inspection", "metrics", "serving", "tasks", "training"]

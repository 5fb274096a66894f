"""Check of the Keras backend."""

from __future__ import annotations

import warnings

SUPPORTED = ("tensorflow", "jax")


def check_backend(name: str) -> None:
    """Warn if the Keras backend of this name is not supported."""
    if name not in SUPPORTED:
        warnings.warn(
            f"attention_zoo does not support the Keras backend {name!r}: its results there are not"
            f" tested. Set KERAS_BACKEND to {' or '.join(SUPPORTED)} before Keras is imported.",
            stacklevel=2,
        )

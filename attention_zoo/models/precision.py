"""The dtype policy that models are built with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

DTYPES = ("float32", "float16", "mixed_float16", "mixed_bfloat16")
"""Names of the dtype policies of a model."""


@contextmanager
def use_dtype_policy(policy: Any) -> Iterator[None]:
    """Set Keras's global dtype policy temporarily."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)

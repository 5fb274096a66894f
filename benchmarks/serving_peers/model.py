"""A loaded export that predicts texts, for the services of the peers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

MAX_BATCH_SIZE = 32
MAX_WAIT = 0.005
"""Seconds that a request waits for others."""


class Model:
    """The signature `serving_default` of an export.

    Args:
        folder: folder of a SavedModel.
    """

    def __init__(self, folder: str) -> None:
        self._module = tf.saved_model.load(folder)  # the signature has no reference to it
        self._signature = self._module.signatures["serving_default"]

    def predict(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return all outputs for each text, as values that `json.dumps` takes."""
        outputs = self._signature(text=tf.constant(texts))
        columns = {name: to_json(output.numpy().tolist()) for name, output in outputs.items()}
        return [
            {name: values[row] for name, values in columns.items()} for row in range(len(texts))
        ]


def to_json(value: Any) -> Any:
    """Return a value with bytes as str, and numbers that are not finite as None."""
    if isinstance(value, list):
        return [to_json(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

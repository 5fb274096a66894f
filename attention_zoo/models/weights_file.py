"""Weights of a model as the content of a `.weights.h5` file, optionally in half precision."""

from __future__ import annotations

import io
from typing import Any

import h5py
import keras
import numpy as np

WEIGHTS = "model.weights.h5"


class _WeightsFile(io.BytesIO):
    """In-memory file for Keras to write to, because HDF5 crashes the process on a full disk."""

    def __str__(self) -> str:
        return WEIGHTS  # Keras infers the format from the suffix


def serialize_weights(model: keras.Model, dtype: str | None = None) -> memoryview:
    """Return the bytes of the model's `.weights.h5` file, without the optimizer's state.

    Args:
        model: the model.
        dtype: floating-point type of the weights in the file, "float16" or "float32"; None is the
            type of the variables. Integers, such as quantized kernels, are not converted.

    Raises:
        ValueError: `dtype` is another type, or a finite weight exceeds its range.
    """
    if dtype not in (None, "float16", "float32"):
        raise ValueError(f"weights_dtype must be float16, float32 or None, got {dtype!r}")
    file = _WeightsFile()
    optimizer = getattr(model, "optimizer", None)
    keras.saving.save_weights(model, file, objects_to_skip=[optimizer])
    return file.getbuffer() if dtype is None else _convert(file, dtype).getbuffer()


def _convert(file: io.BytesIO, dtype: str) -> io.BytesIO:
    """Return an HDF5 file with the same content, its floating-point arrays in another type."""
    converted = io.BytesIO()
    with h5py.File(file, "r") as source, h5py.File(converted, "w") as target:

        def copy(name: str, item: Any) -> None:
            if isinstance(item, h5py.Group):
                target.require_group(name).attrs.update(item.attrs)
                return
            target[name] = _cast(name, item[()], dtype)
            target[name].attrs.update(item.attrs)

        target.attrs.update(source.attrs)
        source.visititems(copy)
    return converted


def _cast(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """Return a floating-point array as `dtype`; other arrays unchanged."""
    if array.dtype.kind != "f":
        return array
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    if np.any(np.isinf(cast) & np.isfinite(array)):
        raise ValueError(
            f"weights_dtype={dtype}: {name} has a weight of {np.abs(array).max():.3g}, above the"
            f" maximum {np.finfo(dtype).max:.3g}; save it as float32"
        )
    return cast

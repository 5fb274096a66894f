"""Weights of a model as the content of a `.weights.h5` file, optionally in half precision."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from attention_zoo.files import RETRAIN

WEIGHTS = "model.weights.h5"
RENAMED_LAYERS = {
    "around_attention": "attention_residual",
    "around_feed_forward": "feed_forward_residual",
    "around_memory": "memory_residual",
    "around_sublayer": "sublayer_residual",
    "characters/reader": "characters/encoder",
    "closing_norm": "final_norm",
    "enter": "input_projection",
    "head/energies": "head/scores",
    "sublayer/reader": "sublayer/lstm",
}
"""Present names of layers by their earlier names: regular expressions of the end of a path."""
RENAMED_LAYERS_OF = {
    "RecurrentTagger": {
        "around": "attention_residual",
        "heads": "layers/multi_head_attention",
        r"layers/(recurrent_encoder(_\d+)?)": r"encoders/\1",
    },
    "ShowAttendTell": {
        "layers/dense_1": "context_projection",
        "layers/hard_look": "attention",
    },
}
"""The same for one class of models."""


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


def load_weights(model: keras.Model, path: Path) -> None:
    """Load a `.weights.h5` file, also one with earlier names of layers.

    Raises:
        ValueError: the file does not fit the layers of the model.
    """
    try:
        keras.saving.load_weights(model, path)
    except ValueError as error:
        name = type(model).__name__
        try:
            keras.saving.load_weights(model, _rename_layers(path, name))
        except ValueError:
            raise ValueError(
                f"{path}: does not fit the layers of this {name} (outdated, or saved with other"
                f" arguments); {RETRAIN}"
            ) from error


def count_saved_parameters(path: Path) -> int:
    """Return the number of parameters in a `.weights.h5` file.

    States of random seeds and of an optimizer are not counted.
    """
    sizes: list[int] = []

    def add(name: str, item: Any) -> None:
        is_state = name.startswith("optimizer/") or "seed_generator" in name
        if isinstance(item, h5py.Dataset) and not is_state:
            sizes.append(item.size)

    with h5py.File(path, "r") as file:
        file.visititems(add)
    return sum(sizes)


def _rename_layers(path: Path, model: str) -> _WeightsFile:
    """Return a copy in memory of a file, with the present names of layers.

    Args:
        path: the file.
        model: name of the class of the model.
    """
    renamed = {**RENAMED_LAYERS, **RENAMED_LAYERS_OF.get(model, {})}
    copy, groups = _WeightsFile(path.read_bytes()), list[str]()
    with h5py.File(copy, "r+") as file:
        file.visit(groups.append)
        for group in sorted(groups, reverse=True):  # inner groups first
            for old, new in renamed.items():
                name, count = re.subn(rf"(?<![^/]){old}$", new, group)
                if count:
                    file.move(group, name)
    return copy


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

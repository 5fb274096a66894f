"""Weights of a model as the content of a `.weights.h5` file, optionally in half precision."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np

from attention_zoo.data.reading import get_first_line
from attention_zoo.files import MANIFEST, RETRAIN, find_damage
from attention_zoo.json_files import MAX_DEPTH
from attention_zoo.models.limited_building import (
    ModelSize,
    ModelTooLargeError,
    build_limited,
    check_numbers,
)

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


def verify_model_folder(folder: Path) -> None:
    """Raise ValueError unless all files of a saved model match the manifest."""
    damaged = find_damage(folder)
    if damaged is not None and damaged.name == MANIFEST:
        raise ValueError(f"{folder}: not a model folder ({damaged})")
    if damaged is not None:
        path = folder / damaged.name
        raise ValueError(f"{path}: missing or damaged (sha256 differs from {MANIFEST})")


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
    """Load a `.weights.h5` file that `read_weights_size` has checked.

    Layers may have earlier names.

    Raises:
        ValueError: the file does not fit the layers of the model, or a weight is not finite.
    """
    try:
        keras.saving.load_weights(model, path)
    except ValueError as error:
        name = type(model).__name__
        try:
            keras.saving.load_weights(model, _rename_layers(path, name))
        except ValueError:
            raise _make_misfit_error(path, name) from error
    for weight in model.weights:
        if "float" in weight.dtype and not np.isfinite(keras.ops.convert_to_numpy(weight)).all():
            raise ValueError(
                f"{path}: {weight.path} has a weight that is not finite; use another checkpoint"
            )


def build_for_weights(cls: Any, config: dict[str, Any], config_path: Path, weights: Path) -> Any:
    """Build a model whose weights are in a file; allocate no memory if the file is smaller.

    Args:
        cls: the class.
        config: arguments of its constructor.
        config_path: the file with the config, for error messages.
        weights: the file with the weights, which are not loaded.

    Raises:
        ValueError: the file is unsafe (see `read_weights_size`), or smaller than the model.
    """
    size = read_weights_size(weights)
    try:
        check_numbers(config, size)
    except ValueError as error:
        raise ValueError(f"{config_path}: {error}; {RETRAIN}") from None
    try:
        return build_limited(lambda: cls(**config), size)
    except ModelTooLargeError:
        raise _make_misfit_error(weights, cls.__name__) from None


def _make_misfit_error(path: Path, name: str) -> ValueError:
    """Return the error for weights that do not fit the layers of a model of class `name`."""
    return ValueError(
        f"{path}: does not fit the layers of this {name} (outdated, or saved with other"
        f" arguments); {RETRAIN}"
    )


def read_weights_size(path: Path) -> ModelSize:
    """Return the size of the weights in a `.weights.h5` file, without reading them.

    Raises:
        ValueError: the file is damaged; it has links, external or virtual data, compressed data,
            data of another type than numbers, or less data than it declares.
    """
    try:
        with h5py.File(path, "r") as file:
            sizes = [_check_dataset(dataset) for dataset in _list_datasets(file, set(), 0)]
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = get_first_line(error)
        raise ValueError(f"{path}: damaged or unsafe ({reason}); use another checkpoint") from None
    return ModelSize(len(sizes), sum(sizes))


def _list_datasets(group: h5py.Group, known: set[Any], depth: int) -> Iterator[h5py.Dataset]:
    """Yield the datasets of a group and its groups; ValueError for links and repeated objects."""
    if depth > MAX_DEPTH:
        raise ValueError(f"groups are nested deeper than {MAX_DEPTH} levels")
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{name!r} is a link")
        item = group[name]
        if item in known:
            raise ValueError(f"{name!r} is in two groups")
        known.add(item)
        if isinstance(item, h5py.Group):
            yield from _list_datasets(item, known, depth + 1)
        elif isinstance(item, h5py.Dataset):
            yield item
        else:
            raise ValueError(f"{name!r} is neither a group nor a dataset")


def _check_dataset(dataset: h5py.Dataset) -> int:
    """Return the number of elements of a dataset; ValueError unless the file has all of them."""
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{dataset.name}: the data are in other files")
    if dataset.dtype.kind not in "biufV" or dataset.dtype.names is not None:
        raise ValueError(f"{dataset.name}: the data are not numbers")
    stored, declared = dataset.id.get_storage_size(), dataset.size * dataset.dtype.itemsize
    if dataset.chunks is not None or stored != declared:
        raise ValueError(f"{dataset.name}: declares {declared:,} bytes, but has {stored:,}")
    return int(dataset.size)


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

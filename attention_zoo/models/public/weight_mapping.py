"""Assignment of a checkpoint's tensors to a model's weights, with checks of names and shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class WeightMapping(NamedTuple):
    """Mapping of a tensor to weights.

    name: of the tensor.
    shape: expected shape of the tensor.
    weights: to assign, one for each part.
    split: function that splits the tensor into one part for each weight.
    """

    name: str
    shape: tuple[int, ...]
    weights: Sequence[Any]
    split: Callable[[Array], Sequence[Array]] = lambda x: [x]


def map_vector(name: str, weight: Any) -> WeightMapping:
    """Map a bias, or another vector of the checkpoint, to a weight of any shape."""
    return WeightMapping(name, (math.prod(weight.shape),), [weight])


def map_table(name: str, weight: Any) -> WeightMapping:
    """Map a tensor to a weight of the same shape, such as embeddings."""
    return WeightMapping(name, tuple(weight.shape), [weight])


def map_transposed(name: str, weight: Any, inputs: int = 1) -> WeightMapping:
    """Map a kernel stored as outputs by inputs; the weight's first `inputs` axes are inputs."""
    rows, columns = math.prod(weight.shape[:inputs]), math.prod(weight.shape[inputs:])
    return WeightMapping(name, (columns, rows), [weight], lambda x: [x.T])


def map_dense(name: str, layer: Any) -> list[WeightMapping]:
    """Map a dense layer."""
    return [map_transposed(f"{name}.weight", layer.kernel), map_vector(f"{name}.bias", layer.bias)]


def map_norm(name: str, layer: Any) -> list[WeightMapping]:
    """Map a layer normalization."""
    return [map_vector(f"{name}.weight", layer.gamma), map_vector(f"{name}.bias", layer.beta)]


def assign_weights(
    mappings: Iterable[WeightMapping],
    tensors: Mapping[str, Array],
    folder: Path,
    ignored: Sequence[str] = (),
) -> None:
    """Assign all tensors to weights.

    Args:
        mappings: mappings of all weights of the model.
        tensors: by name.
        folder: of the checkpoint, for messages.
        ignored: patterns of names of tensors that the model does not use.

    Raises:
        ValueError: a tensor is missing, has another shape, or is not used.
    """
    unused = {
        name for name in tensors if not any(re.fullmatch(pattern, name) for pattern in ignored)
    }
    for mapping in mappings:
        if mapping.name not in tensors:
            raise ValueError(f"{folder}: tensor {mapping.name} is missing")
        array = tensors[mapping.name]
        if array.shape != mapping.shape:
            raise ValueError(
                f"{folder}: tensor {mapping.name} has shape {array.shape}, but config.json and"
                f" the arguments require {mapping.shape}"
            )
        for weight, part in zip(mapping.weights, mapping.split(array), strict=True):
            weight.assign(part.reshape(tuple(weight.shape)).astype("float32"))
        unused.discard(mapping.name)
    if unused:
        raise ValueError(
            f"{folder}: the model has no weight for tensor {min(unused)}"
            + (f" and {len(unused) - 1} more" if len(unused) > 1 else "")
        )

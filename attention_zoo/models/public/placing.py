"""Assignment of a checkpoint's tensors to a model's weights, with checks of names and shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Place(NamedTuple):
    """Mapping of a tensor to weights.

    name: of the tensor.
    shape: expected shape of the tensor.
    weights: to assign, one for each part.
    parts: function that splits the tensor into one part for each weight.
    """

    name: str
    shape: tuple[int, ...]
    weights: Sequence[Any]
    parts: Callable[[Array], Sequence[Array]] = lambda x: [x]


def vector(name: str, weight: Any) -> Place:
    """Map a bias, or another vector of the checkpoint, to a weight of any shape."""
    return Place(name, (math.prod(weight.shape),), [weight])


def table(name: str, weight: Any) -> Place:
    """Map a tensor to a weight of the same shape, such as embeddings."""
    return Place(name, tuple(weight.shape), [weight])


def turned(name: str, weight: Any, inputs: int = 1) -> Place:
    """Map a kernel stored as outputs by inputs; the weight's first `inputs` axes are inputs."""
    rows, columns = math.prod(weight.shape[:inputs]), math.prod(weight.shape[inputs:])
    return Place(name, (columns, rows), [weight], lambda x: [x.T])


def dense(name: str, layer: Any) -> list[Place]:
    """Map a dense layer."""
    return [turned(f"{name}.weight", layer.kernel), vector(f"{name}.bias", layer.bias)]


def norm(name: str, layer: Any) -> list[Place]:
    """Map a layer normalization."""
    return [vector(f"{name}.weight", layer.gamma), vector(f"{name}.bias", layer.beta)]


def fill(
    places: Iterable[Place], tensors: Mapping[str, Array], folder: Path, spare: Sequence[str] = ()
) -> None:
    """Assign all tensors to weights.

    Args:
        places: mappings of all weights of the model.
        tensors: by name.
        folder: of the checkpoint, for messages.
        spare: patterns of names of tensors that the model does not use.

    Raises:
        ValueError: a tensor is missing, has another shape, or is not used.
    """
    left = {name for name in tensors if not any(re.fullmatch(one, name) for one in spare)}
    for place in places:
        if place.name not in tensors:
            raise ValueError(f"{folder}: tensor {place.name} is missing")
        array = tensors[place.name]
        if array.shape != place.shape:
            raise ValueError(
                f"{folder}: tensor {place.name} has shape {array.shape}, but config.json and"
                f" the arguments require {place.shape}"
            )
        for weight, part in zip(place.weights, place.parts(array), strict=True):
            weight.assign(part.reshape(tuple(weight.shape)).astype("float32"))
        left.discard(place.name)
    if left:
        raise ValueError(
            f"{folder}: the model has no weight for tensor {min(left)}"
            + (f" and {len(left) - 1} more" if len(left) > 1 else "")
        )

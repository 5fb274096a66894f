"""Tensors of a public checkpoint to the weights of a model: all of them, each of its shape."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Place(NamedTuple):
    """Where a tensor goes.

    name: of the tensor.
    shape: it has.
    weights: it fills, each with its part.
    parts: the tensor in as many parts as there are weights.
    """

    name: str
    shape: tuple[int, ...]
    weights: Sequence[Any]
    parts: Callable[[Array], Sequence[Array]] = lambda x: [x]


def vector(name: str, weight: Any) -> Place:
    """A bias, or what else is one vector there, whatever axes it has here."""
    return Place(name, (math.prod(weight.shape),), [weight])


def table(name: str, weight: Any) -> Place:
    """Embeddings."""
    return Place(name, tuple(weight.shape), [weight])


def turned(name: str, weight: Any, inputs: int = 1) -> Place:
    """A kernel that is stored outputs by inputs; the first `inputs` axes here are its inputs."""
    rows, columns = math.prod(weight.shape[:inputs]), math.prod(weight.shape[inputs:])
    return Place(name, (columns, rows), [weight], lambda x: [x.T])


def dense(name: str, layer: Any) -> list[Place]:
    """A dense layer."""
    return [turned(f"{name}.weight", layer.kernel), vector(f"{name}.bias", layer.bias)]


def norm(name: str, layer: Any) -> list[Place]:
    """A layer normalisation."""
    return [vector(f"{name}.weight", layer.gamma), vector(f"{name}.bias", layer.beta)]


def fill(
    places: Iterable[Place], tensors: Mapping[str, Array], folder: Path, spare: Sequence[str] = ()
) -> None:
    """Assigns every tensor to its place.

    Args:
        places: all weights of the model.
        tensors: by name.
        folder: they are from, for messages.
        spare: patterns of names of tensors that the model has no place for, and does without.

    Raises:
        ValueError: a tensor is missing, has another shape, or has no place.
    """
    left = {name for name in tensors if not any(re.fullmatch(one, name) for one in spare)}
    for place in places:
        if place.name not in tensors:
            raise ValueError(f"{folder}: tensor {place.name} is missing")
        array = tensors[place.name]
        if array.shape != place.shape:
            raise ValueError(
                f"{folder}: tensor {place.name} has shape {array.shape}, config.json and the"
                f" arguments make it {place.shape}"
            )
        for weight, part in zip(place.weights, place.parts(array), strict=True):
            weight.assign(part.reshape(tuple(weight.shape)).astype("float32"))
        left.discard(place.name)
    if left:
        raise ValueError(
            f"{folder}: the model has no place for tensor {min(left)}"
            + (f" and {len(left) - 1} more" if len(left) > 1 else "")
        )

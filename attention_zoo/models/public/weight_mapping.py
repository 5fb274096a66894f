"""Assignment of a checkpoint's tensors to a model's weights, with checks of names and shapes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.models.public.initialization import set_value

Array = np.ndarray
SHARED = "shared.weight"


class WeightMapping(NamedTuple):
    """Mapping of a checkpoint tensor to model weights.

    Attributes:
        name: tensor name.
        shape: expected tensor shape.
        weights: variables to assign, one per part.
        parts: function that splits the tensor into one array per weight.
    """

    name: str
    shape: tuple[int, ...]
    weights: Sequence[Any]
    parts: Callable[[Array], Sequence[Array]] = lambda x: [x]


def map_vector(name: str, weight: Any) -> WeightMapping:
    """Map a bias, or another vector of the checkpoint, to a weight of any shape."""
    return WeightMapping(name, (math.prod(weight.shape),), [weight])


def map_table(name: str, weight: Any) -> WeightMapping:
    """Map a tensor to a weight of the same shape, such as embeddings."""
    return WeightMapping(name, tuple(weight.shape), [weight])


def map_table_without(name: str, weight: Any, count: int) -> WeightMapping:
    """Map a tensor without its first `count` rows."""
    rows, *others = weight.shape
    return WeightMapping(name, (rows + count, *others), [weight], lambda x: [x[count:]])


def map_kernel(name: str, weight: Any, inputs: int = 1) -> WeightMapping:
    """Map a PyTorch linear weight `(outputs, inputs)` to a kernel, which is its transpose.

    The first `inputs` axes of the kernel are input axes.
    """
    rows, columns = math.prod(weight.shape[:inputs]), math.prod(weight.shape[inputs:])
    return WeightMapping(name, (columns, rows), [weight], lambda x: [x.T])


def map_dense(name: str, layer: Any) -> list[WeightMapping]:
    """Map weight and bias of a dense layer."""
    return [map_kernel(f"{name}.weight", layer.kernel), map_vector(f"{name}.bias", layer.bias)]


def map_norm(name: str, layer: Any) -> list[WeightMapping]:
    """Map weight and bias of a normalization layer to gamma and beta."""
    return [map_vector(f"{name}.weight", layer.gamma), map_vector(f"{name}.bias", layer.beta)]


def get_tensor(tensors: Mapping[str, Array], name: str, folder: Path) -> Array:
    """Return a tensor of the checkpoint in a folder; raise ValueError if it is missing."""
    if name not in tensors:
        raise ValueError(f"{folder}: tensor {name} is missing")
    return tensors[name]


def check_shared_embeddings(tensors: Any, folder: Path) -> Any:
    """Return the tensors of an encoder-decoder with the embeddings `shared.weight`.

    Without this tensor, those of the encoder are renamed.

    Raises:
        ValueError: the encoder or the decoder has other embeddings.
    """
    own = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    own = [name for name in own if name in tensors]
    if SHARED not in tensors and own:
        first = own[0]
        tensors = tensors.renamed(lambda name: SHARED if name == first else name)
    for name in own:
        if name in tensors and not np.array_equal(tensors[name], tensors[SHARED]):
            raise ValueError(
                f"{folder}: {name} is not equal to {SHARED}; such checkpoints are not supported"
            )
    return tensors


def assign_weights(
    mappings: Iterable[WeightMapping],
    tensors: Mapping[str, Array],
    folder: Path,
    ignored: Sequence[str] = (),
) -> None:
    """Assign the tensors of a checkpoint to the model's weights.

    Args:
        mappings: mappings of all weights of the model.
        tensors: tensors of the checkpoint by name.
        folder: checkpoint folder, for error messages.
        ignored: regular expressions of tensor names that the model does not use.

    Raises:
        ValueError: a tensor is missing, has another shape, or is not used.
    """
    unused = {
        name for name in tensors if not any(re.fullmatch(pattern, name) for pattern in ignored)
    }
    for mapping in mappings:
        array = get_tensor(tensors, mapping.name, folder)
        if array.shape != mapping.shape:
            raise ValueError(
                f"{folder}: tensor {mapping.name} has shape {array.shape}, but config.json and"
                f" the arguments require {mapping.shape}"
            )
        for weight, part in zip(mapping.weights, mapping.parts(array), strict=True):
            values = part.reshape(tuple(weight.shape)).astype("float32", copy=False)
            set_value(weight, values)
        unused.discard(mapping.name)
    if unused:
        raise ValueError(
            f"{folder}: the model has no weight for {len(unused)} of the tensors, such as"
            f" {min(unused)}; use a checkpoint of this architecture"
        )

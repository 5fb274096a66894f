"""Public checkpoints: a `config.json` that names its `model_type`, and safetensors beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attention_zoo.hub import local_folder
from attention_zoo.models.places import LEARNED
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.registry import Registry

FAMILIES = Registry("model_type")
"""By `model_type`: `build(Checkpoint, cls, overrides)` to a model with its weights."""

ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
"""Names of activations there, and here; their "gelu" and ours is the exact one (erf)."""


class Checkpoint(NamedTuple):
    """A public checkpoint.

    folder: it lies in.
    config: what `config.json` says.
    tensors: by name.
    """

    folder: Path
    config: dict[str, Any]
    tensors: Tensors

    def numbers(self, names: Mapping[str, str]) -> dict[str, Any]:
        """What the config says under these names, by ours; ValueError where it says nothing."""
        for name in names.values():
            if name not in self.config:
                raise ValueError(f"{self.folder / 'config.json'}: says nothing of {name}")
        return {ours: self.config[name] for ours, name in names.items()}

    def activation(self, name: str, usual: str) -> str:
        """Our name of theirs, the usual one unless the config says another; ValueError for one that
        the library has not."""
        asked = self.config.get(name, usual)
        if asked not in ACTIVATIONS:
            raise ValueError(
                f"{self.folder / 'config.json'}: {name}={asked!r} is not known here"
                f" (known: {', '.join(ACTIVATIONS)})"
            )
        return ACTIVATIONS[asked]

    def refuse(self, name: str, *, unless: Any) -> None:
        """ValueError for a setting under which the model would be another one."""
        found = self.config.get(name, unless)
        if found != unless:
            raise ValueError(
                f"{self.folder / 'config.json'}: {name}={found!r} is not supported, only {unless!r}"
            )

    def refuse_positions(self, named: str) -> None:
        """ValueError where the model was asked to tell places otherwise than it was released."""
        if named != LEARNED:
            raise ValueError(
                f"{self.folder}: its positions are learned, not {named!r}; leave positions out"
            )


def from_public(folder: str | Path, cls: type | None = None, **overrides: Any) -> Any:
    """A model with the weights of a public checkpoint; nothing that is stored in it is run.

    Args:
        folder: with `config.json` and `model.safetensors` (or its shards and their index), as
            `transformers` saves them, or `hf://owner/name`.
        cls: of the model; what fits the checkpoint best if None.
        **overrides: constructor arguments in place of those that the config says.

    Raises:
        ValueError: a `model_type` that is not known here, a damaged file, a tensor that is missing,
            has another shape or has no place in the model.
    """
    folder = local_folder(folder)
    config = read_config(folder)
    if config is None:
        raise ValueError(f"{folder}: no public checkpoint (no config.json that says model_type)")
    build: Callable[..., Any] = FAMILIES.get(config["model_type"])
    return build(Checkpoint(folder, config, Tensors(folder)), cls, overrides)


def read_config(folder: Path) -> dict[str, Any] | None:
    """The `config.json` of a public checkpoint; None where there is none."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) and "model_type" in config else None

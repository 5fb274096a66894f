"""Loading of public checkpoints: a `config.json` with a `model_type`, and safetensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attention_zoo.data.reading import get_first_line
from attention_zoo.files import explain_outdated
from attention_zoo.hub import resolve_folder
from attention_zoo.json_files import read_strict_json
from attention_zoo.models.limited_building import ModelSize, check_numbers
from attention_zoo.models.presets import LOADERS
from attention_zoo.models.public.initialization import finish_initialization
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.models.transformer_options import LEARNED
from attention_zoo.registry import Registry

FAMILIES = Registry("model_type")
"""Registry by `model_type`: `build(Checkpoint, cls, overrides)` returns a model with weights."""

ACTIVATIONS: dict[str | None, str] = {
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
"""Names of activations in checkpoints and in this library; both "gelu" are exact (erf)."""

COPY_AGAIN = "copy all files from the same checkpoint"
MIN_NUMBER = 1 << 20
"""Integers of a config up to this number are allowed for any size of the tensors."""


class Checkpoint(NamedTuple):
    """A public checkpoint.

    folder: its location.
    config: contents of `config.json`.
    tensors: by name.
    """

    folder: Path
    config: dict[str, Any]
    tensors: Tensors

    def get_numbers(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return the config's values under this library's names; ValueError for a missing one."""
        for name in names.values():
            if name not in self.config:
                raise ValueError(f"{self.folder / 'config.json'}: {name} is missing")
        return {ours: self.config[name] for ours, name in names.items()}

    def get_token_ids(self, *names: str) -> list[int]:
        """Return token ids of the config; raise ValueError for one that is not an integer."""
        ids = list(self.get_numbers({name: name for name in names}).values())
        for name, token in zip(names, ids, strict=True):
            if type(token) is not int or token < 0:
                raise ValueError(
                    f"{self.folder / 'config.json'}: {name}={token!r} is not supported, only a"
                    " token id"
                )
        return ids

    def get_activation(self, name: str, default: str) -> str:
        """Return this library's name of the config's activation, else that of `default`.

        Raises:
            ValueError: an unsupported activation.
        """
        activation: str = self.get_choice(name, ACTIVATIONS, default)
        return activation

    def get_choice(
        self, name: str, choices: Mapping[str | None, Any], default: str | None = None
    ) -> Any:
        """Return what `choices` has for the config's value, or else for `default`.

        Raises:
            ValueError: another value.
        """
        value = self.config.get(name, default)
        if not isinstance(value, str | None) or value not in choices:
            raise ValueError(
                f"{self.folder / 'config.json'}: {name}={value!r} is not supported"
                f" (known: {', '.join(filter(None, choices))})"
            )
        return choices[value]

    def get_sizes(self, names: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
        """Return sizes under this library's names; the second field must equal the first."""
        sizes = self.get_numbers({name: first for name, (first, _) in names.items()})
        for name, (_, second) in names.items():
            self.check_setting(second, expected=sizes[name])
        return sizes

    def check_setting(self, name: str, *, expected: Any) -> None:
        """Raise ValueError for a setting that the library's model does not support."""
        value = self.config.get(name, expected)
        if value != expected:
            raise ValueError(
                f"{self.folder / 'config.json'}: {name}={value!r} is not supported, "
                f"only {expected!r}"
            )

    def check_positions(self, positions: str, expected: str = LEARNED) -> None:
        """Raise ValueError unless positions are those of the checkpoint."""
        if positions != expected:
            raise ValueError(
                f"{self.folder}: the checkpoint has {expected} positions, not {positions!r}; remove"
                " the positions option"
            )


def from_public(folder: str | Path, cls: type | None = None, **overrides: Any) -> Any:
    """Load a model from a public checkpoint; no code stored in it is executed.

    Args:
        folder: with `config.json` and `model.safetensors` (or its shards and their index), as
            `transformers` saves them, or `hf://owner/name`.
        cls: class of the model; None for the one that fits the checkpoint best.
        **overrides: constructor arguments that override those of the config.

    Raises:
        ValueError: an unknown `model_type`, a damaged file, a tensor that is missing, has another
            shape or is not used by the model.
    """
    folder = resolve_folder(folder)
    config = read_config(folder)
    if config is None:
        raise ValueError(f"{folder}: not a public checkpoint (no config.json with a model_type)")
    build: Callable[..., Any] = FAMILIES.get(config["model_type"])
    tensors, path = Tensors(folder), folder / "config.json"
    size = ModelSize(len(tensors), tensors.count_elements())
    with explain_outdated(path, COPY_AGAIN):
        check_numbers(config, size, max(size.elements, MIN_NUMBER))
    with finish_initialization(folder, size):
        try:
            return build(Checkpoint(folder, config, tensors), cls, overrides)
        except (AttributeError, TypeError, KeyError, IndexError) as error:
            reason = get_first_line(error)
            if not overrides:
                raise ValueError(f"{path}: damaged ({reason}); {COPY_AGAIN}") from error
            # such as `gamma` of a normalization that has none
            raise ValueError(
                f"{folder}: the tensors do not fit the layers of the model ({reason}); remove the"
                f" arguments that change the layers, one of {', '.join(overrides)}"
            ) from error


def _load_if_public(folder: Path, cls: type | None, overrides: Mapping[str, Any]) -> Any:
    """Load a model from a folder; None if it is not a public checkpoint."""
    return None if read_config(folder) is None else from_public(folder, cls, **overrides)


LOADERS.append(_load_if_public)


def read_config(folder: Path) -> dict[str, Any] | None:
    """Return the `config.json` of a public checkpoint; None if there is none."""
    path = folder / "config.json"
    try:
        config = read_strict_json(path)
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) and "model_type" in config else None

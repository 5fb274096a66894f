"""Models by name: presets contain constructor arguments, folders config and weights."""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import keras
import numpy as np

from attention_zoo.files import MANIFEST, HashedFile, check_format_version, find_damage, seal
from attention_zoo.hub import resolve_folder
from attention_zoo.registry import Registry, did_you_mean

Config = dict[str, Any]
M = TypeVar("M", bound=type)

MODELS = Registry("model")
PRESETS = Registry("preset")
LOADERS: list[Callable[[Path, type | None, Config], Any]] = []
"""Loaders of folders in other formats; each returns a model, or None for an unknown format."""
FORMAT_VERSION = 1


def model(cls: M) -> M:
    """Register a model class under its own name, which saved configs contain."""
    MODELS.register(cls.__name__)(cls)
    return cls


def preset(cls: type, name: str) -> Callable[[Callable[[], Config]], Callable[[], Config]]:
    """Register a function that returns constructor arguments of `cls` as a preset."""

    def register(make_config: Callable[[], Config]) -> Callable[[], Config]:
        PRESETS.register(name)(lambda: (cls, make_config()))
        return make_config

    return register


def list_presets() -> list[str]:
    """Return the sorted names of all presets."""
    return PRESETS.names()


def preset_class(name: str) -> type:
    """Return the model class of a preset; raise ValueError for an unknown name."""
    return PRESETS.get(name)()[0]


def preset_config(name: str) -> Config:
    """Return the constructor arguments of a preset; raise ValueError for an unknown name."""
    config: Config = PRESETS.get(name)()[1]
    return config


def from_preset(name_or_folder: str | Path, **overrides: Any) -> Any:
    """Build a model from a preset name (new weights) or load it from a folder.

    Args:
        name_or_folder: a name of `list_presets()`, a folder of `save_to_preset`, one of a public
            checkpoint (`models.from_public`), or the address `hf://owner/name` of either.
        **overrides: constructor arguments that override the preset's. A dict of options replaces
            only those that it contains, unless it has another "kind".

    Raises:
        ValueError: an unknown name, an unknown argument, a folder without a model, a file that
            differs from what was saved (sha256).
    """
    return _load(None, name_or_folder, overrides)


def _load(expected_class: type | None, name_or_folder: str | Path, overrides: Config) -> Any:
    """Implement `from_preset`; a public checkpoint is loaded as the class `expected_class`."""
    if str(name_or_folder) in PRESETS:
        cls, config = PRESETS.get(str(name_or_folder))()
        return cls(**merge(cls, config, overrides))
    folder = resolve_folder(name_or_folder)
    if not folder.is_dir():
        if len(folder.parts) > 1:
            raise ValueError(f"{folder}: no such folder")
        PRESETS.get(str(name_or_folder))
    if not (folder / MANIFEST).exists():
        for load in LOADERS:
            if (loaded := load(folder, expected_class, overrides)) is not None:
                return loaded
    _verify(folder)
    saved = json.loads((folder / "config.json").read_text("utf-8"))
    check_format_version(folder / "config.json", saved, FORMAT_VERSION)
    cls = MODELS.get(saved["class"])
    loaded = cls(**merge(cls, saved["config"], overrides))
    loaded.load_weights(folder / "model.weights.h5")
    return loaded


def load_preset_as(cls: type, name_or_folder: str | Path, **overrides: Any) -> Any:
    """Run `from_preset`; raise ValueError if the result is not a `cls`."""
    loaded = _load(cls, name_or_folder, overrides)
    if not isinstance(loaded, cls):
        raise ValueError(
            f"{name_or_folder} is a {type(loaded).__name__}, not a {cls.__name__}; "
            "load it with attention_zoo.models.from_preset"
        )
    return loaded


def save_to_preset(instance: Any, folder: str | Path) -> None:
    """Save config.json, model.weights.h5 and manifest.json (sha256 of both) to a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format_version": FORMAT_VERSION,
        "class": type(instance).__name__,
        "config": instance.settings,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    weights = _WeightsFile()
    optimizer = getattr(instance, "optimizer", None)
    # The optimizer's state is not part of a preset.
    keras.saving.save_weights(instance, weights, objects_to_skip=[optimizer])
    with HashedFile(folder / "model.weights.h5") as file:
        file.write(weights.getbuffer())
    seal(folder, ("config.json", "model.weights.h5"), {"model.weights.h5": file.entry})


class PresetMixin:
    """Mixin for models whose `settings` are their constructor arguments."""

    settings: Config
    free_settings: ClassVar[tuple[str, ...]] = ("dropout", "word_dropout")
    """Arguments that may differ from those of a trained model whose weights are used.

    They affect no weights but those of the layer that they configure.
    """
    backbone_name: ClassVar[str | None] = None
    """Attribute and setting of a pretrained model inside this one; None if there is none."""
    backbone_fixed: ClassVar[tuple[str, ...]] = ()
    """Settings of the backbone that this model determines."""

    def get_backbone(self) -> Any:
        """Return the pretrained model inside this one, or this model."""
        return self if self.backbone_name is None else vars(self)[self.backbone_name]

    def get_config(self) -> Config:
        """Return the constructor's arguments."""
        return {**super().get_config(), **self.settings}  # type: ignore[misc]

    @classmethod
    def from_preset(cls, name_or_folder: str | Path, **overrides: Any) -> Any:
        """Build or load a model of this class; see `models.from_preset`."""
        return load_preset_as(cls, name_or_folder, **overrides)

    def save_to_preset(self, folder: str | Path) -> None:
        """Save config, weights and their sha256 to a folder that `from_preset` can load."""
        save_to_preset(self, folder)


class _WeightsFile(io.BytesIO):
    """In-memory weights file: writing HDF5 to a full disk crashes the process."""

    def __str__(self) -> str:
        return "model.weights.h5"  # Keras infers the format from the suffix


def check_options_dict(name: str, given: Config | None) -> Config:
    """Return the options in argument `name` as a dict, {} for None; ValueError if not a dict."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"{name} must be a dict of options, as {{name: value}}, got {given!r}")
    return dict(given or {})


def to_json_types(value: Any) -> Any:
    """Convert settings to JSON types: NumPy numbers to Python's, tuples to lists."""
    if isinstance(value, Mapping):
        return {name: to_json_types(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_types(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def check_arguments(cls: Callable[..., Any], given: Config) -> None:
    """Raise ValueError for an argument that the constructor of `cls` does not have."""
    known = [name for name in inspect.signature(cls).parameters if name != "kwargs"]
    for name in given:
        if name not in known and name not in ("name", "dtype", "sampling"):
            raise ValueError(
                f"{cls.__name__} has no argument {name!r}{did_you_mean(name, known)}"
                f" (known: {', '.join(known)})"
            )


def merge(cls: Callable[..., Any], config: Config, overrides: Config) -> Config:
    """Merge overrides into the constructor's arguments; dicts of options key by key.

    A dict with another "kind" replaces the whole dict: its options belong to the old kind.

    Raises:
        ValueError: an override that the constructor of `cls` does not have.
    """
    check_arguments(cls, overrides)
    nested = {
        key: {**config[key], **value}
        for key, value in overrides.items()
        if isinstance(value, dict)
        and isinstance(config.get(key), dict)
        and value.get("kind", config[key].get("kind")) == config[key].get("kind")
    }
    return {**config, **overrides, **nested}


def _verify(folder: Path) -> None:
    """Raise ValueError unless all files match the manifest."""
    damaged = find_damage(folder)
    if damaged is None:
        return
    if damaged.name == MANIFEST:
        raise ValueError(f"{folder}: not a model folder ({damaged})")
    raise ValueError(
        f"{folder / damaged.name}: missing or damaged (sha256 differs from {MANIFEST})"
    )

"""Models by name: presets are plain numbers, folders hold config and weights."""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np

from attention_zoo.files import MANIFEST, HashedFile, check_format_version, damage, seal
from attention_zoo.hub import local_folder
from attention_zoo.registry import Registry, did_you_mean

Config = dict[str, Any]
M = TypeVar("M", bound=type)

MODELS = Registry("model")
PRESETS = Registry("preset")
FORMAT_VERSION = 1


def model(cls: M) -> M:
    """Files a model class under its own name, which is what a saved config says."""
    MODELS.register(cls.__name__)(cls)
    return cls


def preset(cls: type, name: str) -> Callable[[Callable[[], Config]], Callable[[], Config]]:
    """Files a function that returns constructor arguments of `cls` under a preset's name."""

    def file(numbers: Callable[[], Config]) -> Callable[[], Config]:
        PRESETS.register(name)(lambda: (cls, numbers()))
        return numbers

    return file


def list_presets() -> list[str]:
    """The names of all presets, sorted."""
    return PRESETS.names()


def preset_class(name: str) -> type:
    """The model class that a preset builds; ValueError for an unknown name."""
    return PRESETS.get(name)()[0]


def preset_config(name: str) -> Config:
    """The constructor's arguments that a preset gives; ValueError for an unknown name."""
    config: Config = PRESETS.get(name)()[1]
    return config


def from_preset(name_or_folder: str | Path, **overrides: Any) -> Any:
    """A model from a preset's name (fresh weights) or from a folder (its weights).

    Args:
        name_or_folder: a name of `list_presets()`, a folder of `save_to_preset`, one of a public
            checkpoint (`models.from_public`), or the address `hf://owner/name` of either.
        **overrides: constructor arguments that replace the preset's; of a dict of options, those
            that are given, unless they are of another "kind".

    Raises:
        ValueError: an unknown name, an argument that the model has not, a folder that is none,
            a file that is not what was saved (sha256).
    """
    return _load(None, name_or_folder, overrides)


def _load(wanted: type | None, name_or_folder: str | Path, overrides: Config) -> Any:
    """`from_preset`; of a public checkpoint, the model of the class that is wanted."""
    if str(name_or_folder) in PRESETS:
        cls, config = PRESETS.get(str(name_or_folder))()
        return cls(**merge(cls, config, overrides))
    folder = local_folder(name_or_folder)
    if not folder.is_dir():
        if len(folder.parts) > 1:
            raise ValueError(f"{folder}: no such folder")
        PRESETS.get(str(name_or_folder))
    if not (folder / MANIFEST).exists():
        from attention_zoo.models import public  # it builds on the models, and they on this module

        if public.read_config(folder) is not None:
            return public.from_public(folder, wanted, **overrides)
    _verify(folder)
    saved = json.loads((folder / "config.json").read_text("utf-8"))
    check_format_version(folder / "config.json", saved, FORMAT_VERSION)
    cls = MODELS.get(saved["class"])
    loaded = cls(**merge(cls, saved["config"], overrides))
    loaded.load_weights(folder / "model.weights.h5")
    return loaded


def from_preset_of(cls: type, name_or_folder: str | Path, **overrides: Any) -> Any:
    """`from_preset` of one class; ValueError where the name or folder holds another."""
    loaded = _load(cls, name_or_folder, overrides)
    if not isinstance(loaded, cls):
        raise ValueError(
            f"{name_or_folder} is a {type(loaded).__name__}, not a {cls.__name__}; "
            "load it with attention_zoo.models.from_preset"
        )
    return loaded


def save_to_preset(instance: Any, folder: str | Path) -> None:
    """Writes config.json, model.weights.h5 and manifest.json (sha256 of both) into a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format_version": FORMAT_VERSION,
        "class": type(instance).__name__,
        "config": instance.settings,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    weights = _WeightsFile()
    trained_by = getattr(instance, "optimizer", None)
    keras.saving.save_weights(instance, weights, objects_to_skip=[trained_by])  # not its moments
    with HashedFile(folder / "model.weights.h5") as file:
        file.write(weights.getbuffer())
    seal(folder, ("config.json", "model.weights.h5"), {"model.weights.h5": file.entry})


class PresetMixin:
    """What models share whose `settings` are the arguments they were made with."""

    settings: Config

    def get_config(self) -> Config:
        """The arguments that make such a model anew."""
        return {**super().get_config(), **self.settings}  # type: ignore[misc]

    @classmethod
    def from_preset(cls, name_or_folder: str | Path, **overrides: Any) -> Any:
        """A model of this class from a preset's name or a folder; see `models.from_preset`."""
        return from_preset_of(cls, name_or_folder, **overrides)

    def save_to_preset(self, folder: str | Path) -> None:
        """Writes config, weights and their sha256 into a folder that `from_preset` reads."""
        save_to_preset(self, folder)


class _WeightsFile(io.BytesIO):
    """A file of weights in memory: HDF5 that writes to a full disk crashes the process."""

    def __str__(self) -> str:
        return "model.weights.h5"  # the end of the name tells Keras the format


def options_of(name: str, given: Config | None) -> Config:
    """The options that an argument of that name holds, none for None; ValueError for no dict."""
    if not isinstance(given, Mapping | None):
        raise ValueError(f"{name} must be options by name, as {{name: value}}, got {given!r}")
    return dict(given or {})


def plain(value: Any) -> Any:
    """Settings as JSON has them: NumPy's numbers as Python's, tuples as lists."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def check_arguments(cls: Callable[..., Any], given: Config) -> None:
    """ValueError for an argument that the constructor of `cls` has not."""
    known = [name for name in inspect.signature(cls).parameters if name != "kwargs"]
    for name in given:
        if name not in known and name not in ("name", "dtype", "sampling"):
            raise ValueError(
                f"{cls.__name__} has no argument {name!r}{did_you_mean(name, known)}"
                f" (known: {', '.join(known)})"
            )


def merge(cls: Callable[..., Any], config: Config, overrides: Config) -> Config:
    """The constructor's arguments; what is itself a dict of options is merged option by option.

    One that names another "kind" than there is replaces all of them: they are that kind's.

    Raises:
        ValueError: an override that the constructor of `cls` does not take.
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
    """ValueError unless every file of the manifest is there and as it was saved."""
    found = damage(folder)
    if found is None:
        return
    if found.name == MANIFEST:
        raise ValueError(f"{folder}: not a model folder ({found})")
    raise ValueError(f"{folder / found.name}: missing or damaged (sha256 differs from {MANIFEST})")

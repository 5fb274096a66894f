"""Load models by preset name (constructor arguments) or from a folder (config and weights)."""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from attention_zoo import zoo
from attention_zoo.files import (
    MANIFEST,
    RETRAIN,
    HashedFile,
    explain_outdated,
    read_json,
    write_manifest,
)
from attention_zoo.hub import resolve_folder
from attention_zoo.models.serialized_objects import refuse_unsafe_config
from attention_zoo.models.weights_file import (
    WEIGHTS,
    build_for_weights,
    load_weights,
    serialize_weights,
    verify_model_folder,
)
from attention_zoo.ops import whole_number
from attention_zoo.registry import Registry, UnknownNameError, check_known

Config = dict[str, Any]
M = TypeVar("M", bound=type)

MODELS = Registry("model")
PRESETS = Registry("preset")
LOADERS: list[Callable[[Path, type | None, Config], Any]] = []
"""Loaders of folders in other formats; each returns a model, or None for an unknown format."""
FORMAT_VERSION = 1
RENAMED_SETTINGS = {"ShowAttendTell": {"look": "attention"}}
"""Present names of constructor arguments, by class, by the names in earlier configs."""
ZERO_ALLOWED = ("copies", "window", "num_segments")
"""Integer arguments of models for which 0 means none; others are at least 1."""


def register_model(cls: M) -> M:
    """Register a model class under its own name; a decorator for the class.

    Saved models contain the name, so that `from_preset` and `az.load` find the class once its
    module is imported. Defining the class again in the same module (a notebook cell that runs
    again, a reloaded module) replaces it. The constructor of the class then accepts NumPy numbers,
    which Keras's layers reject as sizes.

    Raises:
        ValueError: another class is registered under the name.
    """
    MODELS.register(cls.__name__)(cls)
    init = cls.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def init_with_python_numbers(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *_to_python_numbers(args), **_to_python_numbers(kwargs))

    cls.__init__ = init_with_python_numbers  # type: ignore[misc]
    return cls


def _to_python_numbers(value: Any) -> Any:
    """Convert NumPy numbers, also those in lists, tuples and dicts."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {name: _to_python_numbers(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_to_python_numbers(item) for item in value)
    return value


def add_presets(cls: type, **configs: Config) -> None:
    """Register presets of a model class, which `model.preset` in a recipe can name.

    Presets that are added again, for a class of the same name and module, replace earlier ones.

    Args:
        cls: a class with the decorator `register_model`.
        **configs: constructor arguments by preset name, without those that the data determine,
            such as vocabulary sizes.

    Raises:
        ValueError: the class is not registered, or another class has a preset of that name.
    """
    if MODELS.get_name(cls) is None:
        raise ValueError(
            f"{cls.__name__} is not registered, so its saved models cannot be loaded; decorate it"
            " with @register_model"
        )
    for name, config in configs.items():
        build = functools.partial(_copy_preset, cls.__name__, config)
        PRESETS.register(name)(functools.update_wrapper(build, cls, updated=()))


def _copy_preset(class_name: str, config: Config) -> tuple[Any, Config]:
    """Return the registered class, which may have been replaced, and a copy of the config."""
    return MODELS.get(class_name), copy.deepcopy(config)


def list_presets() -> list[str]:
    """Return the sorted names of all presets."""
    return PRESETS.names()


def preset_class(name: str) -> type:
    """Return the model class of a preset; raise ValueError for an unknown name."""
    return PRESETS.get(name)()[0]


def preset_config(name: str) -> Config:
    """Return the constructor arguments of a preset; raise ValueError for an unknown name."""
    return dict(PRESETS.get(name)()[1])


def is_preset(name_or_folder: str | Path) -> bool:
    """Return whether a string is the name of a preset; a `Path` is a folder."""
    return isinstance(name_or_folder, str) and name_or_folder in PRESETS


def from_preset(name_or_folder: str | Path, **overrides: Any) -> Any:
    """Build a model from a preset name (new weights) or load it from an entry or a folder.

    Args:
        name_or_folder: a name of `list_presets()`, the name of an entry of the zoo (trained
            weights), a folder written by `save_to_preset`, a folder of a public checkpoint (see
            `models.from_public`), or `hf://owner/name`, a Hub repository with either content.
        **overrides: constructor arguments that override the preset's. A dict of options is merged
            into the preset's dict; a dict with another "kind" replaces it.

    Raises:
        ValueError: an unknown name, an unknown argument, a folder without a model, a file whose
            sha256 differs from the manifest, an outdated file.
    """
    return _load(None, name_or_folder, overrides)


def _load(expected_class: type | None, name_or_folder: str | Path, overrides: Config) -> Any:
    """Implement `from_preset`; a public checkpoint is loaded as the class `expected_class`."""
    if is_preset(name_or_folder):
        cls, config = PRESETS.get(str(name_or_folder))()
        return cls(**merge(cls, config, overrides))
    folder = _find_folder(name_or_folder)
    if not (folder / MANIFEST).exists():
        for load in LOADERS:
            if (loaded := load(folder, expected_class, overrides)) is not None:
                return loaded
    verify_model_folder(folder)
    path = folder / "config.json"
    cls, config = _read_config(path)
    weights = folder / WEIGHTS
    # Errors of overrides are errors of the caller.
    with nullcontext() if overrides else explain_outdated(path):
        arguments = merge(cls, config, overrides)
        loaded = build_for_weights(cls, arguments, path, weights)
    load_weights(loaded, weights)
    return loaded


def _read_config(path: Path) -> tuple[Any, Config]:
    """Return the model class in a `config.json`, and the arguments of its constructor."""
    saved = read_json(path, FORMAT_VERSION, RETRAIN)
    with explain_outdated(path):
        name, config = saved["class"], dict(saved["config"])
    cls, renamed = _get_saved_class(name), RENAMED_SETTINGS.get(name, {})
    config = {renamed.get(argument, argument): value for argument, value in config.items()}
    with explain_outdated(path):
        check_arguments(cls, config)
        refuse_unsafe_config(config)
    return cls, config


def _find_folder(name_or_folder: str | Path) -> Path:
    """Return the folder of a saved model; raise ValueError for an unknown name or no folder."""
    is_name = zoo.is_name(name_or_folder)
    if is_name and not zoo.find_listing(str(name_or_folder), "entry"):
        if not Path(name_or_folder).is_dir():
            PRESETS.get(str(name_or_folder))  # raises, with suggestions
        return Path(name_or_folder)
    folder = resolve_folder(name_or_folder)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    return folder / "model" if is_name else folder


def _get_saved_class(name: str) -> Any:
    """Return the registered class of a saved model; no file names code to import."""
    try:
        return MODELS.get(name)
    except UnknownNameError as error:
        advice = (
            "; import the module that registers it first (on the command line, --import MODULE)"
        )
        raise UnknownNameError(error.summary, advice) from None


def load_preset_as(cls: type, name_or_folder: str | Path, **overrides: Any) -> Any:
    """Run `from_preset`; raise ValueError if the result is not a `cls`."""
    loaded = _load(cls, name_or_folder, overrides)
    if not isinstance(loaded, cls):
        raise ValueError(
            f"{name_or_folder} is a {type(loaded).__name__}, not a {cls.__name__}; "
            "load it with attention_zoo.models.from_preset"
        )
    return loaded


def save_to_preset(instance: Any, folder: str | Path, weights_dtype: str | None = None) -> None:
    """Save config.json, model.weights.h5 and manifest.json (sha256 of both) to a folder.

    Args:
        instance: a model with `settings`.
        folder: the folder to write; it is created if it does not exist.
        weights_dtype: floating-point type of the weights in the file: "float16", which halves its
            size, or "float32". None is the type of the variables. Loading converts the weights to
            the type of the variables.

    Raises:
        ValueError: another `weights_dtype`, or a weight exceeds its range.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name, config = type(instance).__name__, instance.settings
    config = {"format_version": FORMAT_VERSION, "class": name, "config": config}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    weights = serialize_weights(instance, weights_dtype)
    with HashedFile(folder / WEIGHTS) as file:
        file.write(weights)
    write_manifest(folder, ("config.json", WEIGHTS), {WEIGHTS: file.entry})


class PresetMixin:
    """Mixin for models whose `settings` are their constructor arguments."""

    settings: Config
    """The constructor's arguments as JSON types, see `collect_arguments`."""
    free_settings: ClassVar[tuple[str, ...]] = ("dropout", "word_dropout")
    """Constructor arguments that fine-tuning may change.

    If the attribute of that name is a layer, its weights are initialized anew; all other weights
    are loaded.
    """
    backbone_name: ClassVar[str | None] = None
    """Name of the attribute, and of the constructor argument, that holds the backbone (such as a
    pretrained BERT); None for a model without one."""
    backbone_fixed: ClassVar[tuple[str, ...]] = ()
    """Settings of the backbone that this model fixes."""
    head_options: ClassVar[tuple[str, ...]] = ()
    """Arguments besides those of the backbone that the `model` section of a recipe may set."""

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

    def save_to_preset(self, folder: str | Path, weights_dtype: str | None = None) -> None:
        """Save config, weights and their sha256 to a folder that `from_preset` can load.

        Args:
            folder: the folder to write; it is created if it does not exist.
            weights_dtype: floating-point type of the weights in the file, "float16" or "float32";
                None is the type of the variables.
        """
        save_to_preset(self, folder, weights_dtype)


def collect_arguments(variables: Config) -> Config:
    """Return the arguments of a model's constructor as JSON types, given its `locals()`.

    A constructor passes them to `settings`, from which `get_config` returns them:

        def __init__(self, units: int, rate: float = 0.1, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.settings = collect_arguments(locals())

    The names are those in the constructor's signature, without `self` and `**kwargs`. The class is
    found through `__class__`, which is in `locals()` of every method that calls `super()`.
    Subclasses of that class add their own arguments in `get_config`.

    Raises:
        ValueError: an argument annotated `int` that is not an integer of at least 1, or of at least
            0 for those in `ZERO_ALLOWED`.
    """
    settings: Config = {}
    for name, parameter in inspect.signature(variables["__class__"]).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            value = to_json_types(variables[name])
            if parameter.annotation in (int, "int"):  # a text with postponed annotations
                value = whole_number(name, value, 0 if name in ZERO_ALLOWED else 1)
            settings[name] = value
    return settings


def to_json_types(value: Any) -> Any:
    """Convert settings to JSON types: NumPy numbers to Python's, tuples to lists."""
    if isinstance(value, Mapping):
        return {name: to_json_types(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_types(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def check_arguments(cls: Callable[..., Any], arguments: Config) -> None:
    """Raise ValueError for an argument that the constructor of `cls` does not have."""
    known = [name for name in inspect.signature(cls).parameters if name != "kwargs"]
    # `**kwargs` pass "name" and "dtype" to Keras, and "sampling" to `EncoderDecoder`.
    names = [name for name in arguments if name not in ("name", "dtype", "sampling")]
    check_known(f"{cls.__name__} has no argument", names, known)


def check_options(name: str, value: Any, known: Collection[str] | None = None) -> Config:
    """Return the options in argument `name` as a dict, {} for None.

    Raises:
        ValueError: not a dict, or an option that is not in `known`.
    """
    if not isinstance(value, Mapping | None):
        hint = f" (known: {', '.join(known)})" if known else ""
        raise ValueError(
            f"{name} must be a dict of options, such as {{name: value}}, got {value!r}{hint}"
        )
    options = dict(value or {})
    if known is not None:
        check_known(f"{name} has no option", options, known)
    return options


def check_kind_options(
    name: str,
    value: Config | None,
    kind: str,
    get_constructor: Callable[[str], Callable[..., Any]],
    reserved: Collection[str] = (),
) -> tuple[Config, Config]:
    """Return the options in argument `name` with their "kind", and the defaults of that kind.

    Args:
        name: name of the argument.
        value: value of the argument: a dict of options, or None for none.
        kind: default of the option "kind".
        get_constructor: returns the constructor of a kind; its arguments are the options.
        reserved: arguments of constructors that are not options.

    Raises:
        ValueError: not a dict, an unknown option, or a missing one.
    """
    options = {"kind": kind, **check_options(name, value)}
    parameters = inspect.signature(get_constructor(options["kind"])).parameters
    defaults = {
        option: parameter.default
        for option, parameter in parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and option not in reserved
    }
    owner = f"{name}.kind={options['kind']!r}"
    check_known(f"{owner} has no option", options, ("kind", *defaults))
    for option, default in defaults.items():
        if default is inspect.Parameter.empty and option not in options:
            raise ValueError(f"{owner} needs the option {option!r}")
    return options, defaults


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

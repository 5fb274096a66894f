"""Fine-tuning: initial weights from another task, and frozen parts of a model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import keras

from attention_zoo import models, tasks
from attention_zoo.hub import resolve_folder
from attention_zoo.models.presets import merge
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks.building import (
    TokenizerOptions,
    build_model,
    check_option_types,
    locate_option_errors,
    split_head_options,
)
from attention_zoo.training.recipe import Recipe

ADVICE = "use another init, or remove model from the recipe"


def has_public_backbone(recipe: Recipe) -> bool:
    """Return whether `init` is a public checkpoint around which the task builds a model."""
    return _get_public_type(recipe) in tasks.TASKS.get(recipe.task).public_backbones


def _get_public_type(recipe: Recipe) -> str:
    """Return the `model_type` of `init`; an empty string if it is not a public checkpoint."""
    config = models.public.read_config(resolve_folder(str(recipe.init)))
    return "" if config is None else str(config["model_type"])


def load_initial_task(recipe: Recipe) -> Any:
    """Return the task that the recipe's `init` names, with its weights and tokenizers.

    Raises:
        ValueError: `init` contains no task, or its task, model or tokenizer differs from those of
            the recipe.
    """
    location = f"init={recipe.init}"
    task = tasks.load(str(recipe.init))
    _check_task(location, task.name, recipe)
    if recipe.tokenizer is not None:
        for name, tokenizer in task.tokenizers.items():
            owner = f"{location}: its {name.replace('_', ' ')}"
            _check_tokenizer(owner, tokenizer, recipe.tokenizer)
    settings, head = _merge_settings(location, recipe.model, task.model)
    with locate_option_errors(head):
        model = type(task.model)(**settings)  # rebuilt in this run's precision
    weights, initial_weights = _get_kept_weights(model), _get_kept_weights(task.model)
    if [weight.shape for weight in weights] != [weight.shape for weight in initial_weights]:
        changed = [name for name, value in head.items() if value != task.model.settings[name]]
        options = ", ".join(f"model.{name}" for name in changed)
        raise ValueError(
            f"{location}: {options} changes the weights of the model; remove it from the recipe, or"
            " use another init"
        )
    for weight, initial in zip(weights, initial_weights, strict=True):
        weight.assign(initial)
    task.model = model
    return task


def _check_task(location: str, name: str, recipe: Recipe) -> None:
    if name != recipe.task:
        raise ValueError(
            f"{location}: its task is {name}, the recipe has task={recipe.task};"
            " use another init, or change task"
        )


def _merge_settings(
    location: str, section: dict[str, Any], model: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a model, with those that the recipe changes, and its head options."""
    settings, name = {**model.settings}, model.backbone_name
    head: dict[str, Any] = {}
    if name is not None:
        section, head = split_head_options(section, type(model))
    if section:
        backbone = model.get_backbone()
        section = _add_vocabulary_sizes(section, backbone.settings)
        if "preset" in section:
            requested = _read_settings(location, section, backbone, model.backbone_fixed)
        else:
            check_option_types(section, type(backbone))
            with locate_option_errors(section):
                requested = merge(type(backbone), backbone.settings, section)
        free = _get_free_settings(location, requested, backbone)
        settings |= free if name is None else {name: {**settings[name], **free}}
    return {**settings, **head}, head


def _get_kept_weights(model: keras.Model) -> list[Any]:
    """Return the weights of a model, except those of the layers in its `free_settings`."""
    parts = [vars(model).get(name) for name in model.free_settings]
    layers = [part for part in parts if isinstance(part, keras.layers.Layer)]
    free = {id(weight) for layer in layers for weight in layer.weights}
    return [weight for weight in model.weights if id(weight) not in free]


def _check_tokenizer(what: str, tokenizer: Any, options: TokenizerOptions) -> None:
    """Raise ValueError unless the tokenizer matches the recipe's options."""
    kinds = ("kind", tokenizer.kind, options.kind)
    cases = ("lowercase", tokenizer.lowercase, options.lowercase)
    problems = [
        f"{name} {actual}, but the recipe has tokenizer.{name}={expected}"
        for name, actual, expected in (kinds, cases)
        if actual != expected
    ]
    if tokenizer.vocabulary_size > options.vocabulary_size:
        problems.append(
            f"{tokenizer.vocabulary_size} entries, more than"
            f" tokenizer.vocabulary_size={options.vocabulary_size} in the recipe"
        )
    if problems:
        advice = "remove tokenizer from the recipe to use it unchanged"
        raise ValueError(f"{what} has {problems[0]}; {advice}")


def _add_vocabulary_sizes(section: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the `model` section with `vocabulary_size` added to its nested options."""
    size, section = "vocabulary_size", dict(section)
    for key, value in settings.items():
        if isinstance(value, dict) and size in value and section.get(key, {}) is not None:
            section[key] = {**section.get(key, {}), size: value[size]}
    return section


def _read_settings(
    location: str, section: dict[str, Any], model: Any, fixed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the settings of the model of a section; ValueError for another class than the model's.

    `fixed` names arguments that the model around it determines. The data determine arguments
    without a default.
    """
    parameters = inspect.signature(type(model)).parameters
    required = [n for n, p in parameters.items() if p.default is p.empty and n in model.settings]
    requested = build_model(section, **{name: model.settings[name] for name in (*required, *fixed)})
    if type(requested) is not type(model):
        raise ValueError(
            f"{location}: its model is a {type(model).__name__}, but"
            f" model.preset={section['preset']} is a {type(requested).__name__}; {ADVICE}"
        )
    return dict(requested.settings)


def _get_free_settings(location: str, settings: dict[str, Any], model: Any) -> dict[str, Any]:
    """Return those of the recipe's settings that are in the model's `free_settings`.

    Other settings that differ raise ValueError.
    """
    for name, value in settings.items():
        if name not in model.free_settings and value != model.settings[name]:
            raise ValueError(
                f"{location}: it has model.{name}={model.settings[name]}, but the recipe has"
                f" {value}; {ADVICE}"
            )
    return {name: settings[name] for name in model.free_settings if name in settings}


def freeze(model: keras.Model, names: Sequence[str]) -> None:
    """Freeze parts of a model: exclude their weights from training.

    Args:
        model: a model whose optimizer has not been built.
        names: attributes of the model that hold layers ("encoder"), or of these ("decoder.cell").

    Raises:
        ValueError: a name is unknown, or no trainable weights remain.
    """
    for name in names:
        part: Any = model
        for step in name.split("."):
            known = _find_parts(part)
            if step not in known:
                raise ValueError(
                    f"training.frozen: {name}: no part {step!r}{did_you_mean(step, known)}"
                    f" (known: {', '.join(sorted(known))})"
                )
            part = known[step]
        for layer in part if isinstance(part, list | tuple) else (part,):
            layer.trainable = False
    if not model.trainable_variables:
        raise ValueError(
            f"training.frozen: {', '.join(names)}: no trainable weights remain; remove a part"
        )


def _find_parts(part: Any) -> dict[str, Any]:
    """Return the layers with weights, and lists of such layers, in a layer or list, by name.

    The layers of a functional model, which has no such attributes, go by their own names.
    """
    inside = dict(enumerate(part)) if isinstance(part, list | tuple) else vars(part)
    parts = {
        str(name): value
        for name, value in inside.items()
        if not str(name).startswith("_") and _has_weights(value)
    }
    if parts or not isinstance(part, keras.Model):
        return parts
    return {layer.name: layer for layer in part.layers if _has_weights(layer)}


def _has_weights(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(_has_weights(one) for one in value)
    return isinstance(value, keras.layers.Layer) and bool(value.variables)

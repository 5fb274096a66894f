"""How `attention-zoo predict` reads its inputs: options of the recipe and of the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_zoo.cli.image_inputs import find_image_format, list_images
from attention_zoo.cli.inputs import SUFFIXES, find_format, find_suffix, read_items
from attention_zoo.cli.items import Item, Layout
from attention_zoo.cli.text_kinds import TEXT_KINDS

if TYPE_CHECKING:
    from attention_zoo.tasks.inputs import Input

OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "header": (("csv", "tsv"), "true or false"),
    "delimiter": (("csv",), "a character"),
    "words": (("conll",), "the number of a column"),
    "comment": (("conll",), "the prefix of comment lines"),
    "conllu": (("conll",), "true or false"),
}
"""Formats that an option of `data` applies to, and its values."""
FIELD_FORMATS = ("csv", "tsv", "jsonl", "npz")
"""Formats that `--field` applies to."""
TABLES = ("csv", "tsv", "jsonl")
"""Corpora whose files are tables or JSON lines, the format of the same name."""
_STRING_OPTIONS = (
    *("source", "text", "first", "second"),
    *("delimiter", "comment", "image", "caption"),
)
"""Options of `data` whose text is kept, for example 01."""


def read_data_options(path: Path) -> dict[str, Any]:
    """Return the options of the corpus in the recipe of a run; empty if the file does not exist.

    Raises ValueError if the recipe is damaged.
    """
    from attention_zoo.training.recipe_sources import read_recipe_file

    if not path.is_file():
        return {}
    source = read_recipe_file(path)
    data = source.as_dict().get("data")
    if not isinstance(data, dict):
        return {}
    texts = {name: source.get_text(f"data.{name}") for name in _STRING_OPTIONS}
    return {**data, **{name: text for name, text in texts.items() if isinstance(text, str)}}


def split_input_options(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the options of `OPTIONS` among the overrides, and the other overrides.

    Raises ValueError for an invalid value.
    """
    options: dict[str, Any] = {}
    others = []
    for override in overrides:
        key = override.partition("=")[0]
        name = key.removeprefix("data.")
        if key == name or name not in OPTIONS:
            others.append(override)
            continue
        options[name] = _parse_option(override, name)
    return options, others


def _parse_option(override: str, name: str) -> Any:
    """Return the value of an option of `OPTIONS`."""
    from attention_zoo.training.recipe_sources import parse_overrides, restore_string_options

    (source,) = parse_overrides([override])
    restore_string_options([source], [f"data.{option}" for option in _STRING_OPTIONS])
    value = source.as_dict()["data"][name]
    kinds = {"words": int, "header": bool, "conllu": bool}
    is_unset = value is None and getattr(Layout, name) is None
    if not is_unset and type(value) is not kinds.get(name, str):
        raise ValueError(f"{override}: expected {OPTIONS[name][1]}")
    return value


def read_inputs(
    task: Any,
    files: Sequence[str],
    arguments: argparse.Namespace,
    data: dict[str, Any],
    options: dict[str, Any],
) -> Iterator[Item]:
    """Return the inputs from the files, or from standard input if there are none.

    Args:
        task: the task that predicts.
        files: the files.
        arguments: the arguments of the command.
        data: options of the corpus that the run was trained on.
        options: options of the command line, from `split_input_options`.

    Raises:
        ValueError: an option has no effect on this input, or the task does not accept this kind of
            input.
    """
    if task.inputs[0].kind == "image":
        _check_image_options(task, arguments, options)
        files = files or ["-"]
        return read_images(files, data, arguments.format or "", arguments.field, options)
    if len(files) > 1:
        raise ValueError(
            f"predict reads one file, got {len(files)}; pass one, or pipe several to standard input"
        )
    name = files[0] if files else "-"
    layout = _make_layout(name, task.inputs[0], arguments, data, options)
    if not task.takes_words and (arguments.pretokenized or layout.format == "conll"):
        option, fix = f"{name}: format conll", "pass a file of texts"
        if arguments.pretokenized:
            option, fix = "--pretokenized", "remove the option"
        raise ValueError(f"{option}: task {task.name} takes texts, not words; {fix}")
    if layout.format == "conll":
        if arguments.pretokenized:
            raise ValueError(
                f"--pretokenized: the words of {name} are those of its CoNLL lines; remove the"
                " option"
            )
        n_best = [word for word in arguments.words if word.startswith("search.n_best=")]
        for option in ["--n-best", *n_best] if arguments.n_best else n_best:
            raise ValueError(f"{option}: words of a CoNLL file get one tag each; remove the option")
    return read_items(name, layout)


def _make_layout(
    name: str,
    text_input: Input,
    arguments: argparse.Namespace,
    data: dict[str, Any],
    options: dict[str, Any],
) -> Layout:
    """Return the layout of a file of texts.

    Options of the training data apply if the file has the same format.
    """
    file_format = arguments.format or _find_format(name, data)
    kind = TEXT_KINDS[text_input.kind]
    training_options = data if file_format == data.get("corpus") else {}
    _refuse_unused({name: file_format}, arguments.field, options)
    is_given = arguments.format or arguments.field is not None or options
    layout_options = {
        key: training_options[key] for key in OPTIONS if training_options.get(key) is not None
    } | options
    field = arguments.field
    return Layout(
        file_format,
        kind.parse_fields(field) if field else kind.get_recipe_names(training_options),
        kind=kind,
        noun=text_input.noun,
        pretokenized=arguments.pretokenized,
        is_assumed=not is_given and file_format in TABLES and find_format(name) == "text",
        **layout_options,
    )


def _find_format(name: str, data: dict[str, Any]) -> str:
    """Return the format of a file of texts.

    It is that of the training data for a suffix of the training files or an unknown suffix.
    Sentences of taggers are more often lines of text than CoNLL, so CoNLL needs a suffix that is
    not `.txt`.
    """
    corpus, suffix = data.get("corpus"), find_suffix(name)
    is_like_training = suffix in _list_suffixes(data)
    if suffix == ".json" and corpus != "jsonl" and not is_like_training:
        raise ValueError(
            f"{name}: predict cannot read a .json file; if it has one JSON object per line, add"
            " --format jsonl"
        )
    if corpus in TABLES and (is_like_training or suffix not in SUFFIXES):
        return str(corpus)
    if corpus == "conll" and is_like_training and suffix not in ("", ".txt"):
        return "conll"
    return find_format(name)


def _list_suffixes(data: dict[str, Any]) -> set[str]:
    """Return the file suffixes of the run's splits."""
    values = [data.get(split) for split in ("train", "validation", "test")]
    paths = [path for value in values for path in (value if isinstance(value, list) else [value])]
    return {find_suffix(path) for path in paths if isinstance(path, str)}


def _refuse_unused(formats: Mapping[str, str], field: str | None, options: dict[str, Any]) -> None:
    """Raise ValueError for an option that applies to no file; `formats` has the format of each."""
    name, file_format = next(iter(formats.items()))
    used = set(formats.values())
    for key in options:
        if not used.intersection(OPTIONS[key][0]):
            raise ValueError(
                f"data.{key}: has no effect on {name}, which is read as {file_format}; remove it,"
                f" or name the format ({' or '.join(OPTIONS[key][0])}) with --format"
            )
    if field is not None and not used.intersection(FIELD_FORMATS):
        is_conll = file_format == "conll"
        fix = "set data.words" if is_conll else "remove it, or name the format with --format"
        raise ValueError(
            f"--field {field} has no effect on {name}: format {file_format} has no named fields;"
            f" {fix}"
        )


def _check_image_options(task: Any, arguments: argparse.Namespace, options: dict[str, Any]) -> None:
    """Raise ValueError for options that apply to no format of images."""
    if arguments.pretokenized:
        raise ValueError(
            f"--pretokenized: task {task.name} takes images, not words; remove the option"
        )
    for key in options:
        if key not in ("header", "delimiter"):
            raise ValueError(f"data.{key}: has no effect on lists of images; remove it")


def read_images(
    files: Sequence[str],
    data: dict[str, Any],
    file_format: str = "",
    field: str | None = None,
    options: dict[str, Any] | None = None,
) -> Iterator[Item]:
    """Return the images from files, which are read as in training.

    Args:
        files: the files; see `list_images`.
        data: options of the corpus that the run was trained on.
        file_format, field, options: see `--format`, `--field` and `split_input_options`.

    Raises:
        ValueError: an option has no effect on the files.
    """
    training_options = data if data.get("corpus") in ("captions", "coco") else {}
    options = options or {}
    layout = Layout(
        file_format,
        () if field is None else (field,),
        options.get("header"),
        options.get("delimiter") or training_options.get("delimiter") or ",",
    )
    image, caption = (training_options.get(name) or name for name in ("image", "caption"))
    folder = training_options.get("images")
    formats = {name: find_image_format(name, layout, image) for name in files}
    _refuse_unused(formats, field, options)
    return chain.from_iterable(
        list_images(
            name,
            replace(layout, format=formats[name]),
            [os.path.expanduser(folder)] if folder else [],
            image,
            caption,
        )
        for name in files
    )

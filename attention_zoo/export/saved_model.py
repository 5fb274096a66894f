"""The `export` function and its formats. A failed export leaves no folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from attention_zoo.decoding import Rule
from attention_zoo.export.modules import TaskModule
from attention_zoo.export_description import DESCRIPTION, Description, format_description
from attention_zoo.files import create_folder, write_manifest
from attention_zoo.registry import Registry

FORMATS = Registry("export format")


def export(
    task: Any,
    folder: str | Path,
    format: str = "saved_model",
    *,
    rules: Sequence[Rule] = (),
    examples: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Export a task, with its search and tokenizers, for a process without this library.

    Args:
        task: a task, such as from `attention_zoo.load`. Its `search` options become part of the
            export.
        folder: output folder; must not exist.
        format: "saved_model": a TensorFlow SavedModel that takes raw strings (encoded bytes of
            images) and returns predictions.
        rules: additional decoding rules (`decoding.Rule`), the same for all sources.
        examples: inputs that the demo page offers, such as `[{"text": "..."}]`: for each example,
            the values by input name, strings or `{"b64": ...}`.

    Returns:
        The folder. Its `serving.json` has what a server needs: the name of the task, the examples
        and the signatures whose requests share no batch. Its `manifest.json` has the size and
        SHA-256 of each file, which `attention_zoo.serving.load_export` verifies.

    Raises:
        ValueError: for an unknown format, a folder that exists, a backend or task that cannot be
            exported, or invalid examples. No folder is created in that case.
    """
    write = FORMATS.get(format)
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"export runs on Keras's tensorflow backend, this process has "
            f"{keras.backend.backend()}; set KERAS_BACKEND=tensorflow"
        )
    module = task.export_module(rules)
    joint = module.joint_signatures if isinstance(module, TaskModule) else ()
    description = format_description(
        Description(task.name, tuple(map(dict, examples)), tuple(joint))
    )
    with create_folder(folder) as unfinished:
        write(module, unfinished)
        (unfinished / DESCRIPTION).write_bytes(description)
        write_manifest(unfinished)
    return Path(folder)


@FORMATS.register("saved_model")
def write_saved_model(module: tf.Module, folder: Path) -> None:
    """Save a module with its signatures; those of a plain `tf.Module` are its `serve`."""
    is_task = isinstance(module, TaskModule)
    signatures = module.make_signatures() if is_task else {"serving_default": module.serve}
    tf.saved_model.save(module, str(folder), signatures=signatures)

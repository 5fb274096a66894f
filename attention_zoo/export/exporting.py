"""The `export` function. A failed export leaves no folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from attention_zoo.decoding import Rule
from attention_zoo.export.saved_model import SERVERS, write_saved_model
from attention_zoo.export.served_captioning import ServedCaptioning
from attention_zoo.export.served_glimpses import ServedGlimpses
from attention_zoo.export.served_retrieval import ServedRetrieval
from attention_zoo.export.served_summarization import ServedSummarization
from attention_zoo.export.served_tagging import ServedTagging
from attention_zoo.files import create_folder
from attention_zoo.registry import Registry
from attention_zoo.tasks.task import rules_for_all

SERVERS.register("captioning")(ServedCaptioning)
SERVERS.register("glimpses")(ServedGlimpses)
SERVERS.register("retrieval")(ServedRetrieval)
SERVERS.register("summarization")(ServedSummarization)
SERVERS.register("tagging")(ServedTagging)
FORMATS = Registry("export format")
FORMATS.register("saved_model")(write_saved_model)


def export(
    task: Any, folder: str | Path, format: str = "saved_model", *, rules: Sequence[Rule] = ()
) -> Path:
    """Export a task, with its search and tokenizers, for a process without this library.

    Args:
        task: a task, such as from `attention_zoo.load`. Its `search` options become part of the
            export.
        folder: output folder; must not exist.
        format: "saved_model": a TensorFlow SavedModel that takes raw strings (encoded bytes of
            images) and returns predictions.
        rules: additional decoding rules (`decoding.Rule`), the same for all sources.

    Returns:
        The folder.

    Raises:
        ValueError: for an unknown format, a folder that exists, or a backend or task that cannot be
            exported. No folder is created in that case.
    """
    write = FORMATS.get(format)
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"export runs on Keras's tensorflow backend, this process has "
            f"{keras.backend.backend()}; set KERAS_BACKEND=tensorflow"
        )
    rules = rules_for_all(rules)
    with create_folder(folder) as unfinished:
        write(task, unfinished, rules)
    return Path(folder)

"""`export`: whole or not at all."""

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
from attention_zoo.files import new_folder
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
    """Writes a task, its search and its tokenizers included, for a process without this library.

    Args:
        task: a task, as `attention_zoo.load` gives it. Its `search` options become part of it.
        folder: where to; must not exist.
        format: "saved_model": TensorFlow's, with raw strings (of images their bytes) in and answers
            out.
        rules: more of what answers may be, the same for all sources (`decoding.Rule`).

    Returns:
        The folder.

    Raises:
        ValueError: an unknown format, a folder that exists, a backend or a task that cannot be
            exported; the folder is not there then.
    """
    write = FORMATS.get(format)
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"export runs on Keras's tensorflow backend, this process has "
            f"{keras.backend.backend()}; set KERAS_BACKEND=tensorflow"
        )
    rules = rules_for_all(rules)
    with new_folder(folder) as unfinished:
        write(task, unfinished, rules)
    return Path(folder)

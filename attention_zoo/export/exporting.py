"""`export`: whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from attention_zoo.decoding import Rule
from attention_zoo.export.saved_model import write_saved_model
from attention_zoo.registry import Registry
from attention_zoo.tasks.task import rules_for_all

FORMATS = Registry("export format")
FORMATS.register("saved_model")(write_saved_model)


def export(
    task: Any, folder: str | Path, format: str = "saved_model", *, rules: Sequence[Rule] = ()
) -> Path:
    """Writes a task, its search and its tokenizers included, for a process without this library.

    Args:
        task: a task, as `attention_zoo.load` gives it. Its `search` options become part of it.
        folder: where to; must not exist.
        format: "saved_model": TensorFlow's, with raw strings in and answers out.
        rules: more of what answers may be, the same for all sources (`decoding.Rule`).

    Returns:
        The folder.

    Raises:
        ValueError: an unknown format, a folder that exists, a backend or a task that cannot be
            exported; the folder is not there then.
    """
    write = FORMATS.get(format)
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder}: exists already; name a folder that does not")
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            f"export runs on Keras's tensorflow backend, this process has "
            f"{keras.backend.backend()}; set KERAS_BACKEND=tensorflow"
        )
    rules = rules_for_all(rules)
    there = next(parent for parent in folder.absolute().parents if parent.is_dir())
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=there))
    try:
        write(task, unfinished, rules)
        os.chmod(unfinished, 0o755)  # mkdtemp's folders are the owner's alone
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder

"""`load`: load a task from a run folder, an entry of the zoo, or the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.checkpoints import find_task_folder
from attention_zoo.data import load_tokenizer
from attention_zoo.hub import resolve_folder
from attention_zoo.tasks.base import TASKS, read_task_file


def load(folder: str | Path) -> Any:
    """Load a task that is ready to predict.

    Args:
        folder: a run folder (its best checkpoint is used), an entry of the zoo, a folder written
            by `task.save`, a public checkpoint with its tokenizer (`models.from_public`), or the
            Hub address of one of them, `hf://owner/name`, optionally followed by `/folder`.

    Raises:
        ValueError: if the folder has no task, or its files are damaged.
    """
    path = resolve_folder(folder)
    public = models.public.read_config(path)
    if public is not None:
        return _load_public(path, public["model_type"])
    path = find_task_folder(path)
    task_class = TASKS.get(read_task_file(path)["task"])
    return task_class.load(path)


PUBLIC = {"bert": "masked_language_modeling", "gpt2": "language_modeling"}
"""Task name of a public checkpoint, by its `model_type`."""


def _load_public(folder: Path, model_type: str) -> Any:
    """Load the task of a public checkpoint, with the `max_length` of its model."""
    model = models.from_public(folder)
    task_class = TASKS.get(PUBLIC[model_type])
    max_length = model.get_backbone().settings["max_length"]
    return task_class(model, load_tokenizer(folder), max_length=max_length)

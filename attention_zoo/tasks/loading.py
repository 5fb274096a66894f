"""`load`: a task from a run folder, an entry of the zoo, or the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.checkpoints import NAME, CheckpointFolder
from attention_zoo.data import load_tokenizer
from attention_zoo.files import MANIFEST, damage
from attention_zoo.hub import local_folder
from attention_zoo.tasks.task import TASKS, read_task_file


def load(folder: str | Path) -> Any:
    """A task that is ready to predict.

    Args:
        folder: a run folder (its best checkpoint is used), an entry of the zoo, a folder written
            by `task.save`, a public checkpoint with its tokenizer (`models.from_public`), or the
            address of one of them, `hf://owner/name`, optionally followed by `/folder`.

    Raises:
        ValueError: no task lies there, or its files are damaged.
    """
    path = local_folder(folder)
    public = models.public.read_config(path)
    if public is not None:
        return _of_public(path, public["model_type"])
    path = task_folder(path)
    task_class: Any = TASKS.get(read_task_file(path)["task"])
    return task_class.load(path)


def task_folder(folder: Path) -> Path:
    """The folder with the `task.json` that stands for `folder`; ValueError when there is none.

    Of a run it is the best checkpoint, as the newest has it; damaged ones are passed over with a
    warning.
    """
    if (folder / "task.json").is_file():
        sealed = (folder / MANIFEST).is_file() or NAME.fullmatch(folder.name)
        wrong = damage(folder) if sealed else None  # a checkpoint half removed has no manifest
        if wrong:
            raise ValueError(f"{folder}: {wrong}; use another checkpoint")
        return folder
    best = CheckpointFolder(folder / "checkpoints").best()
    if best is not None:
        return best
    if not folder.exists():
        raise ValueError(f"{folder}: no such folder; train one with `attention-zoo train RECIPE`")
    if (folder / "results.json").is_file() and (folder / "README.md").is_file():
        raise ValueError(f"{folder}: holds a card but no weights; train it with the card's command")
    if (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder}: this run has no checkpoint yet; start its training again")
    raise ValueError(
        f"{folder}: is no run folder (neither task.json nor checkpoints in it);"
        " give the folder that `attention-zoo train` names"
    )


PUBLIC = {"bert": "masked_language_modeling", "gpt2": "language_modeling"}
"""The task of a public checkpoint, by its `model_type`."""


def _of_public(folder: Path, model_type: str) -> Any:
    """The task of a public checkpoint, of texts as long as its model has places."""
    model = models.from_public(folder)
    task_class: Any = TASKS.get(PUBLIC[model_type])
    inside = getattr(model, "bert", model)
    return task_class(model, load_tokenizer(folder), max_length=inside.settings["max_length"])

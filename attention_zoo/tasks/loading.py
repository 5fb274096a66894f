"""`load`: load a task from a run folder, an entry of the zoo, or the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.checkpoints.folder import find_task_folder
from attention_zoo.data import load_tokenizer
from attention_zoo.hub import resolve_folder
from attention_zoo.metrics import read_spans
from attention_zoo.models.precision import DTYPES, use_dtype_policy
from attention_zoo.registry import check_choice
from attention_zoo.tasks.captioning.public import load_public_captioning
from attention_zoo.tasks.registry import TASKS
from attention_zoo.tasks.summarization.public import load_public_summarization
from attention_zoo.tasks.task_file import read_task_file
from attention_zoo.tasks.translation.public import load_public_translation
from attention_zoo.user_modules import name_missing_modules

PUBLIC_TASKS: dict[type, str] = {
    models.GPT: "language_modeling",
    models.MaskedLM: "masked_language_modeling",
    models.TransformerClassifier: "classification",
    models.TransformerTagger: "tagging",
}
"""Task name by the class of the model that a public checkpoint loads as, except for those in
`PUBLIC_LOADERS` and translation."""

PUBLIC_LOADERS = {
    "bart": load_public_summarization,
    "t5": load_public_summarization,
    "vision-encoder-decoder": load_public_captioning,
}
"""Functions that load a checkpoint as a task, by `model_type`."""

MAX_WORDS = 10_000
"""Maximum number of words of a sentence for a public tagger, which reads it in windows."""


def load(folder: str | Path, dtype: str | None = None) -> Any:
    """Load a task that is ready to predict.

    Args:
        folder: the name of an entry of the zoo, such as "rnnsearch_small.dates_en_fr"; a run folder
            (its best checkpoint is used); a folder written by `task.save`; a public checkpoint with
            its tokenizer (`models.from_public`); or the Hub address of one of these,
            `hf://owner/name`, optionally followed by `/folder`. A folder in the current one is
            written `./NAME`: a string without a path separator is an entry if one has that name.
        dtype: dtype policy of the model: "float32", "float16", "mixed_float16" or "mixed_bfloat16"
            (computes in bfloat16, with weights in float32); by default, Keras's global one.

    Raises:
        ValueError: if the name or the dtype is unknown, the folder has no task, its files are
            damaged, or the module that registers its model or task is not imported. Loading imports
            no module that a file names.
    """
    if dtype is None:
        return _load(folder)
    check_choice("dtype", dtype, DTYPES)
    with use_dtype_policy(dtype):
        return _load(folder)


def _load(folder: str | Path) -> Any:
    """Load a task with Keras's global dtype policy."""
    path = resolve_folder(folder)
    public = models.public.read_config(path)
    if public is None:
        with name_missing_modules(path):
            path = find_task_folder(path)
            return TASKS.get(read_task_file(path)["task"]).load(path)
    if public["model_type"] in PUBLIC_LOADERS:
        return PUBLIC_LOADERS[public["model_type"]](path, public)
    model = models.from_public(path)
    if public["model_type"] == "marian":
        return load_public_translation(path, public, model)
    if type(model) not in PUBLIC_TASKS:
        raise ValueError(
            f"{folder}: no task loads a {type(model).__name__} from a public checkpoint"
            f" (architectures: {public.get('architectures')}); load it with models.from_public, or"
            " name an encoder as init of a recipe for classification or tagging"
        )
    max_length = model.get_backbone().settings["max_length"]
    task_class = TASKS.get(PUBLIC_TASKS[type(model)])
    options = {}
    if isinstance(model, models.Tagger):
        options["scheme"] = _find_scheme(model.settings["tags"])
        max_length = MAX_WORDS
    return task_class(model, load_tokenizer(path), max_length=max_length, **options)


def _find_scheme(tags: Sequence[str]) -> str | None:
    """Return the first tag scheme that all tags follow; None if there is none."""
    for name in ("BIO", "BIOES", "BILOU", "BMES"):
        with suppress(ValueError):
            read_spans(tags, name)
            return name
    return None

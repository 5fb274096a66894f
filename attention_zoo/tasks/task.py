"""The `Task` interface, and the file format of saved tasks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import keras

from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.decoding.rules import as_rules
from attention_zoo.files import check_format_version
from attention_zoo.registry import Registry

TASKS = Registry("task")
FORMAT_VERSION = 1  # the format of task.json


class Task(Protocol):
    """The interface of a task for the training loop, the command line, the server and export.

    A task is registered in `TASKS` under its `name`, which `task.json` contains. `limits` are the
    names of its limits on examples, such as `max_length` in tokens; its corpora have options of the
    same names. Three class attributes are optional. `examples` is what its examples are called,
    such as "images", and must equal the attribute of its corpora. `switches` are the names of
    boolean attributes that are also options of its corpora. `reads` is the default tokenizer kind
    in a recipe.
    """

    name: ClassVar[str]
    metric_names: ClassVar[tuple[str, ...]]
    limits: ClassVar[tuple[str, ...]]
    model: keras.Model
    search: SearchOptions

    def within_limits(self, examples: Any) -> Any:
        """Return the examples within the task's length limits."""

    def batches(self, examples: Any, batch_size: int, seed: int) -> Any:
        """Return the examples as training batches (such as `data.PairBatches`).

        Examples support `len` and iteration. Each example consists of strings, numbers or arrays,
        by which the training loop detects a changed corpus. If batches contain an example more
        than once, their `num_examples` is the number of distinct examples.
        """

    def loss(self, label_smoothing: float) -> keras.losses.Loss:
        """Return the training loss."""

    def predict(self, texts: Sequence[str], **search_overrides: Any) -> list[Any]:
        """Return one result for each text, in order."""

    def check_sources(self, texts: Sequence[str], places: Sequence[str] | None = None) -> None:
        """Raise ValueError for a text that `predict` rejects; `places` are the texts' locations."""

    def unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that the vocabulary does not contain."""

    def evaluate(self, examples: Any, **search_overrides: Any) -> dict[str, Any]:
        """Compute metrics on examples: at least `metric_names`, for which higher is better."""

    def save(self, folder: str | Path) -> None:
        """Save the whole task into a folder."""

    @classmethod
    def load(cls, folder: str | Path) -> Task:
        """Load a folder written by `save`."""


def rules_for_all(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules; raise ValueError for a rule that depends on the sources of a batch.

    A task splits its inputs into batches itself, so such a rule would be applied to other sources.
    """
    given = as_rules(rules)
    for rule in given:
        if rule.is_per_source:
            raise ValueError(
                f"rules: {type(rule).__name__} depends on the sources of a batch; use rules that "
                "are the same for all sources, or search with `task.model.search`"
            )
    return given


def read_task_file(folder: str | Path) -> dict[str, Any]:
    """Read `task.json` of a task folder; raise ValueError if it is missing or damaged."""
    path = Path(folder) / "task.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; give a folder that `task.save` wrote") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: damaged ({error}); use another checkpoint") from None
    if not isinstance(content, dict) or not isinstance(content.get("task"), str):
        raise ValueError(f"{path}: names no task; use another checkpoint")
    check_format_version(path, content, FORMAT_VERSION)
    return content


def write_task(task: Any, folder: str | Path, **options: Any) -> None:
    """Save a task's model and, last, a `task.json` with its limits and options."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    task.model.save_to_preset(folder / "model")
    limits = {name: getattr(task, name) for name in task.limits}
    content = {"format_version": FORMAT_VERSION, "task": task.name}
    content |= {**limits, **options, "search": task.search.as_dict()}
    text = json.dumps(content, indent=2) + "\n"
    (folder / "task.json").write_text(text, encoding="utf-8")


@contextlib.contextmanager
def reading_options(folder: Path) -> Iterator[None]:
    """Convert errors in the options of the folder's `task.json` into ValueError with its path."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / 'task.json'}: damaged ({error}); use another checkpoint"
        ) from None

"""What a task is: raw examples in, answers out, and all that the fit loop asks of it."""

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
FORMAT_VERSION = 1  # of task.json


class Task(Protocol):
    """The contract between a task and the fit loop, the command line, the server and export.

    A task is registered in `TASKS` under its `name`, which `task.json` records. `limits` name its
    attributes that limit lengths in tokens; a corpus of its examples has options of these names.
    Where it has `examples`, that corpus calls them so too; `switches` name attributes that are true
    or false and options of that corpus, too; `reads` is the kind of tokenizer that a recipe gets
    which names none.
    """

    name: ClassVar[str]
    metric_names: ClassVar[tuple[str, ...]]
    limits: ClassVar[tuple[str, ...]]
    model: keras.Model
    search: SearchOptions

    def within_limits(self, examples: Any) -> Any:
        """The examples that the task's limits of length let in."""

    def batches(self, examples: Any, batch_size: int, seed: int) -> Any:
        """The examples as training batches (`data.PairBatches` or alike).

        Examples can be counted by `len` and gone through one by one; each is strings, numbers or
        arrays, by which a changed corpus is known. Batches that hold an example more than once say
        by `of_corpus` how many examples they hold.
        """

    def loss(self, label_smoothing: float) -> keras.losses.Loss:
        """The training loss."""

    def predict(self, texts: Sequence[str], **search_overrides: Any) -> list[Any]:
        """One answer for each text, in order."""

    def check_sources(self, texts: Sequence[str], places: Sequence[str] | None = None) -> None:
        """ValueError for a text that `predict` refuses, which stands at one of `places`."""

    def unknown_characters(self, text: str) -> list[str]:
        """The characters of a text that the model cannot read."""

    def evaluate(self, examples: Any, **search_overrides: Any) -> dict[str, Any]:
        """The task's metrics on examples; holds every one of `metric_names`, higher is better."""

    def save(self, folder: str | Path) -> None:
        """Write the whole task into a folder."""

    @classmethod
    def load(cls, folder: str | Path) -> Task:
        """Read what `save` wrote."""


def rules_for_all(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules; ValueError for one of the sources of one batch, since a task batches itself."""
    given = as_rules(rules)
    for rule in given:
        if rule.of_sources:
            raise ValueError(
                f"rules: {type(rule).__name__} says something else for each source; give a task "
                "rules that hold for all, or search with `task.model.search`"
            )
    return given


def read_task_file(folder: str | Path) -> dict[str, Any]:
    """The fields of a task folder's `task.json`; ValueError when it is missing or damaged."""
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
    """Write a task's model into a folder and, last, a `task.json` of its limits and options."""
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
    """ValueError that names the folder's `task.json` where its options are not as saved."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / 'task.json'}: damaged ({error}); use another checkpoint"
        ) from None

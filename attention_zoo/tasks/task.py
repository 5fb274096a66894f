"""What a task is: raw examples in, answers out, and all that the fit loop asks of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import keras

from attention_zoo.decoding.length_penalty import LENGTH_PENALTIES
from attention_zoo.registry import Registry, did_you_mean

TASKS = Registry("task")


@dataclass(frozen=True)
class SearchOptions:
    """How a task searches for its answers.

    Args:
        beam_width: hypotheses kept a step; 1 is greedy search.
        n_best: hypotheses returned, best first; at most `beam_width`.
        length_penalty: "none", "average" (score per token) or "gnmt" (Wu et al. 2016, eq. 14).
        length_penalty_weight: the exponent of "gnmt".
        max_length: most tokens of an answer, its end token counted; None is twice the source's
            length plus ten.
        batch_size: sentences searched at once.
    """

    beam_width: int = 1
    n_best: int = 1
    length_penalty: str = "none"
    length_penalty_weight: float = 1.0
    max_length: int | None = None
    batch_size: int = 64

    def __post_init__(self) -> None:
        for name in ("beam_width", "n_best", "batch_size", "max_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"search.{name} must be at least 1, got {value}")
        if self.n_best > self.beam_width:
            raise ValueError(
                f"search.n_best={self.n_best} asks for more than search.beam_width="
                f"{self.beam_width} keeps; raise search.beam_width"
            )

        LENGTH_PENALTIES.get(self.length_penalty)

    def override(self, **changes: Any) -> SearchOptions:
        """These options with some changed; ValueError for a name that is none."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise ValueError(
                    f"unknown search option {name!r}{did_you_mean(name, known)}"
                    f" (known: {', '.join(known)})"
                )
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """The options by name."""
        return asdict(self)


class Task(Protocol):
    """The contract between a task and the fit loop, the command line, the server and export.

    A task is registered in `TASKS` under its `name`, which `task.json` records.
    """

    name: ClassVar[str]
    metric_names: ClassVar[tuple[str, ...]]
    model: keras.Model
    search: SearchOptions

    def batches(self, examples: Any, batch_size: int, seed: int) -> Any:
        """The examples as training batches (`data.PairBatches` or alike)."""

    def loss(self, label_smoothing: float) -> keras.losses.Loss:
        """The training loss."""

    def predict(self, texts: Sequence[str], **search_overrides: Any) -> list[Any]:
        """One answer for each text, in order."""

    def evaluate(self, examples: Any, **search_overrides: Any) -> dict[str, Any]:
        """The task's metrics on examples; holds every one of `metric_names`, higher is better."""

    def save(self, folder: str | Path) -> None:
        """Write the whole task into a folder."""

    @classmethod
    def load(cls, folder: str | Path) -> Task:
        """Read what `save` wrote."""


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
    return content

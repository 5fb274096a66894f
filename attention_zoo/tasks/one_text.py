"""Base class of tasks on single texts with one tokenizer: length limit, saving, loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import keras

from attention_zoo import models
from attention_zoo.data import TextLines, Tokenizer, load_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.tasks.task import read_task_file, reading_options, write_task


class SingleTextTask:
    """Base class of tasks with a model, one tokenizer and one text for each example.

    A subclass defines `batches`, and `_encoded` unless it overrides `within_limits`. It overrides
    `places` if the model's maximum length is not `model.settings["max_length"]`.

    Args:
        model, tokenizer, search, max_length: see the subclasses.
    """

    name: ClassVar[str]
    examples: ClassVar[str] = "lines"
    limits: ClassVar[tuple[str, ...]] = ("max_length",)

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_length: int = 256,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.search = search or SearchOptions()
        self.max_length = max_length

    @property
    def places(self) -> int:
        """Maximum sequence length of the model, in tokens."""
        return int(self.model.settings["max_length"])

    @property
    def longest(self) -> int:
        """`max_length`; raises ValueError if it exceeds the model's maximum sequence length."""
        if self.max_length > self.places:
            raise ValueError(
                f"max_length is {self.max_length}, but the model has {self.places} positions; lower"
                " it (data.max_length in a recipe), or increase the model's (model.max_length)"
            )
        return self.max_length

    def within_limits(self, examples: Any) -> Any:
        """Return the examples within the length limit, which `batches` keeps."""
        return examples.take(self._encoded(examples)[1])

    def _encoded(self, examples: TextLines) -> tuple[list[list[int]], list[int]]:
        """Return the token ids of all lines, and the indices of the lines within the limit."""
        raise TypeError(f"{type(self).__name__} does not define `_encoded`")

    def _fitting(self, examples: TextLines) -> tuple[list[list[int]], dict[str, Any]]:
        """Return the token ids of lines within the limit, and keyword arguments of `Batches`.

        Raises:
            ValueError: if no line is within the limit.
        """
        lines, kept = self._encoded(examples)
        if not kept:
            raise ValueError(
                f"{examples.origin}: none of its {len(examples)} lines fits into"
                f" {self.max_length} tokens; raise data.max_length"
            )
        numbers = [row + 1 for row in kept]
        width = 1 if self.places % 4 else 4
        return [lines[row] for row in kept], {"bucket_width": width, "numbers": numbers}

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the cross-entropy loss over tokens."""
        return SequenceCrossEntropy(label_smoothing=label_smoothing)

    # Saving and loading.

    def save(self, folder: str | Path) -> None:
        """Write model, tokenizer and options to a folder; `task.json` is written last."""
        self.tokenizer.save(Path(folder) / "tokenizer")
        write_task(self, folder, **self._options())

    @classmethod
    def load(cls, folder: str | Path) -> Any:
        """Load a folder written by `save`; raise ValueError if it is damaged."""
        folder = Path(folder)
        content = read_task_file(folder)
        with reading_options(folder):
            limit, search = int(content["max_length"]), SearchOptions(**content["search"])
        model = models.from_preset(folder / "model")
        given = {"search": search, "max_length": limit, **cls._read(folder, content)}
        return cls(model, load_tokenizer(folder / "tokenizer"), **given)

    def _options(self) -> dict[str, Any]:
        """Return additional fields of `task.json`."""
        return {}

    @classmethod
    def _read(cls, folder: Path, content: dict[str, Any]) -> dict[str, Any]:
        """Return additional constructor arguments, from the folder and its `task.json`."""
        return {}

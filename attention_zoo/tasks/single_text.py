"""Base class of tasks on single texts with one tokenizer."""

from __future__ import annotations

from typing import Any, ClassVar

import keras

from attention_zoo.data import TextLines, Tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.registry import Registry
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.line_corpora import LINES


class SingleTextTask(Task):
    """Base class of tasks with a model, one tokenizer and one text for each example.

    A subclass defines `_encoded` unless it overrides `within_limits`. It overrides
    `max_positions` if that is not `model.settings["max_length"]`.

    Args:
        model, tokenizer, search, max_length: see the subclasses.
    """

    corpora: ClassVar[Registry] = LINES
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
    def max_positions(self) -> int:
        """Maximum sequence length of the model, in tokens."""
        return int(self.model.settings["max_length"])

    @property
    def longest(self) -> int:
        """`max_length`; raises ValueError if it exceeds the model's maximum sequence length."""
        if self.max_length > self.max_positions:
            raise ValueError(
                f"max_length={self.max_length} exceeds the {self.max_positions} positions of the"
                " model; lower it (data.max_length in a recipe), or increase the model's"
                " (model.max_length)"
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
        width = 1 if self.max_positions % 4 else 4
        return [lines[row] for row in kept], {"bucket_width": width, "numbers": numbers}

    def loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the cross-entropy loss over tokens."""
        return SequenceCrossEntropy(label_smoothing=label_smoothing)

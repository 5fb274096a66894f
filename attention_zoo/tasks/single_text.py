"""Base class of tasks on single texts with one tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, ClassVar

import keras

from attention_zoo.data import Tokenizer
from attention_zoo.data.batching.encoded import EncodedCorpus
from attention_zoo.data.batching.ragged import Row
from attention_zoo.decoding import SearchOptions
from attention_zoo.registry import Registry
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.building import check_model
from attention_zoo.tasks.encoding import EncodedPart, load_or_encode, take_encoded
from attention_zoo.tasks.inputs import Locations, add_locations, check_text
from attention_zoo.tasks.line_corpora import LINES
from attention_zoo.tasks.text_inputs import encode_in_parts, find_unknown_characters


class SingleTextTask(Task):
    """Base class of tasks with a model, one tokenizer and one text for each example.

    Attributes:
        model_class: the required class of models.
        special_tokens, num_special_tokens: name and number of the special tokens around a text,
            which count toward `max_length`.
        unit: what `max_length` counts.

    Args:
        model, tokenizer, search, max_length: see the subclasses.
    """

    corpora: ClassVar[Registry] = LINES
    example_noun: ClassVar[str] = "lines"
    limits: ClassVar[tuple[str, ...]] = ("max_length",)
    model_class: ClassVar[type[keras.Model]]
    special_tokens: ClassVar[str] = "the start token"
    num_special_tokens: ClassVar[int] = 1
    unit: ClassVar[str] = "tokens"

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        max_length: int = 256,
    ) -> None:
        check_model(model, self.model_class)
        self.model: Any = model
        self.tokenizer = tokenizer
        self.search = search or SearchOptions()
        self.max_length = max_length

    @property
    def max_positions(self) -> Any:
        """Maximum sequence length of the model, in tokens; None for no limit."""
        return self.model.get_backbone().settings["max_length"]

    @property
    def longest(self) -> int:
        """`max_length`; raises ValueError if it exceeds the model's maximum sequence length."""
        if self.max_positions is not None and self.max_length > self.max_positions:
            raise ValueError(
                f"max_length={self.max_length} exceeds the {self.max_positions} positions of the"
                " model; lower it (data.max_length in a recipe), or increase the model's maximum"
                " (model.max_length; with a pretrained BERT classifier, set model.window instead)"
            )
        return self.max_length

    # Training.

    def filter_by_length(self, examples: Any) -> Any:
        """Return the examples within the length limit, which `make_batches` keeps."""
        return take_encoded(self, examples, self._encode_within)

    @property
    def encoding_options(self) -> dict[str, Any]:
        """Options that, with the tokenizers, determine the token ids of a corpus."""
        return {**self.options, "max_positions": self.max_positions}

    def _encode_examples(self, examples: Any) -> Sequence[Any]:
        """Return the token ids of all examples."""
        return self.tokenizer.encode(examples.texts)

    def _fits(self, encoded: Any) -> bool:
        """Return whether an encoded example is within the length limit."""
        return 0 < len(encoded) <= self.longest - self.num_special_tokens

    def _encode_within(self, examples: Any, rows: range) -> Iterator[EncodedPart]:
        """Yield row numbers and token ids of the examples within the limit, in parts."""
        parts = encode_in_parts(examples, rows, self._encode_examples, self.example_noun)
        for part_rows, part, encoded in parts:
            fits = [self._fits(one) for one in encoded]
            columns = self._list_columns(part, encoded, fits)
            yield list(compress(part_rows, fits)), columns

    def _list_columns(
        self, examples: Any, encoded: Sequence[Any], fits: Sequence[bool]
    ) -> dict[str, Sequence[Row]]:
        """Return the token ids to store for encoded examples, by column; `fits` selects them."""
        return {"lines": list(compress(encoded, fits))}

    def _encode_corpus(self, examples: Any) -> tuple[EncodedCorpus, dict[str, Any]]:
        """Return the token ids of the examples within the limit, and arguments of `Batches`.

        Raises:
            ValueError: if no example is within the limit.
        """
        encoded = load_or_encode(self, examples, self._encode_within)
        rows = encoded.rows
        if not len(rows):
            raise ValueError(
                f"{examples.origin}: none of its {len(examples)} {self.example_noun} fits into"
                f" {self.max_length} {self.unit}; raise data.max_length"
            )
        return encoded, {"bucket_width": self._round_bucket_width(4), "numbers": rows + 1}

    def _round_bucket_width(self, width: int) -> int:
        """Return 1 if batches of this bucket width could exceed the model's maximum length."""
        return 1 if (self.max_positions or width) % width else width

    # Prediction.

    def encode_sources(self, texts: Sequence[str], locations: Locations = None) -> list[list[int]]:
        """Return the token ids of each text, without special tokens around it.

        Args:
            texts: the texts.
            locations: location of each text for error messages; by default "source 0" and so on.

        Raises:
            ValueError: if a text is not a str, or too long.
        """
        encoded = self._encode_texts([check_text(*x) for x in add_locations(texts, locations)])
        for location, ids in add_locations(encoded, locations):
            if len(ids) + self.num_special_tokens > self.longest:
                length = f"{len(ids)} tokens and {self.special_tokens}"
                raise self._limit_error(location, length, "max_length")
        return encoded

    def _encode_texts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, of any length."""
        return self.tokenizer.encode(texts)

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that no token of the vocabulary contains."""
        return find_unknown_characters(self.tokenizer, text)

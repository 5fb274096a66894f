"""Inputs of `attention-zoo predict`, and the layout of an input file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from attention_zoo.cli.text_kinds import TEXT_KINDS, TextKind

if TYPE_CHECKING:
    from attention_zoo.data.text.conll import ConllLayout

T = TypeVar("T")

Lines = Iterator[tuple[str, bytes]]
"""Location (file:line) and content of each line."""


@dataclass(frozen=True)
class Sentence:
    """The lines of a sentence in a CoNLL file.

    Args:
        lines: each line, and whether it is a word.
        layout: the format of the file.
    """

    lines: tuple[tuple[str, bool], ...]
    layout: ConllLayout


@dataclass(frozen=True)
class Item:
    """An input of `predict`, or the reason why it cannot be read.

    Args:
        location: file:line, or the path of an image.
        value: the input of `predict`; None for lines without words in a CoNLL file.
        error: the error message; "" if the input was read.
        sentence: the lines of the sentence in a CoNLL file.
    """

    location: str
    value: Any = None
    error: str = ""
    sentence: Sentence | None = None

    @property
    def is_input(self) -> bool:
        """Whether it needs a prediction, or has an error."""
        return self.value is not None or bool(self.error)


@dataclass(frozen=True)
class Layout:
    """Format and columns of an input file.

    Args:
        format: "text", "csv", "tsv", "jsonl" or "conll".
        fields: the columns or fields of the texts; empty for the default.
        header: whether the first row of a table contains the column names; None: it does unless
            `fields` are numbers.
        delimiter: the character between two cells of a CSV.
        words: column of the words in a CoNLL file. Column 0 of CoNLL-U, which has word numbers,
            stands for 1.
        comment, conllu: see `data.read_conll`.
        pretokenized: whether texts are words separated by spaces.
        is_assumed: whether only the training data suggest the format, so that the file is read as
            lines of text if its first line does not have it.
        name: the file, for error messages.
        is_stream: whether the input is standard input, processed as it arrives.
        kind: the kind of the texts.
        noun: `tasks.Input.noun`, for error messages.
    """

    format: str = "text"
    fields: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str = ","
    words: int = 0
    comment: str | None = None
    conllu: bool | None = None
    pretokenized: bool = False
    is_assumed: bool = False
    name: str = ""
    is_stream: bool = False
    kind: TextKind = TEXT_KINDS["text"]
    noun: str = "text"

    @property
    def field(self) -> str | None:
        """The only column or field, or None for the default."""
        return self.fields[0] if self.fields else None

    def make_input(self, texts: Sequence[Any]) -> Any:
        """Return the input of `predict` from its texts.

        It is a text, the words of a tokenized text, which only spaces and tabs separate, or a tuple
        of several texts.
        """
        if self.kind.count > 1:
            return tuple(texts)
        (text,) = texts
        if self.pretokenized and isinstance(text, str):
            return [word for word in re.split("[ \t]+", text) if word]
        return text

    def read_ahead(
        self, records: Iterator[T], is_enough: Callable[[T], bool]
    ) -> tuple[list[T], Iterator[T]]:
        """Return the records from which the format is detected, and an iterator over all records.

        These are all records of a file. For a stream, they end at the first record for which
        `is_enough` returns True.
        """
        sample: list[T] = []
        for record in records:
            sample.append(record)
            if self.is_stream and is_enough(record):
                break
        return sample, chain(sample, records)


def make_item(location: str, read: Callable[[], Any]) -> Item:
    """Return the input that `read` returns, or one with the error that it raises."""
    try:
        return Item(location, read())
    except ValueError as error:
        return Item(location, error=str(error).removeprefix(f"{location}: "))

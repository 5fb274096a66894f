"""An input of `attention-zoo predict`, and where inputs are in a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

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
        error: why it could not be read; "" if it could.
        sentence: its lines in a CoNLL file.
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
    """Where the inputs are in a file.

    Args:
        format: "text", "csv", "tsv", "jsonl" or "conll".
        field: column or field of the text; None for the default.
        header: whether the first row of a table contains the column names; None if it is not
            known: it does not if `field` is a number.
        delimiter: the character between two cells of a CSV.
        words: column of the words in a CoNLL file. Column 0 of CoNLL-U, which has word numbers,
            stands for 1.
        comment, conllu: see `data.read_conll`.
        pretokenized: whether texts are words separated by spaces.
        is_assumed: whether the format is that of the training data, not one that the user or the
            name of the file states.
        name: the file, for error messages.
        is_stream: whether the file is read while it is written.
    """

    format: str = "text"
    field: str | None = None
    header: bool | None = None
    delimiter: str = ","
    words: int = 0
    comment: str | None = None
    conllu: bool | None = None
    pretokenized: bool = False
    is_assumed: bool = False
    name: str = ""
    is_stream: bool = False

    def split(self, text: str) -> str | list[str]:
        """Return a text, or its words if it is tokenized; only spaces and tabs separate them."""
        return [word for word in re.split("[ \t]+", text) if word] if self.pretokenized else text

    def read_ahead(
        self, parts: Iterator[T], is_enough: Callable[[T], bool]
    ) -> tuple[list[T], Iterator[T]]:
        """Return the first parts of a file, which show its format, and all parts.

        They are all parts or, of a stream, those up to the first that is enough.
        """
        known: list[T] = []
        for part in parts:
            known.append(part)
            if self.is_stream and is_enough(part):
                break
        return known, chain(known, parts)


def make_item(location: str, read: Callable[[], Any]) -> Item:
    """Return the input that `read` returns, or one with the error that it raises."""
    try:
        return Item(location, read())
    except ValueError as error:
        return Item(location, error=str(error).removeprefix(f"{location}: "))

"""Values of labelled rows: texts, classes, numbers and relevance, with errors at file:line."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from sys import intern
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from attention_zoo.data.examples import ColumnFactory, NumberedExamples, make_list
from attention_zoo.data.reading import BadRowSkipper, check_not_blank, get_field_texts

E = TypeVar("E", bound=NumberedExamples)

UNLABELLED = object()
"""Value of the label of a row that is not labelled; such rows are dropped and counted."""

_DECIMAL = re.compile(r"[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?")


class LabelledRow(NamedTuple):
    """A row of a corpus.

    location: `file:line`, for messages.
    file, line: the same as columns of `NumberedExamples`.
    get_values: function that returns the values of `LabelledFields.names`, or raises ValueError.
    """

    location: str
    file: str
    line: int
    get_values: Callable[[], Sequence[Any]]


class LabelledFields(ABC, Generic[E]):
    """Base class of the names of the columns, fields or features of labelled examples.

    Attributes:
        examples_class: class of the examples.
        examples_name: plural noun for the examples, for messages.
    """

    examples_class: ClassVar[type[Any]]
    examples_name: ClassVar[str]

    def __post_init__(self) -> None:
        for (option, name), (other, other_name) in combinations(self.names.items(), 2):
            if name == other_name:
                raise ValueError(
                    f"data.{option} and data.{other} are both {name!r}; name two columns or fields"
                )

    @property
    @abstractmethod
    def names(self) -> dict[str, str]:
        """Name of each column to read, by option; one of them is "label"."""

    @property
    @abstractmethod
    def column_names(self) -> tuple[str, ...]:
        """Columns of the examples that `parse` returns."""

    @abstractmethod
    def parse(self, location: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of each of `column_names`; raise ValueError if the row is bad.

        Args:
            location: `file:line`, for messages.
            values: the value of each of `names`, by option.
        """

    def collect(
        self,
        rows: Iterable[LabelledRow],
        origin: str,
        skip_bad: int = 0,
        column_factory: ColumnFactory = make_list,
    ) -> E:
        """Return the examples of the rows without those that are not labelled.

        The number of rows that are not labelled is added to the origin of the examples.

        Args:
            rows: the rows.
            origin: source of the rows, for messages.
            skip_bad: maximum number of bad rows to skip. More raise an error.
            column_factory: function from the name of a column to an empty column with the method
                `append`; by default, a list.

        Raises:
            ValueError: more than `skip_bad` bad rows, or no labelled rows.
        """
        columns = {name: column_factory(name) for name in (*self.column_names, "lines", "files")}
        skipper, unlabelled = BadRowSkipper(skip_bad), 0
        for row in rows:
            with skipper:
                values = dict(zip(self.names, row.get_values(), strict=True))
                if values["label"] is UNLABELLED:
                    unlabelled += 1
                    continue
                parsed = self.parse(row.location, values)
                for name, value in (parsed | {"lines": row.line, "files": row.file}).items():
                    columns[name].append(value)
        counts = {"skipped": skipper.count, "unlabelled": unlabelled}
        if not len(columns["lines"]):
            if unlabelled:
                raise ValueError(
                    f"{origin}: no row is labelled (labelled -1: {unlabelled}, bad rows skipped:"
                    f" {skipper.count}); choose another split"
                )
            raise ValueError(
                f"{origin}: no {self.examples_name} (bad rows skipped: {skipper.count})"
            )
        fields = {name: columns.get(name) for name in self.examples_class.columns}
        note = f" (unlabelled rows dropped: {unlabelled})" if unlabelled else ""
        examples: E = self.examples_class(**fields, origin=origin + note, **counts)
        return examples


def parse_text(location: str, name: str, value: Any) -> str:
    """Return a text that is not blank; a list of sentences is joined with line breaks."""
    sentences = get_field_texts(location, {name: value}, name)
    text = sentences[0] if isinstance(value, str) else join_sentences(sentences)
    return check_not_blank(location, text, f"field {name!r}")


def join_sentences(sentences: Iterable[str]) -> str:
    """Join sentences with line breaks; spaces replace line breaks within a sentence.

    Example:
        >>> from attention_zoo.data import join_sentences
        >>> join_sentences(["A first\\nsentence.", "A second one."])
        'A first sentence.\\nA second one.'
    """
    return "\n".join(" ".join(sentence.splitlines()) for sentence in sentences)


def parse_class(location: str, name: str, value: Any, hint: str) -> str:
    """Return the name of a class, which is a text or a whole number.

    Args:
        location: `file:line`, for messages.
        name: the field, for messages.
        value: its value.
        hint: what to do with decimal numbers, the end of the message.
    """
    if isinstance(value, float) or (isinstance(value, str) and _DECIMAL.fullmatch(value.strip())):
        raise ValueError(
            f"{location}: field {name!r} is a decimal number, {value}, not a class; {hint}"
        )
    return parse_name(location, name, value)


def parse_name(location: str, name: str, value: Any) -> str:
    """Return a name, a text or a whole number, without the white space around it."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(
            f"{location}: field {name!r} must be a name, a string or a whole number, got {value!r}"
        )
    (text,) = get_field_texts(location, {name: str(value)}, name)
    return intern(check_not_blank(location, text.strip(), f"field {name!r}"))


def parse_number(location: str, name: str, value: Any) -> float:
    """Return a finite number, which may be written as text."""
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise TypeError
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(
            f"{location}: field {name!r} must be a number such as 3.5, got {value!r}"
        ) from None
    if not math.isfinite(number):
        raise ValueError(f"{location}: field {name!r} must be a finite number, got {value}")
    return number


def parse_relevance(location: str, name: str, value: Any) -> float:
    """Return 1.0 for a relevant candidate and 0.0 for another one."""
    number = parse_number(location, name, value)
    if number not in (0, 1):
        raise ValueError(
            f"{location}: field {name!r} must be 1 for a relevant candidate or 0, got {value}"
        )
    return number

"""Texts with class labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from attention_zoo.data.examples import NumberedExamples
from attention_zoo.data.text.labelled_fields import LabelledFields, parse_class, parse_text


@dataclass(frozen=True)
class LabelledTexts(NumberedExamples):
    """Texts with class labels: one for each text or, in multi-label corpora, any number.

    Attributes:
        texts: none is blank. A list of sentences is joined with line breaks.
        labels: names of the classes of each text.
        origin: source of the data, for display and for saved results.
        lines: line number of each text in its file; if None, texts are counted from 1.
        skipped: number of bad examples that were skipped on request.
        files: file of each text; if None, all are from `origin`.
        unlabelled: number of rows that were dropped because they are not labelled.
    """

    texts: Sequence[str]
    labels: Sequence[tuple[str, ...]]
    origin: str
    lines: Sequence[int] | None = None
    skipped: int = 0
    files: Sequence[str] | None = None
    unlabelled: int = 0

    columns = ("texts", "labels", "lines", "files")

    def __iter__(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each text and the names of its classes."""
        return zip(self.texts, self.labels, strict=True)

    @property
    def known_classes(self) -> tuple[str, ...]:
        """Names of all classes that occur, sorted."""
        return tuple(sorted(set(chain.from_iterable(self.labels))))


@dataclass(frozen=True)
class TextFields(LabelledFields[LabelledTexts]):
    """Columns, fields or features of labelled texts.

    Classes are texts or whole numbers, without the white space around them.

    Args:
        text: name of the texts. A list of sentences is joined with line breaks.
        label: name of the classes.
        multi_label: whether a text has any number of classes, also none, instead of one.
        label_separator: text that separates several classes; None if they are given as a list.

    Raises:
        ValueError: text and label are the same, or an empty separator.
    """

    text: str = "text"
    label: str = "label"
    multi_label: bool = False
    label_separator: str | None = "|"

    examples_class: ClassVar[type[Any]] = LabelledTexts
    examples_name: ClassVar[str] = "texts"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_separator == "":
            raise ValueError("data.label_separator is empty; name a character such as '|'")

    @property
    def names(self) -> dict[str, str]:
        """Name of each column to read, by option."""
        return {"text": self.text, "label": self.label}

    @property
    def column_names(self) -> tuple[str, ...]:
        """Columns of the examples that `parse` returns."""
        return ("texts", "labels")

    def parse(self, location: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the text and its classes; raise ValueError if the row is bad."""
        text = parse_text(location, self.text, values["text"])
        return {"texts": text, "labels": self._parse_classes(location, values["label"])}

    def _parse_classes(self, location: str, value: Any) -> tuple[str, ...]:
        if self.multi_label and self.label_separator and isinstance(value, str):
            value = value.split(self.label_separator) if value.strip() else []
        values = value if isinstance(value, list) else [value]
        hint = "write names or whole numbers, or use task matching with data.target=regression"
        classes = tuple(parse_class(location, self.label, one, hint) for one in values)
        if len(classes) != 1 and not self.multi_label:
            raise ValueError(
                f"{location}: field {self.label!r} must have one class, got {len(classes)}; for"
                " any number of classes, set data.multi_label=true"
            )
        return tuple(dict.fromkeys(classes))

"""Plain text: lines of a file, gzipped or not, or of the generated corpus of dates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attention_zoo.data.dates import generate_dates
from attention_zoo.data.reading import decoded, numbered_lines


@dataclass(frozen=True)
class TextLines:
    """Texts, each an example of its own: a line, a sentence or a document.

    Attributes:
        texts: none is blank.
        origin: where they come from, to be shown and stored beside results.
        lines: the line of each in the file that they come from; counted from 1 when None.
    """

    texts: list[str]
    origin: str
    lines: list[int] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def take(self, rows: Iterable[int]) -> TextLines:
        """The texts of these rows, which keep their lines."""
        rows, lines = list(rows), self._lines()
        texts = [self.texts[row] for row in rows]
        return replace(self, texts=texts, lines=[lines[row] for row in rows])

    def places(self) -> list[str]:
        """Where each text stands, for messages."""
        return [f"{self.origin}:{line}" for line in self._lines()]

    def _lines(self) -> Sequence[int]:
        return self.lines or range(1, len(self) + 1)


def read_lines(path: str | Path) -> TextLines:
    """The lines of a text file, without blank ones, which part paragraphs.

    Args:
        path: the file, UTF-8, gzipped or not; lines end in "\\n" (or "\\r\\n") alone.

    Raises:
        ValueError: no file, no line with something on it, or invalid UTF-8 (file:line).
    """
    texts = [decoded(where, raw) for where, raw in numbered_lines(path)]
    lines = [number for number, text in enumerate(texts, 1) if text.strip()]
    if not lines:
        raise ValueError(f"{path}: no line has a text; give one text a line")
    return TextLines([texts[number - 1] for number in lines], str(path), lines)


def generate_date_lines(
    size: int, language: str = "en", split: str = "train", **options: Any
) -> TextLines:
    """One side of the generated corpus of dates, times and quantities, all lines different.

    Args:
        size: how many lines.
        language: "en", "fr", "de" or "zh".
        split: "train", "validation", "test" or "long".
        **options: `seed`, `min_phrases` and `max_phrases` of `data.generate_dates`.

    Raises:
        ValueError: as `data.generate_dates`.
    """
    other = "fr" if language == "en" else "en"
    pairs = generate_dates(size, source=language, target=other, split=split, **options)
    return TextLines(pairs.sources, pairs.origin.replace(f"{language}-{other}", language))

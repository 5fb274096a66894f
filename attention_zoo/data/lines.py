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
    """Texts that are independent examples: lines, sentences or documents.

    Attributes:
        texts: none is blank.
        origin: source of the data, for display and for saved results.
        lines: line number of each text in its file; if None, texts are counted from 1.
    """

    texts: list[str]
    origin: str
    lines: list[int] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def take(self, rows: Iterable[int]) -> TextLines:
        """Return the texts with indices `rows`, with their line numbers."""
        rows, lines = list(rows), self._lines()
        texts = [self.texts[row] for row in rows]
        return replace(self, texts=texts, lines=[lines[row] for row in rows])

    def places(self) -> list[str]:
        """Return the location of each text (`origin:line`), for messages."""
        return [f"{self.origin}:{line}" for line in self._lines()]

    def _lines(self) -> Sequence[int]:
        return self.lines or range(1, len(self) + 1)


def read_lines(path: str | Path) -> TextLines:
    """Read the lines of a text file, without blank lines.

    Args:
        path: the file, UTF-8, gzipped or not; lines end in "\\n" (or "\\r\\n") alone.

    Raises:
        ValueError: a missing file, no line with text, or invalid UTF-8 (file:line).
    """
    texts = [decoded(where, raw) for where, raw in numbered_lines(path)]
    lines = [number for number, text in enumerate(texts, 1) if text.strip()]
    if not lines:
        raise ValueError(f"{path}: no line contains text; give one text per line")
    return TextLines([texts[number - 1] for number in lines], str(path), lines)


def generate_date_lines(
    size: int, language: str = "en", split: str = "train", **options: Any
) -> TextLines:
    """Generate one side of the corpus of dates, times and quantities; all lines are different.

    Args:
        size: number of lines.
        language: "en", "fr", "de" or "zh".
        split: "train", "validation", "test" or "long".
        **options: `seed`, `min_phrases` and `max_phrases` of `data.generate_dates`.

    Raises:
        ValueError: as `data.generate_dates`.
    """
    other = "fr" if language == "en" else "en"
    pairs = generate_dates(size, source=language, target=other, split=split, **options)
    return TextLines(pairs.sources, pairs.origin.replace(f"{language}-{other}", language))

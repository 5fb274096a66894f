"""Plain text: lines of a file, gzipped or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attention_zoo.data.examples import NumberedExamples
from attention_zoo.data.reading import decode_utf8, read_numbered_lines


@dataclass(frozen=True)
class TextLines(NumberedExamples):
    """Texts that are independent examples: lines, sentences or documents.

    Attributes:
        texts: none is blank.
        origin: source of the data, for display and for saved results.
        lines: line number of each text in its file; if None, texts are counted from 1.
        skipped: number of bad lines that were skipped on request.
    """

    texts: list[str]
    origin: str
    lines: list[int] | None = None
    skipped: int = 0

    columns = ("texts", "lines")

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def read_lines(path: str | Path) -> TextLines:
    """Read the lines of a text file, without blank lines.

    Args:
        path: the file, UTF-8, gzipped or not; lines end in "\\n" (or "\\r\\n") alone.

    Raises:
        ValueError: a missing file, no line with text, or invalid UTF-8 (file:line).
    """
    texts = [decode_utf8(location, raw) for location, raw in read_numbered_lines(path)]
    lines = [number for number, text in enumerate(texts, 1) if text.strip()]
    if not lines:
        raise ValueError(f"{path}: no line contains text; give one text per line")
    return TextLines([texts[number - 1] for number in lines], str(path), lines)

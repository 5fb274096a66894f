"""Plain text: lines of files, compressed or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attention_zoo.data.examples import ColumnFactory, NumberedExamples, make_list
from attention_zoo.data.reading import (
    BadRowSkipper,
    Paths,
    decode_utf8,
    describe_paths,
    list_paths,
    read_numbered_lines,
)


@dataclass(frozen=True)
class TextLines(NumberedExamples):
    """Texts that are independent examples: lines, sentences or documents.

    Attributes:
        texts: none is blank.
        origin: source of the data, for display and for saved results.
        lines: line number of each text in its file; if None, texts are counted from 1.
        skipped: number of bad lines that were skipped on request.
        files: file of each text; if None, all are from `origin`.
    """

    texts: Sequence[str]
    origin: str
    lines: Sequence[int] | None = None
    skipped: int = 0
    files: Sequence[str] | None = None

    columns = ("texts", "lines", "files")

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def read_lines(
    path: Paths, skip_bad: int = 0, column_factory: ColumnFactory = make_list
) -> TextLines:
    """Read the lines of a text file, without blank lines.

    Args:
        path: the file, or a list of files; UTF-8, compressed or not. Lines end in "\\n" (or
            "\\r\\n") alone.
        skip_bad: maximum number of bad lines to skip. More raise an error.
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: a missing file, no line with text, or invalid UTF-8 (file:line).
    """
    texts, lines, files = map(column_factory, TextLines.columns)
    skipper = BadRowSkipper(skip_bad)
    for file in list_paths(path):
        for number, (location, raw) in enumerate(read_numbered_lines(file), 1):
            with skipper:
                text = decode_utf8(location, raw)
                if text.strip():
                    texts.append(text)
                    lines.append(number)
                    files.append(file)
    origin = describe_paths(path)
    if not texts:
        raise ValueError(f"{origin}: no line contains text; give one text per line")
    return TextLines(texts, origin, lines, skipper.count, files)

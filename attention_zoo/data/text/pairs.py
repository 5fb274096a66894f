"""Pairs of texts from files: columns of a TSV, fields of JSON lines, or two parallel files.

All files may be gzipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from attention_zoo.data.examples import Examples
from attention_zoo.data.reading import (
    BadRowSkipper,
    check_not_blank,
    decode_utf8,
    get_field_texts,
    parse_json_object,
    read_numbered_lines,
)
from attention_zoo.registry import did_you_mean

Row = TypeVar("Row")


@dataclass(frozen=True)
class TextPairs(Examples):
    """Source texts and their target texts, such as translations.

    Attributes:
        sources: source texts.
        targets: `targets[i]` is the target of `sources[i]`.
        origin: source of the data, for display and for saved results.
        skipped: number of bad lines that were skipped on request.
        references: all correct targets of each source, beginning with that of `targets`; None if
            each source has only one.
    """

    sources: list[str]
    targets: list[str]
    origin: str
    skipped: int = 0
    references: list[tuple[str, ...]] | None = None

    columns = ("sources", "targets", "references")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.sources, self.targets, strict=True)


def read_tsv(path: str | Path, source: str, target: str, skip_bad: int = 0) -> TextPairs:
    """Read pairs from two named columns of a TSV.

    The first line contains the column names. Lines end in "\\n" (or "\\r\\n") alone. Only tabs
    separate columns, and quotes have no special meaning. A gzipped file is detected by its content.
    A byte order mark is ignored.

    Args:
        path: the file, UTF-8.
        source: column of the source texts.
        target: column of the target texts.
        skip_bad: maximum number of bad lines to skip. More raise an error.

    Raises:
        ValueError: a missing or empty file, a missing or repeated column, no rows, or a bad line
            (file:line): invalid UTF-8, an empty field, a number of fields that differs from the
            header.
    """
    lines = read_numbered_lines(path)
    location, raw = next(lines, (f"{path}:1", b""))
    if not raw.strip():
        raise ValueError(f"{location}: no header; the first line must name the columns")
    header = decode_utf8(location, raw).split("\t")
    columns = [_find_column(location, header, name) for name in (source, target)]

    def parse_row(location: str, raw: bytes) -> tuple[str, str]:
        row = decode_utf8(location, raw).split("\t")
        if len(row) != len(header):
            raise ValueError(
                f"{location}: expected {len(header)} tab-separated columns, as in the header, got"
                f" {len(row)}"
            )
        return row[columns[0]], row[columns[1]]

    return collect_pairs(lines, parse_row, str(path), (source, target), skip_bad)


def read_jsonl(path: str | Path, source: str, target: str, skip_bad: int = 0) -> TextPairs:
    """Read pairs from two named fields of a JSON lines file.

    A field is a text or a list of texts. A list of source texts is joined by spaces. A list of
    target texts contains alternative references, the first of which is the training target.

    Args:
        path: the file, UTF-8, gzipped or not; a byte order mark is ignored.
        source: field of the source texts.
        target: field of the target texts.
        skip_bad: maximum number of bad lines to skip. More raise an error.

    Raises:
        ValueError: a missing file, no rows, or a bad line (file:line): invalid UTF-8, no JSON
            object, a missing field, one that is neither a text nor a list of texts, an empty one.
    """

    def parse_row(location: str, raw: bytes) -> tuple[str, ...]:
        row = parse_json_object(location, decode_utf8(location, raw))
        sentences, targets = (get_field_texts(location, row, name) for name in (source, target))
        return " ".join(sentences), *targets

    return collect_pairs(
        read_numbered_lines(path), parse_row, str(path), (source, target), skip_bad
    )


def read_parallel(source_path: str | Path, target_path: str | Path) -> TextPairs:
    """Read pairs from two files in which line n of one translates line n of the other.

    Args:
        source_path: the sentences to translate, one per line, UTF-8, gzipped or not.
        target_path: their translations.

    Raises:
        ValueError: a missing or empty file, files of different lengths, or a bad line (file:line):
            invalid UTF-8, an empty line.
    """
    paths = (source_path, target_path)
    sources, targets = (list(read_numbered_lines(path)) for path in paths)
    for path, lines in zip(paths, (sources, targets), strict=True):
        if not lines:
            raise ValueError(f"{path}: the file is empty")
    if len(sources) != len(targets):
        raise ValueError(
            f"{source_path} has {len(sources)} lines and {target_path} has {len(targets)};"
            " line n of one must translate line n of the other"
        )
    texts = [
        [check_not_blank(location, decode_utf8(location, raw), "line") for location, raw in lines]
        for lines in (sources, targets)
    ]
    return TextPairs(texts[0], texts[1], f"{source_path} and {target_path}")


def collect_pairs(
    rows: Iterable[tuple[str, Row]],
    parse_row: Callable[[str, Row], tuple[str, ...]],
    origin: str,
    names: tuple[str, str],
    skip_bad: int,
) -> TextPairs:
    """Collect pairs from rows, skipping at most `skip_bad` bad rows.

    Args:
        rows: location (file:line) and content of each row.
        parse_row: function from these two to the source, the target and alternative targets. It
            raises ValueError if the row is bad.
        origin: source of the rows, for messages.
        names: field names of source and target, for messages.
        skip_bad: maximum number of bad rows.

    Raises:
        ValueError: more than `skip_bad` bad rows, or no rows.
    """
    sources: list[str] = []
    references: list[tuple[str, ...]] = []
    skipper = BadRowSkipper(skip_bad)
    for location, row in rows:
        with skipper:
            source, *targets = parse_row(location, row)
            check_not_blank(location, source, f"field {names[0]!r}")
            for text in targets:
                check_not_blank(location, text, f"field {names[1]!r}")
            sources.append(source)
            references.append(tuple(targets))
    if not sources:
        raise ValueError(f"{origin}: no pairs (bad rows skipped: {skipper.count})")
    has_references = any(len(alternatives) > 1 for alternatives in references)
    first_targets = [alternatives[0] for alternatives in references]
    return TextPairs(
        sources, first_targets, origin, skipper.count, references if has_references else None
    )


def _find_column(location: str, header: list[str], name: str) -> int:
    if header.count(name) != 1:
        problem = "is repeated" if name in header else "is missing"
        raise ValueError(
            f"{location}: column {name!r} {problem} in the header{did_you_mean(name, header)}"
            f" (columns: {', '.join(header)})"
        )
    return header.index(name)

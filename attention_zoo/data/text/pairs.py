"""Pairs of texts, from fields of JSON lines or two parallel files, compressed or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, starmap
from typing import TypeVar

from attention_zoo.data.examples import ColumnFactory, Examples, make_list
from attention_zoo.data.reading import (
    BadRowSkipper,
    Line,
    Paths,
    check_not_blank,
    decode_utf8,
    describe_paths,
    get_field_texts,
    list_paths,
    parse_json_object,
    read_numbered_lines,
)

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

    sources: Sequence[str]
    targets: Sequence[str]
    origin: str
    skipped: int = 0
    references: Sequence[tuple[str, ...]] | None = None

    columns = ("sources", "targets", "references")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.sources, self.targets, strict=True)


def read_jsonl(
    path: Paths,
    source: str,
    target: str,
    skip_bad: int = 0,
    column_factory: ColumnFactory = make_list,
) -> TextPairs:
    """Read pairs from two named fields of a JSON lines file.

    A field is a text or a list of texts. A list of source texts is joined by spaces. A list of
    target texts contains alternative references, the first of which is the training target.

    Args:
        path: the file, or a list of files; UTF-8, compressed or not.
        source: field of the source texts.
        target: field of the target texts.
        skip_bad: maximum number of bad lines to skip. More raise an error.
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: a missing file, no rows, or a bad line (file:line): invalid UTF-8, no JSON
            object, a missing or repeated field, one that is neither a text nor a list of texts, an
            empty one.
    """

    def parse_row(location: str, raw: bytes) -> tuple[str, ...]:
        row = parse_json_object(location, decode_utf8(location, raw))
        sentences, targets = (get_field_texts(location, row, name) for name in (source, target))
        return " ".join(sentences), *targets

    rows, names = read_numbered_lines(path), (source, target)
    return collect_pairs(rows, parse_row, describe_paths(path), names, skip_bad, column_factory)


def read_parallel(
    source_path: Paths,
    target_path: Paths,
    skip_bad: int = 0,
    column_factory: ColumnFactory = make_list,
) -> TextPairs:
    """Read pairs from two files in which line n of one translates line n of the other.

    Args:
        source_path: the file of the sentences to translate, one per line, or a list of files;
            UTF-8, compressed or not.
        target_path: the files of their translations.
        skip_bad: maximum number of pairs with a bad line to skip. More raise an error.
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: a missing or empty file, files of different lengths, different numbers of files,
            or a bad line (file:line): invalid UTF-8, an empty line.
    """
    paths = list_paths(source_path), list_paths(target_path)
    if len(paths[0]) != len(paths[1]):
        raise ValueError(
            f"expected one file of targets per file of sources, got {len(paths[0])} files of"
            f" sources and {len(paths[1])} of targets"
        )
    for pair in zip(*paths, strict=True):
        _check_numbers_of_lines(*pair)
    rows = chain.from_iterable(starmap(_align_lines, zip(*paths, strict=True)))

    def parse_row(location: str, row: tuple[Line, Line]) -> tuple[str, str]:
        source, target = (
            check_not_blank(where, decode_utf8(where, raw), "line") for where, raw in row
        )
        return source, target

    origin = " and ".join(map(describe_paths, paths))
    return collect_pairs(rows, parse_row, origin, ("source", "target"), skip_bad, column_factory)


def _align_lines(source_path: str, target_path: str) -> Iterator[tuple[str, tuple[Line, Line]]]:
    """Yield the lines of two files in pairs, with the location of the first."""
    lines = zip(read_numbered_lines(source_path), read_numbered_lines(target_path), strict=True)
    for source, target in lines:
        yield source[0], (source, target)


def _check_numbers_of_lines(source_path: str, target_path: str) -> None:
    """Raise ValueError if a file is empty, or the files have different numbers of lines."""
    counts = [sum(1 for _ in read_numbered_lines(path)) for path in (source_path, target_path)]
    for path, count in zip((source_path, target_path), counts, strict=True):
        if not count:
            raise ValueError(f"{path}: the file is empty")
    if counts[0] != counts[1]:
        raise ValueError(
            f"{source_path} has {counts[0]} lines and {target_path} has {counts[1]};"
            " line n of one must translate line n of the other"
        )


def collect_pairs(
    rows: Iterable[tuple[str, Row]],
    parse_row: Callable[[str, Row], tuple[str, ...]],
    origin: str,
    names: tuple[str, str],
    skip_bad: int,
    column_factory: ColumnFactory = make_list,
) -> TextPairs:
    """Collect pairs from rows, skipping at most `skip_bad` bad rows.

    Args:
        rows: location (file:line) and content of each row.
        parse_row: function from these two to the source, the target and alternative targets. It
            raises ValueError if the row is bad.
        origin: source of the rows, for messages.
        names: field names of source and target, for messages.
        skip_bad: maximum number of bad rows.
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: more than `skip_bad` bad rows, or no rows.
    """
    sources, targets = column_factory("sources"), column_factory("targets")
    alternatives: dict[int, tuple[str, ...]] = {}
    skipper = BadRowSkipper(skip_bad)
    for location, row in rows:
        with skipper:
            source, *references = parse_row(location, row)
            check_not_blank(location, source, f"field {names[0]!r}")
            for text in references:
                check_not_blank(location, text, f"field {names[1]!r}")
            if len(references) > 1:
                alternatives[len(targets)] = tuple(references)
            sources.append(source)
            targets.append(references[0])
    if not sources:
        raise ValueError(f"{origin}: no pairs (bad rows skipped: {skipper.count})")
    if not alternatives:
        return TextPairs(sources, targets, origin, skipper.count)
    references = column_factory("references")
    for number, text in enumerate(targets):
        references.append(alternatives.get(number, (text,)))
    return TextPairs(sources, targets, origin, skipper.count, references)

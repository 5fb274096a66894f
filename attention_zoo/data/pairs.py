"""Pairs of texts from files: named columns of a TSV, named fields of JSON lines, or two parallel
files; gzipped or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from attention_zoo.data.reading import (
    Skips,
    decoded,
    field_texts,
    filled,
    json_object,
    numbered_lines,
)
from attention_zoo.registry import did_you_mean

Row = TypeVar("Row")


@dataclass(frozen=True)
class TextPairs:
    """Sentences and their translations, in step.

    Attributes:
        sources: the sentences to translate.
        targets: `targets[i]` translates `sources[i]`.
        origin: where they come from, to be shown and stored beside results.
        skipped: how many bad lines were left out on request.
        references: every right answer to each source, its target the first of them; None where
            targets are the only ones.
    """

    sources: list[str]
    targets: list[str]
    origin: str
    skipped: int = 0
    references: list[tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.targets):
            raise ValueError(
                f"{self.origin}: {len(self.sources)} sources and {len(self.targets)} targets"
            )

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.sources, self.targets, strict=True)

    def take(self, rows: Iterable[int]) -> TextPairs:
        """The pairs of these rows."""
        rows = list(rows)
        sources, targets = ([texts[row] for row in rows] for texts in (self.sources, self.targets))
        references = self.references and [self.references[row] for row in rows]
        return replace(self, sources=sources, targets=targets, references=references)


def read_tsv(path: str | Path, source: str, target: str, skip_bad: int = 0) -> TextPairs:
    """Pairs from two named columns of a TSV.

    The first line names the columns. Lines end in "\\n" (or "\\r\\n") alone, columns in a tab
    alone, and nothing is quoted. A gzipped file is known by its content; a byte order mark is
    ignored.

    Args:
        path: the file, UTF-8.
        source: the column of the sentences to translate.
        target: the column of their translations.
        skip_bad: how many bad lines may be left out; one more is an error.

    Raises:
        ValueError: no file, an empty one, a missing column, no row, or at a bad line (file:line):
            another number of fields than in the header, invalid UTF-8, an empty field.
    """
    lines = numbered_lines(path)
    where, raw = next(lines, (f"{path}:1", b""))
    if not raw.strip():
        raise ValueError(f"{where}: no header; the first line must name the columns")
    header = decoded(where, raw).split("\t")
    columns = [_column(where, header, name) for name in (source, target)]

    def fields(where: str, raw: bytes) -> tuple[str, str]:
        row = decoded(where, raw).split("\t")
        if len(row) != len(header):
            raise ValueError(f"{where}: the header names {len(header)} columns, found {len(row)}")
        return row[columns[0]], row[columns[1]]

    return collect_pairs(lines, fields, str(path), (source, target), skip_bad)


def read_jsonl(path: str | Path, source: str, target: str, skip_bad: int = 0) -> TextPairs:
    """Pairs from two named fields of a file with a JSON object a line.

    A field is a text, or a list of texts: those of a source are its sentences, which a space joins;
    those of a target are as many right answers, the first of which is to be learnt.

    Args:
        path: the file, UTF-8, gzipped or not; a byte order mark is ignored.
        source: the field of the texts to read.
        target: the field of the texts to write.
        skip_bad: how many bad lines may be left out; one more is an error.

    Raises:
        ValueError: no file, no row, or at a bad line (file:line): invalid UTF-8, no JSON object, a
            missing field, one that is neither text nor a list of texts, an empty one.
    """

    def fields(where: str, raw: bytes) -> tuple[str, ...]:
        row = json_object(where, decoded(where, raw))
        sentences, targets = (field_texts(where, row, name) for name in (source, target))
        return " ".join(sentences), *targets

    return collect_pairs(numbered_lines(path), fields, str(path), (source, target), skip_bad)


def read_parallel(source_path: str | Path, target_path: str | Path) -> TextPairs:
    """Pairs from two files of which line n of one translates line n of the other.

    Args:
        source_path: the sentences to translate, one a line, UTF-8, gzipped or not.
        target_path: their translations.

    Raises:
        ValueError: no file, an empty one, files of different length, or at a bad line (file:line):
            invalid UTF-8, an empty line.
    """
    paths = (source_path, target_path)
    sources, targets = (list(numbered_lines(path)) for path in paths)
    for path, lines in zip(paths, (sources, targets), strict=True):
        if not lines:
            raise ValueError(f"{path}: the file is empty")
    if len(sources) != len(targets):
        raise ValueError(
            f"{source_path} has {len(sources)} lines and {target_path} has {len(targets)};"
            " line n of one must translate line n of the other"
        )
    texts = [
        [filled(where, decoded(where, raw), "line") for where, raw in lines]
        for lines in (sources, targets)
    ]
    return TextPairs(texts[0], texts[1], f"{source_path} and {target_path}")


def collect_pairs(
    rows: Iterable[tuple[str, Row]],
    fields: Callable[[str, Row], tuple[str, ...]],
    origin: str,
    names: tuple[str, str],
    skip_bad: int,
) -> TextPairs:
    """The pairs of `(where, row)`, leaving out at most `skip_bad` bad rows.

    Args:
        rows: where each row stands (file:line) and the row.
        fields: from `(where, row)` to source, target and other right targets; ValueError if the
            row is bad.
        origin: where the rows come from.
        names: what source and target are called there.
        skip_bad: how many rows may be bad.

    Raises:
        ValueError: one bad row too many, or no row.
    """
    sources: list[str] = []
    references: list[tuple[str, ...]] = []
    skips = Skips(skip_bad)
    for where, row in rows:
        with skips:
            source, *targets = fields(where, row)
            filled(where, source, f"field {names[0]!r}")
            for text in targets:
                filled(where, text, f"field {names[1]!r}")
            sources.append(source)
            references.append(tuple(targets))
    if not sources:
        raise ValueError(f"{origin}: no pairs (bad rows left out: {skips.count})")
    several = any(len(of_source) > 1 for of_source in references)
    first = [of_source[0] for of_source in references]
    return TextPairs(sources, first, origin, skips.count, references if several else None)


def _column(where: str, header: list[str], name: str) -> int:
    if header.count(name) != 1:
        found = "twice" if name in header else "not at all"
        raise ValueError(
            f"{where}: column {name!r} is named {found}{did_you_mean(name, header)}"
            f" (columns: {', '.join(header)})"
        )
    return header.index(name)

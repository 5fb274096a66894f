"""Readers of TSV and CSV files."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.data import read_csv, read_jsonl, read_lines, read_parallel, read_tsv
from attention_zoo.data.reading import read_raw_lines
from attention_zoo.data.text import tables
from attention_zoo.data.text.tables import read_csv_rows
from tests.refusals import refuses

ROWS = 'en,de\n"a ""b"", c","line 1\r\nline 2\n"\nplain "x" y,z\u2028\x85\x0c\n\n"",\n,"e\n"\n'
READERS: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "lines": (b"a\nb\n", read_lines),
    "tsv": (b"a\tb\nx\ty\n", lambda path: read_tsv(path, "a", "b")),
    "csv": (b"a,b\nx,y\n", lambda path: read_csv(path, "a", "b")),
    "jsonl": (b'{"a": "x", "b": "y"}', lambda path: read_jsonl(path, "a", "b")),
    "parallel": (b"x\n", lambda path: read_parallel(path, path)),
}


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[..., Path]:
    def write_file(content: str | bytes, name: str = "a.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.mark.parametrize("compress", [bz2.compress, gzip.compress, lzma.compress])
@pytest.mark.parametrize("kind", READERS)
def test_compressed_files_are_read_by_content(kind: str, compress: Any, write_file: Any) -> None:
    content, read = READERS[kind]
    expected = read(write_file(content))
    assert read(write_file(compress(b"\xef\xbb\xbf" + content))) == expected
    with pytest.raises(ValueError, match="data is damaged or truncated; download it again"):
        read(write_file(compress(content * 100)[:-9]))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_is_read_as_by_the_csv_module(end: str, write_file: Any) -> None:
    text = ROWS.replace("\n", end)
    path = write_file("\ufeff" + text)
    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    rows = list(read_csv_rows(read_raw_lines(path)))
    assert [get_cells() for _, get_cells in rows] == expected
    assert [int(location.rpartition(":")[2]) for location, _ in rows] == [1, 2, 5, 7, 8]
    pairs = read_csv(path, "de", "en", skip_bad=2)
    assert pairs.sources == [row[1] for row in expected[1:3]]
    assert (pairs.targets, pairs.skipped) == (['a "b", c', 'plain "x" y'], 2)


def test_delimiter_and_long_cells(write_file: Any) -> None:
    path = write_file(f'en;de\n{"x" * 200_000};"a;b"\n')
    limit = csv.field_size_limit()
    pairs = read_csv(path, "en", "de", delimiter=";")
    assert (len(pairs.sources[0]), pairs.targets) == (200_000, ["a;b"])
    assert csv.field_size_limit() == limit
    path = write_file("en\tde\na\tb\n")
    for delimiter in ("\t", "\\t"):
        assert list(read_csv(path, "en", "de", delimiter=delimiter)) == [("a", "b")]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ('a,"b', "not valid CSV: a quoted cell has no closing quote, or text after it; write"),
        ('"a" b,c', "not valid CSV: a quoted cell has no closing quote, or text after it"),
        ("a\rb,c", "not valid CSV: a carriage return outside quotes; put the cell in quotes"),
        ("a", r"expected 2 columns separated by ',', as in the header, got 1"),
        ("a,caf\xe9", "not valid UTF-8"),
        (",b", "the field 'en' is empty"),
    ],
)
@pytest.mark.parametrize("rest", ["", "e,f\n", 'e,"f"\n"g\nh",i\n'])
def test_bad_row_does_not_affect_the_others(
    bad: str, problem: str, rest: str, write_file: Any
) -> None:
    good = "en,de\nc,d\n"
    path = write_file((good + bad + "\n" + rest).encode("latin-1"))
    with pytest.raises(ValueError, match=rf"a\.csv:3: {problem}.*data\.skip_bad=1 or more"):
        read_csv(path, "en", "de")
    expected = read_csv(write_file(good + rest, "b.csv"), "en", "de")
    pairs = read_csv(path, "en", "de", skip_bad=1)
    assert (list(pairs), pairs.skipped) == (list(expected), 1)


@pytest.mark.parametrize("read", [read_tsv, read_csv])
def test_columns_by_number(read: Any, write_file: Any) -> None:
    text = "a\tb\nc\td\te\nf\tg\th\n"
    path = write_file(text if read is read_tsv else text.replace("\t", ","))
    pairs = read(path, "2", "0", header=False, skip_bad=1)
    assert list(pairs) == [("e", "c"), ("h", "f")]
    with pytest.raises(ValueError, match=r":1: expected 3 .*columns.*, as in most lines, got 2"):
        read(path, "2", "0", header=False)


@refuses(
    ("a\tb\n", ("0", "2"), ":1: has no column 2, only 2, counted from 0"),
    ("a\tb\n", ("0", "b"), r":1: without a header, a column is a number from 0, got 'b'; set data"),
    ("a\tb\n", ("1", "01"), r":1: data\.source and data\.target are the same column, '1'"),
    ("", ("0", "1"), r"a\.csv: no pairs"),
)
def test_invalid_numbers_raise(text: str, names: tuple[str, str], write_file: Any) -> None:
    read_tsv(write_file(text), *names, header=False)


@refuses(
    (
        "en,de,en\na,b,c\n",
        {},
        r"a\.csv:1: column 'en' is repeated in the header \(columns 1 and 3\)",
    ),
    ("en;de\na;b\n", {}, r":1: column 'en' is missing .*columns: en;de\); .* data\.header=false"),
    ("en,de\n", {"delimiter": ";;"}, r"data\.delimiter must be one character, .* got ';;'"),
    ("", {}, r"a\.csv:1: no header"),
)
def test_invalid_header_raises(text: str, options: dict[str, Any], write_file: Any) -> None:
    read_csv(write_file(text), "en", "de", **options)


def test_several_files_may_order_their_columns_differently(write_file: Any) -> None:
    paths = [write_file("a,b\n1,2\n"), write_file("b,c,a\n3,,4\nbad\n", "b.csv")]
    pairs = read_csv(paths, "a", "b", skip_bad=1)
    assert (list(pairs), pairs.skipped) == ([("1", "2"), ("4", "3")], 1)
    assert pairs.origin == f"{paths[0]}, {paths[1]}"
    assert read_csv(paths[:1] * 5, "a", "b").origin.endswith("a.csv, ... (5 files)")


def test_first_lines_determine_the_number_of_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LAYOUT_ROWS", 2)
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\nc\td\n" + "e\tf\tg\n" * 4)
    with pytest.raises(ValueError, match=r"a\.tsv:3: expected 2 .*, as in most lines, got 3"):
        read_tsv(path, "0", "1", header=False)
    pairs = read_tsv(path, "0", "1", skip_bad=4, header=False)
    assert [*pairs] == [("a", "b"), ("c", "d")]
    assert pairs.skipped == 4
    path.write_bytes(b"\xff\n\xff\n\xff\na\tb\n")
    assert [*read_tsv(path, "0", "1", skip_bad=3, header=False)] == [("a", "b")]

"""Inputs of `predict` in all formats: fields, tables, sentences and streams."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attention_zoo.cli.columns import read_columns
from attention_zoo.cli.inputs import find_format, read_items, split_batches
from attention_zoo.cli.items import Item, Layout
from attention_zoo.cli.sentences import format_sentence, read_sentences
from tests.refusals import refuses


def read(folder: Path, name: str, content: str | bytes, **layout: Any) -> list[Item]:
    raw = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    (folder / name).write_bytes(raw)
    return list(read_items(str(folder / name), Layout(find_format(name), **layout)))


@pytest.mark.parametrize(
    ("name", "content", "layout", "values"),
    [
        ("a.txt", "\ufeffone\r\n\ntwo\u2028 x", {}, ["one", "", "two\u2028 x"]),
        ("a.txt", " one  \ttwo \n", {"pretokenized": True}, [["one", "two"]]),
        ("a.txt", "10\u00a0000 francs\n", {"pretokenized": True}, [["10\u00a0000", "francs"]]),
        ("a.tsv", "text\na\u2028b c\n", {"pretokenized": True}, [["a\u2028b", "c"]]),
        ("a.jsonl", '{"text": "a\u3000b c"}\n', {"pretokenized": True}, [["a\u3000b", "c"]]),
        ("a.jsonl", '{"text": "one"}\n{"text": ["t", "wo"]}', {}, ["one", "t wo"]),
        ("a.jsonl", '{"id": 1, "x": "one"}\n', {"fields": ("x",)}, ["one"]),
        ("a.jsonl", '{"words": ["a", "b c"]}\n', {"pretokenized": True}, [["a", "b c"]]),
        ("a.tsv", "id\tsource\n1\tone\n2\ttwo", {}, ["one", "two"]),
        ("a.tsv", "one\ntwo\n", {}, ["one", "two"]),
        ("a.tsv", "one\t1\ntwo\t2\n", {"fields": ("0",)}, ["one", "two"]),
        ("a.tsv", "1\tone\n2\ttwo\n", {"fields": ("1",)}, ["one", "two"]),
        ("a.tsv", "1\t0\na\tb\n", {"fields": ("0",), "header": False}, ["1", "a"]),
        ("a.tsv", "1\t0\na\tb\n", {"fields": ("0",), "header": True}, ["b"]),
        ("a.tsv", "en\na b\n", {"header": True}, ["a b"]),
        ("a.csv", "text;n\none;1\n", {"delimiter": ";"}, ["one"]),
        ("a.csv", 'text\n"a; b"\n', {}, ["a; b"]),
        ("a.csv", "a; b\nc\n", {"header": False}, ["a; b", "c"]),
        ("a.csv", 'text,n\n"one, ""1""\nline",1\ntwo,2\n', {}, ['one, "1"\nline', "two"]),
        ("a.csv", "n, y\n1,one\n", {"fields": ("y",)}, ["one"]),
        ("a.csv", "y, y\n1,one\n", {"fields": (" y",)}, ["one"]),
        ("a.conll", "a X\nb\u00a0c O\n\n\n# Y\n", {}, [["a", "b\u00a0c"], ["#"]]),
        ("a.conll", "X a\nO b\n", {"words": 1}, [["a", "b"]]),
    ],
)
def test_values(tmp_path: Path, name: str, content: str, layout: Any, values: list[Any]) -> None:
    items = read(tmp_path, name, content, **layout)
    assert [item.value for item in items] == values
    assert not any(item.error for item in items)
    packed = gzip.compress(content.encode())
    assert [x.value for x in read(tmp_path, f"{name}.gz", packed, **layout)] == values


def test_locations_and_errors_of_rows(tmp_path: Path) -> None:
    items = read(tmp_path, "a.jsonl", '{"text": "a"}\n{\n{"text": 3}\n{"no": 1}\n')
    assert [item.location for item in items] == [f"{tmp_path}/a.jsonl:{n}" for n in range(1, 5)]
    assert [bool(item.error) for item in items] == [False, True, True, True]
    assert items[1].error.startswith("not valid JSON")
    rows = read(tmp_path, "b.tsv", "id\ttext\n1\ta\n1\n1\tb\n")
    assert [(row.value, row.error) for row in rows] == [
        ("a", ""),
        (None, "expected 2 columns, as in the header, got 1; fix or remove the row"),
        ("b", ""),
    ]
    rows = read(tmp_path, "b.csv", b'text,n\n"a,1\nb,1\n\xff,1\nc,1\n')
    assert [row.value for row in rows] == [None, "b", None, "c"]
    assert rows[0].error.startswith("not valid CSV: a quoted cell")
    assert rows[2].error.startswith("not valid UTF-8")
    for head in (b"\xff\t0", b"0"):  # the width is that of most lines
        rows = read(tmp_path, "d.tsv", head + b"\n1\tone\n2\ttwo\n", fields=("1",))
        assert [row.value for row in rows] == [None, "one", "two"]
    assert rows[0].error == "expected 2 columns, as in most lines, got 1; fix or remove the row"
    rows = read(tmp_path, "d.tsv", "a\tb\none\ntwo\n")
    assert [row.value for row in rows] == [None, "one", "two"]
    (text,) = read(tmp_path, "c.txt", b"on \xff")
    assert text.error == "not valid UTF-8 at byte 4; convert the file to UTF-8"


@refuses(
    (
        "a.tsv",
        "a\tb\n1\t2\n",
        {},
        r"a\.tsv:1: no column or field is named text or .*; pass --field NAME .*: a, b",
    ),
    (
        "a.csv",
        "a,b\n1,2\n",
        {"fields": ("B",)},
        r"a\.csv:1: column 'B' is missing in the header; did you mean 'b'",
    ),
    ("a.csv", "a,b,a\n1,2,3\n", {"fields": ("a",)}, "column 'a' is repeated in the header"),
    ("a.tsv", "1\ta\n2\tb\n", {"fields": ("2",)}, r"a\.tsv:1: has no column 2, only 2"),
    (
        "a.tsv",
        "1\t2\n",
        {"fields": ("2",)},
        "has no column 2, only 2, .*set data.header=true if the f",
    ),
    (
        "a.tsv",
        "one\n",
        {"fields": ("en",)},
        "column 'en' is missing .* column names, add --format text$",
    ),
    ("a.tsv", "x\ty\n", {"header": False}, r"no column or field is named .*\(fields: x, y\)"),
    (
        "a.tsv",
        "x\ty\n",
        {"header": False, "fields": ("x",)},
        "without a header, .* set data.header=",
    ),
    (
        "a.tsv",
        "x\ty\n",
        {"header": True, "fields": ("1",)},
        "column '1' is missing .*header=false and",
    ),
    ("a.csv", "\n\n", {}, r"a\.csv: contains no row; give one text per row"),
    *(
        ("a.csv", f"id{x}text\n1{x}a\n", field, r"a\.csv:1: has one column, but.*data\.delimiter='")
        for x in ";|\t"
        for field in ({}, {"fields": ("text",)}, {"fields": ("1",)})
    ),
    ("a.txt", "", {}, r"a\.txt: is empty; give one text per line"),
    ("a.conll", "a O\n", {"words": 3}, r"a\.conll:1: has no column 3, only 2 .* data\.words"),
)
def test_unclear_files_are_refused(name: str, content: str, layout: Any, tmp_path: Path) -> None:
    read(tmp_path, name, content, **layout)


CONLLU = """# text = it's
1-2\tit's\t_\t_\t_\t_\t_\t_\t_\t_
1\tit\t_\tPRON\t_\t_\t_\t_\t_\t_
2\t's\t_\tAUX\t_\t_\t_\t_\t_\t_
2.1\tso\t_\tADV\t_\t_\t_\t_\t_\t_
"""


def test_conllu(tmp_path: Path) -> None:
    (item,) = read(tmp_path, "a.conllu", CONLLU)
    assert item.value == ["it", "'s"]
    added = format_sentence(item.sentence, ["X", "Y"], None).splitlines()
    lines = CONLLU.splitlines()
    assert added == [*lines[:2], f"{lines[2]}\tX", f"{lines[3]}\tY", lines[4], ""][:5]
    replaced = format_sentence(item.sentence, ["X", "Y"], 3)
    assert replaced == CONLLU.replace("PRON", "X").replace("AUX", "Y")


LONG = "# text = " + "It is a b " * 3 + "\n"
DOCUMENT = "-DOCSTART- -X- -X- O\n"
DAMAGED = "It A O\nx\ny B O\n"


@pytest.mark.parametrize(
    ("content", "layout", "words", "skipped"),
    [
        (LONG + CONLLU, {}, [["it", "'s"]], 4),
        (LONG + CONLLU, {"words": 1}, [["it", "'s"]], 4),
        (f"{CONLLU}\n# newdoc\n\n{CONLLU}", {}, [["it", "'s"], None, ["it", "'s"]], 7),
        (f"{DOCUMENT}\na B O\n\n{DOCUMENT}a B O\n", {}, [None, ["a"], ["a"]], 2),
        ("a B O\n-DOCSTART- B O\n", {}, [["a", "-DOCSTART-"]], 0),
        ("% x\na O\n", {"comment": "%"}, [["a"]], 1),
        ("1 2 O\n2-3 x O\n", {"conllu": True, "words": 1}, [["2"]], 1),
        ("1 2 O\n2 x O\n", {"conllu": False}, [["1", "2"]], 0),
        (CONLLU, {"conllu": False, "words": -10}, [None], 0),
        (" It O \n b  O\n", {}, [["It", "b"]], 0),
        (f"a A O\n\n{DAMAGED}", {"words": 1}, [["A"], None], 0),
        ("x\n\na A O\nb A O\n", {"words": 1}, [None, ["A", "A"]], 0),
    ],
)
def test_conll_is_read_as_in_training(
    tmp_path: Path, content: str, layout: Any, words: list[Any], skipped: int
) -> None:
    """All lines are kept; those that are skipped in training get no tag."""
    items = read(tmp_path, "a.conll", content, **layout)
    assert [item.value for item in items] == words
    sentences = [item.sentence for item in items if item.sentence]
    assert sum(not is_word for one in sentences for _, is_word in one.lines) == skipped
    printed = "\n".join(format_sentence(one, (), None) for one in sentences)
    for old, new in zip(content.splitlines(), printed.splitlines(), strict=True):
        assert new in (old, f"{old}\t_", f"{old.rstrip()} _")


def test_a_bad_line_of_a_sentence_is_named(tmp_path: Path) -> None:
    _, item = read(tmp_path, "a.conll", f"a A O\n\n{DAMAGED}")
    assert (item.location, item.is_input) == (f"{tmp_path}/a.conll:4", True)
    assert item.error.startswith("expected 3 columns, as in most lines, got 1; fix the line")


@pytest.mark.parametrize(
    ("content", "layout", "values"),
    [
        (CONLLU + "\n" + CONLLU, Layout("conll"), [["it", "'s"]] * 2),
        (f"{DOCUMENT}\n# a\n\nb O\n", Layout("conll"), [None, ["#"], ["b"]]),
        ("1\tone\n2\ttwo\n", Layout("tsv", ("1",)), ["one", "two"]),
        ("en\tfr\na\tb\n", Layout("tsv", ("en",), True, is_assumed=True), ["a"]),
        ("one\n", Layout("tsv", ("en",), True, is_assumed=True), ["one"]),
        ('\n"en\n", en\na,b\n', Layout("csv", ("en",), True, is_assumed=True), ["b"]),
        ('"a\nb",c\n', Layout("csv", ("0",), False, is_assumed=True), ["a\nb"]),
        ('"a, b\nc\n', Layout("csv", ("0",), False, is_assumed=True), ['"a, b', "c"]),
        ("a\n", Layout("jsonl", is_assumed=True), ["a"]),
        ('\n {"en": "a"}\n', Layout("jsonl", ("en",), is_assumed=True), ["", "a"]),
        ("a\tb\n", Layout("tsv", ("1",), False, is_assumed=True), ["b"]),
        ("a, b\n", Layout("csv", ("en",), True, is_assumed=True), ["a, b"]),
    ],
)
def test_standard_input(
    content: str, layout: Layout, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first row or sentence shows the format; lines of text need no header."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))
    assert [item.value for item in read_items("-", layout)] == values


def test_a_stream_is_read_as_it_arrives() -> None:
    lines = ((f"stdin:{n}", raw) for n, raw in enumerate([b"a\tO", b"", b"b\tO", b"", b"c\tO"], 1))
    first = next(read_sentences(lines, Layout("conll", is_stream=True)))
    assert (first.value, next(lines)[0]) == (["a"], "stdin:3")
    rows = ((f"stdin:{n}", raw) for n, raw in enumerate([b"1\ta", b"2\tb"], 1))
    first = next(read_columns(rows, Layout("tsv", ("1",), is_stream=True)))
    assert (first.value, next(rows)[0]) == ("a", "stdin:2")


def count_batches(items: Iterator[Item], size: int, is_stream: bool) -> list[int]:
    return [len(batch) for batch in split_batches(items, size, is_stream)]


def test_batches_of_a_stream_have_what_arrived() -> None:
    items = [Item(str(number)) for number in range(5)]
    assert count_batches(iter(items), 2, False) == [2, 2, 1]
    sizes = count_batches(iter(items), 2, True)
    assert sum(sizes) == 5
    assert max(sizes) <= 2

    def fail() -> Iterator[Item]:
        yield items[0]
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        count_batches(fail(), 4, True)

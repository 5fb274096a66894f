"""Inputs of `predict` in all formats: fields, tables, sentences and streams."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.cli.inputs import (
    Item,
    Layout,
    find_format,
    format_conll,
    read_items,
    split_batches,
)
from tests.refusals import refuses


def read(folder: Path, name: str, content: str | bytes, **layout: Any) -> list[Item]:
    raw = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    (folder / name).write_bytes(raw)
    return list(read_items(str(folder / name), Layout(find_format(name), **layout)))


@pytest.mark.parametrize(
    ("name", "content", "layout", "values"),
    [
        ("a.txt", "\ufeffone\r\n\ntwo\u2028 x", {}, ["one", "", "two\u2028 x"]),
        ("a.txt", "one  two\n", {"pretokenized": True}, [["one", "two"]]),
        ("a.jsonl", '{"text": "one"}\n{"text": ["t", "wo"]}', {}, ["one", "t wo"]),
        ("a.jsonl", '{"id": 1, "x": "one"}\n', {"field": "x"}, ["one"]),
        ("a.jsonl", '{"words": ["a", "b c"]}\n', {"pretokenized": True}, [["a", "b c"]]),
        ("a.tsv", "id\tsource\n1\tone\n2\ttwo", {}, ["one", "two"]),
        ("a.tsv", "one\ntwo\n", {}, ["one", "two"]),
        ("a.tsv", "one\t1\ntwo\t2\n", {"field": "0"}, ["one", "two"]),
        ("a.csv", 'text,n\n"one, ""1""\nline",1\ntwo,2\n', {}, ['one, "1"\nline', "two"]),
        ("a.csv", "n,y\n1,one\n", {"field": "y"}, ["one"]),
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
        (None, "expected 2 columns, got 1"),
        ("b", ""),
    ]
    rows = read(tmp_path, "b.csv", b'text,n\n"a,1\nb,1\n\xff,1\nc,1\n')
    assert [row.value for row in rows] == [None, "b", None, "c"]
    assert rows[0].error.startswith("not valid CSV: a quoted cell")
    assert rows[2].error.startswith("not valid UTF-8")
    (text,) = read(tmp_path, "c.txt", b"on \xff")
    assert text.error == "not valid UTF-8 at byte 4; convert the file to UTF-8"


@refuses(
    (
        "a.tsv",
        "a\tb\n1\t2\n",
        {},
        r"a\.tsv:1: no field is named text or .*; name the text with --field .*: a, b",
    ),
    ("a.csv", "a,b\n1,2\n", {"field": "B"}, r"a\.csv:1: has no field 'B'; did you mean 'b'"),
    ("a.txt", "", {}, r"a\.txt: is empty; give one text per line"),
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
    added = format_conll(item, ["X", "Y"], None).splitlines()
    lines = CONLLU.splitlines()
    assert added == [*lines[:2], f"{lines[2]}\tX", f"{lines[3]}\tY", lines[4], ""][:5]
    replaced = format_conll(item, ["X", "Y"], 3)
    assert replaced == CONLLU.replace("PRON", "X").replace("AUX", "Y")


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

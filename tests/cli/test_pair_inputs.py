"""Pairs of texts and documents as inputs of `predict`: lines, columns, fields and options."""

from __future__ import annotations

import argparse
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from attention_zoo import tasks
from attention_zoo.cli.columns import read_columns
from attention_zoo.cli.input_options import read_data_options, read_inputs, split_input_options
from attention_zoo.cli.inputs import find_format, read_items
from attention_zoo.cli.items import Item, Layout
from attention_zoo.cli.text_kinds import TEXT_KINDS
from attention_zoo.tasks.inputs import Input, list_inputs, predict_rows
from attention_zoo.tasks.result import Result
from attention_zoo.tasks.streaming import predict_stream
from tests.cli.test_main import Capture, output, refused, run
from tests.refusals import refuses

PAIRS = TEXT_KINDS["text_pair"]
ONE, TWO = ("one", "1"), ("two", "2")


def read(folder: Path, name: str, content: str | bytes, **layout: Any) -> list[Item]:
    raw = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(raw)
    full_layout = Layout(find_format(name), kind=PAIRS, noun="pair", **layout)
    return list(read_items(str(folder / name), full_layout))


@pytest.mark.parametrize(
    ("name", "content", "layout", "values"),
    [
        ("a.txt", "one\t1\r\n\n \t \ntwo\t2", {}, [ONE, ("", ""), ("", ""), TWO]),
        ("a.txt", "\ufeff a\u2028b \t, \n", {}, [(" a\u2028b ", ", ")]),
        ("a.txt", "one\t\n", {}, [("one", "")]),
        ("a.tsv", "id\tpremise\thypothesis\tlabel\n7\tone\t1\tno\n7\ttwo\t2\tno\n", {}, [ONE, TWO]),
        ("a.tsv", "one\t1\ntwo\t2\n", {}, [ONE, TWO]),
        ("a.tsv", "1\tx\tone\n2\tx\ttwo\n", {"fields": ("2", "0")}, [ONE, TWO]),
        ("a.tsv", "a\tb\none\t1\n", {"header": True}, [ONE]),
        ("a.csv", 'second,first\n1,"one"\n"2",two\n', {}, [ONE, TWO]),
        ("a.csv", "q;n; c \none;x;1\n", {"delimiter": ";", "fields": ("q", "c")}, [ONE]),
        ("a.csv", "sentence1,question,answer\nx,one,1\n", {}, [ONE]),
        ("a.csv", 'question,answer\n"one\nline","1\t"\n', {}, [("one\nline", "1\t")]),
        ("a.csv", "one,1\n", {"header": False}, [ONE]),
        ("a.jsonl", '{"answer": "1", "question": "one"}\n{"sentence1": "two", "sentence2": "2"}\n',
         {}, [ONE, TWO]),
        ("a.jsonl", '{"q": ["one", "more"], "c": "1", "x": 3}\n', {"fields": ("q", "c")},
         [("one\nmore", "1")]),
        ("a.jsonl", '\n{"first": "one", "second": "1"}\n', {}, [("", ""), ONE]),
    ],
)  # fmt: skip
def test_values(tmp_path: Path, name: str, content: str, layout: Any, values: list[Any]) -> None:
    items = read(tmp_path, name, content, **layout)
    assert [item.value for item in items] == values
    assert not any(item.error for item in items)
    packed = gzip.compress(content.encode())
    assert [x.value for x in read(tmp_path, f"{name}.gz", packed, **layout)] == values


def test_errors_of_rows(tmp_path: Path) -> None:
    lines = read(tmp_path, "a.txt", b"one\t1\nalone\na\tb\tc\n\xff\t1\ntwo\t2\n")
    assert [line.value for line in lines] == [ONE, None, None, None, TWO]
    assert [line.location for line in lines] == [f"{tmp_path}/a.txt:{n}" for n in range(1, 6)]
    assert lines[1].error.startswith("expected 2 texts separated by tabs, got 1. Write one tab")
    assert lines[2].error.endswith("with --format tsv and --field NAME,NAME")
    assert lines[3].error.startswith("not valid UTF-8 at byte 1")
    rows = read(tmp_path, "a.tsv", "first\tsecond\tlabel\none\t1\tx\none\t1\n")
    assert [row.value for row in rows] == [ONE, None]
    assert rows[1].error == "expected 3 columns, as in the header, got 2; fix or remove the row"
    fields = read(
        tmp_path,
        "a.jsonl",
        '{"first": "a", "second": 1}\n{"first": "a"}\n{"a": "x", "b": "y"}\n{}\n',
    )
    assert [field.value for field in fields] == [None] * 4
    assert fields[0].error == "field 'second' is neither a text nor a list of texts"
    for field, names in zip(fields[1:], ("first", "a, b", "none"), strict=True):
        assert field.error.startswith(
            "no columns or fields are named first and second or sentence1"
        )
        assert field.error.endswith(f"; pass --field NAME,NAME (fields: {names})")


@refuses(
    ("a.tsv", "a\tb\tc\n1\t2\t3\n", {}, r"a\.tsv:1: no columns .*NAME,NAME .*: a, b, c\)"),
    ("a.tsv", "text\nb\n", {}, r"a\.tsv:1: no columns or fields are named .* \(fields: text\)$"),
    ("a.csv", "q,x\na,b\n", {"fields": ("q", "y")}, r"a\.csv:1: column 'y' is missing in the head"),
    ("a.csv", "q,x\na,b\n", {"fields": ("q", "y")}, "; name the columns of the texts with --field"),
    ("a.csv", "first,second,first\na,b,c\n", {}, "column 'first' is repeated in the header"),
    ("a.csv", "first;second\na;b\n", {}, r"a\.csv:1: has one column, but contains ';'; set data\."),
    ("a.tsv", "a\tb\n", {"fields": ("0", "2")}, r"a\.tsv:1: has no column 2, only 2"),
    ("a.tsv", "a\tb\n", {"fields": ("0", "b")}, "column '0' is missing in the header"),
    ("a.csv", "\n", {}, r"a\.csv: contains no row; give one pair per row"),
    ("a.txt", "", {}, r"a\.txt: is empty; give one pair per line"),
)  # fmt: skip
def test_unclear_files_are_refused(name: str, content: str, layout: Any, tmp_path: Path) -> None:
    read(tmp_path, name, content, **layout)


def make_layout(file_format: str, *fields: str, header: bool | None = True) -> Layout:
    return Layout(file_format, fields, header, is_assumed=True, kind=PAIRS)


@pytest.mark.parametrize(
    ("content", "layout", "values"),
    [
        ("one\t1\n", make_layout("tsv", "q", "c"), [ONE]),
        ("n\tq\tc\n0\tone\t1\n", make_layout("tsv", "q", "c"), [ONE]),
        ("c\tq\n1\tone\n", make_layout("tsv", "q", "c"), [ONE]),
        ("one\t1\n", make_layout("tsv", "1", "2", header=False), [ONE]),
        ("1\tone\n", make_layout("tsv", "1", "0", header=False), [ONE]),
        ("x\tone\t1\n", make_layout("tsv", "1", "2", header=False), [ONE]),
        ("one, a\t1, b\n", make_layout("csv", "0", "1", header=False), [("one, a", "1, b")]),
        ("one, a\t1, b\n", make_layout("csv", "q", "c"), [("one, a", "1, b")]),
        ("one,1\n", make_layout("csv", "0", "1", header=False), [ONE]),
        ("one\t1\n", make_layout("jsonl", "q", "c", header=None), [ONE]),
        ('{"c": "1", "q": "one"}\n', make_layout("jsonl", "q", "c", header=None), [ONE]),
    ],
)
def test_standard_input(
    content: str, layout: Layout, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line with one tab is a pair, unless it is a row or the header of the training format."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))
    assert [item.value for item in read_items("-", layout)] == values


def test_a_stream_is_read_as_it_arrives() -> None:
    rows = ((f"stdin:{n}", raw) for n, raw in enumerate([b"1\tone", b"2\ttwo"], 1))
    layout = Layout("tsv", ("1", "0"), is_stream=True, kind=PAIRS)
    assert next(read_columns(rows, layout)).value == ONE
    assert next(rows)[0] == "stdin:2"


# Options of the recipe and of the command line.


def read_with_options(
    name: str,
    content: str,
    data: dict[str, Any],
    *words: str,
    field: str | None = None,
    **more: Any,
) -> list[Any]:
    Path(name).write_text(content)
    kind = more.pop("kind", "text_pair")
    task = SimpleNamespace(name="x", inputs=[Input("x", kind)], takes_words=False)
    options = {"format": None, "pretokenized": False, "n_best": False, **more}
    arguments = argparse.Namespace(words=words, field=field, **options)
    given, _ = split_input_options(words)
    return [item.value for item in read_inputs(task, [name], arguments, data, given)]


TSV = {"corpus": "tsv", "first": "q", "second": "c", "header": True, "train": "a.train"}
ROWS = "q\tc\tfirst\tsecond\none\t1\ttwo\t2\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "data", "field", "words", "values"),
    [
        ("b.train", TSV, None, [], [ONE]),
        ("b.tsv", TSV, None, [], [ONE]),
        ("b.tsv", {**TSV, "corpus": "csv"}, None, [], [TWO]),
        ("b.tsv", {"corpus": "claims"}, None, [], [TWO]),
        ("b.tsv", TSV, "first, second", [], [TWO]),
        ("b.tsv", TSV, "2,1", ["data.header=false"], [("first", "c"), ("two", "1")]),
        ("b.tsv", {**TSV, "first": "2", "second": "1", "header": False}, None, [],
         [("first", "c"), ("two", "1")]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_the_recipe_and_the_field_option_name_two_columns(
    name: str, data: Any, field: str | None, words: list[str], values: list[Any]
) -> None:
    assert read_with_options(name, ROWS, data, *words, field=field) == values


@refuses(
    (
        "first",
        "^--field first: expected 2 names separated by commas, got 1; pass --field NAME,NAME",
    ),
    ("a,,", "^--field a,,: expected 2 names separated by commas, got 1"),
    ("a,b,c", "^--field a,b,c: expected 2 names separated by commas, got 3"),
    ("c, c", "^--field c, c: names a column twice; name 2 columns"),
    ("q,d", r"^b\.tsv:1: column 'd' is missing in the header"),
)
@pytest.mark.usefixtures("folder")
def test_field_options_are_checked(field: str) -> None:
    read_with_options("b.tsv", ROWS, {}, field=field)


@refuses(
    ("a.txt", {"pretokenized": True}, "^--pretokenized: task x takes texts, not words"),
    ("a.conll", {}, r"^a\.conll: format conll: task x takes texts, not words"),
    ("a.txt", {"field": "a,b"}, r"^--field a,b has no effect on a\.txt: format text has no named"),
)
@pytest.mark.usefixtures("folder")
def test_options_without_effect_are_refused(name: str, options: dict[str, Any]) -> None:
    read_with_options(name, "a\tb\n", {}, **options)


@pytest.mark.usefixtures("folder")
def test_names_of_a_recipe_are_texts() -> None:
    Path("recipe.yaml").write_text("data: {corpus: tsv, first: 01, second: 2, header: false}\n")
    data = read_data_options(Path("recipe.yaml"))
    assert (data["first"], data["second"]) == ("01", "2")


@pytest.mark.parametrize(("kind", "value"), [("document", ["A b.", "C."]), ("text", "A b. C.")])
@pytest.mark.usefixtures("folder")
def test_documents_are_texts_or_lists_of_sentences(kind: str, value: Any) -> None:
    rows = [{"review": ["A b.", "C."], "text": "x"}, {"review": "D.", "text": "y"}]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    data = {"corpus": "jsonl", "text": "review"}
    assert read_with_options("a.jsonl", content, data, kind=kind) == [value, "D."]
    assert read_with_options("a.jsonl", content, data, kind=kind, field="text") == ["x", "y"]
    table = "label\treview\nno\tD.\n"
    assert read_with_options("a.tsv", table, {**data, "corpus": "tsv"}, kind=kind) == ["D."]


# The command.


class CommonWords(tasks.Task):
    """Task that counts the words that two texts have in common."""

    name = "common_words"
    inputs: ClassVar[tuple[Input, ...]] = (Input("pairs", "text_pair"),)
    has_attention_option = True
    uses_beam_search = False
    used_search_options = ("n_best",)

    @classmethod
    def from_recipe(cls, recipe: Any, train: Any) -> Any: ...

    def make_batches(self, examples: Any, batch_size: int, seed: int) -> Any: ...

    def evaluate(self, examples: Any, **options: Any) -> Any: ...

    def find_unknown_characters(self, text: str) -> list[str]:
        return sorted({*text} & {"☃", "☂"})

    def check_sources(self, sources: Sequence[Any], locations: Any = None) -> None:
        for location, pair in zip(locations or sources, sources, strict=True):
            if "" in pair:
                raise ValueError(f"{location}: a text is empty")

    def predict(
        self, pairs: Any, *, attention: bool = True, on_error: str = "raise", **search: Any
    ) -> list[Result]:
        pairs = list_inputs(pairs, "pair")

        def prepare(rows: list[int]) -> None:
            self.check_sources([pairs[row] for row in rows], [f"source {row}" for row in rows])

        def predict(rows: list[int], _: None) -> Iterator[Result]:
            for first, second in (pairs[row] for row in rows):
                words = tuple(first.split()), tuple(second.split())
                count = len({*words[0]} & {*words[1]})
                other = Result(text="many", score=-2.0)
                yield Result(
                    text=str(count),
                    score=-float(count),
                    tokens=words[0],
                    source_tokens=words[1],
                    attention=np.equal.outer(*map(np.array, words)) * 1.0 if attention else None,
                    alternatives=(other,) if search or self.search.n_best > 1 else (),
                )

        return predict_rows(len(pairs), on_error, Result, prepare, predict)

    def write_report(self, results: Sequence[Any], path: str | Path) -> None:
        Path(path).write_text(" ".join(result.text for result in results))


@pytest.fixture
def run_folder(folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folder `run` of a task, trained on a TSV."""
    monkeypatch.setattr(tasks, "load", lambda *_: CommonWords())
    Path("run").mkdir()
    Path("run/recipe.yaml").write_text("data: {corpus: tsv, first: q, second: c, header: true}\n")


@pytest.mark.usefixtures("run_folder")
def test_one_output_line_per_pair(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "a b\tb a\n\nalone\na ☃\t☂ a\na\tb\n"
    Path("in.txt").write_text(content)
    code, out, err = run(capsys, "predict", "./run", "in.txt", "--html", "page.html")
    assert (code, out.split("\n")) == (0, ["2", "", "", "", "0", ""])
    assert err == "skipped 3 of 5 inputs; the first: in.txt:2: a text is empty\n"
    assert Path("page.html").read_text() == "2 0"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content.encode())))
    code, from_pipe, err = run(capsys, "predict", "./run", "--allow-unknown")
    assert (code, from_pipe.split("\n")) == (0, ["2", "", "", "1", "0", ""])
    assert err.startswith("skipped 2 of 5 inputs; the first: stdin:2: a text is empty")
    Path("in.csv").write_text("label,second,first\nx,b,a b\n")
    assert output(capsys, "predict", "./run", "in.csv", "--n-best", "search.n_best=2") == (
        "1\t-1.0000\t1\n1\t-2.0000\tmany\n"
    )


@pytest.mark.usefixtures("run_folder")
def test_invalid_pairs_are_refused(capsys: Capture) -> None:
    for line, message in (
        ("\t", "in.txt:2: a text is empty\n"),
        ("a\t", "in.txt:2: a text is empty\n"),
        ("a", "in.txt:2: expected 2 texts separated by tabs, got 1. Write one tab between two"),
        ("a\tb\tc", "in.txt:2: expected 2 texts separated by tabs, got 3. Write one tab betwe"),
        ("☂\ta ☃", "in.txt:2: unknown characters '☂', '☃'; remove them, or map them to the unk"),
    ):
        Path("in.txt").write_text(f"a\tb\n{line}\n")
        message_line = refused(capsys, "predict", "./run", "in.txt", "--strict")
        assert message_line.startswith(f"attention-zoo: error: {message}")


@pytest.mark.full
@pytest.mark.usefixtures("run_folder")
def test_alignments_are_plotted(capsys: Capture) -> None:
    Path("in.txt").write_text("a b\tb a\nc\tc\n")
    output(capsys, "predict", "./run", "in.txt", "--attention", "out.png")
    for name in ("out-1.png", "out-2.png"):
        assert Path(name).read_bytes().startswith(b"\x89PNG")


# Streams of pairs in Python.


def test_pairs_are_streamed() -> None:
    pairs = iter([("a b", "b"), ["c", "c"], ("d", "e")])
    results = CommonWords().predict_iter(pairs, chunk_size=2)
    assert [result.text for result in results] == ["1", "1", "0"]


@refuses(
    (
        ("a b", "c"),
        "predict_iter takes an iterable of pairs, got tuple; write predict_iter([pair])",
    ),
    (["a b", "c"], "predict_iter takes an iterable of pairs, got list; write predict_iter([pair])"),
    ("a b", "predict_iter takes an iterable of pairs, got str; write predict_iter([pair])"),
    literal=True,
)
def test_a_single_pair_is_refused(pair: Any) -> None:
    with pytest.raises(ValueError, match=r"^predict takes a list of pairs, got \w+; write predict"):
        CommonWords().predict(pair)
    predict_stream(CommonWords(), pair, 2, "skip", {})

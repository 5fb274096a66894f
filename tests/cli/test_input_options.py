"""Options of the recipe and of the command line that describe the inputs of `predict`."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attention_zoo.cli.input_options import read_data_options, read_inputs, split_input_options
from attention_zoo.data.images import labelled_images
from attention_zoo.tasks.inputs import Input
from tests.refusals import refuses

ROWS = "en\tfr\na\tb\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", sys.stdin)  # `read` replaces it


def read(name: str, content: str, data: dict[str, Any], *words: str, **options: Any) -> list[Any]:
    """Return the inputs that a tagger, or a captioner with kind="image", reads from a file."""
    Path(name).write_text(content)
    sys.stdin = SimpleNamespace(buffer=io.BytesIO(content.encode()))
    inputs = [Input("x", options.pop("kind", "text"))]
    task = SimpleNamespace(name="x", inputs=inputs, takes_words=True)
    given, words = (dict(split_input_options(words)[0]), words)
    defaults = {"format": None, "field": None, "pretokenized": False, "n_best": False}
    arguments = argparse.Namespace(words=words, **{**defaults, **options})
    files = [] if name == "-" else [name]
    return [item.value for item in read_inputs(task, files, arguments, data, given)]


CONLL = {"corpus": "conll", "words": 1, "tags": -1, "comment": "%", "conllu": None}
CONLL |= {"train": "eng.train", "validation": ["data/dev.IOB2.gz"], "test": "test.txt"}
TSV = {"corpus": "tsv", "source": "en", "target": "fr", "header": True}
CSV = {"corpus": "csv", "source": "1", "header": False, "delimiter": ";"}
JSONL = {"corpus": "jsonl", "source": "en"}


@pytest.mark.parametrize(
    ("name", "content", "data", "words", "values"),
    [
        *((name, "% x\na b O\n", CONLL, [], [["b"]]) for name in ("b.train", "a.iob2", "a.conll")),
        ("a.conll", "% x\n1 b O\n", CONLL, ["data.words=0", "data.comment=1"], [["%"]]),
        ("a.conll", "1 a O\n2-3 b O\n", CONLL, ["data.conllu=true"], [["a"]]),
        *(
            (name, "% x\na b .\n", CONLL, [], ["% x", "a b ."])
            for name in ("-", "a", "a.txt", "a.b")
        ),
        ("a.csv", ROWS, {**TSV, "train": ["a.csv"]}, [], ["a"]),
        ("a.txt", "a\n", {"corpus": "parallel", "train": "a.txt"}, [], ["a"]),
        ("a.dat", ROWS, TSV, [], ["a"]),
        ("a.tsv", ROWS, TSV, [], ["a"]),
        ("a.csv", "text\na; b\n", TSV, [], ["a; b"]),
        ("a.dat.gz", "x;y\nx;z\n", CSV, [], ["y", "z"]),
        ("a.csv", "en,1\na,z\n", CSV, ["data.delimiter=,", "data.header=true"], ["z"]),
        ("a.json", '{"en": "a"}\n', JSONL, [], ["a"]),
        ("a.txt", "a\n", {"corpus": "dates", "source": "en"}, [], ["a"]),
    ],
)
def test_format_and_options_of_the_run(
    name: str, content: str, data: Any, words: list[str], values: list[Any]
) -> None:
    assert read(name, content, data, *words) == values


@pytest.mark.parametrize("name", ["-", "plain", "news.en", "in.txt"])
@pytest.mark.parametrize(
    ("content", "data", "values"),
    [
        ("hello\nworld\n", TSV, ["hello", "world"]),
        ("\nen\n", JSONL, ["", "en"]),
        ("hello, you\n", {**CSV, "delimiter": ",", "header": True}, ["hello, you"]),
        ("hello\n", {**TSV, "source": "1", "header": False}, ["hello"]),
        (ROWS, TSV, ["a"]),
        ("x;y\n", CSV, ["y"]),
    ],
)
def test_lines_of_text_need_no_format(name: str, content: str, data: Any, values: Any) -> None:
    """A file whose suffix shows no format has that of the training data, or is text."""
    assert read(name, content, {**data, "train": "fra.txt"}) == values


@pytest.mark.parametrize(
    ("name", "data"), [("-", CONLL), ("a", CONLL), ("a.txt", CONLL), ("-", {})]
)
def test_pretokenized_lines(name: str, data: Any) -> None:
    assert read(name, "\u6a23 , a\n", data, pretokenized=True) == [["\u6a23", ",", "a"]]


CAPTIONS = {"corpus": "captions", "image": "file", "images": "x"}


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        ("a.jsonl", '{"image": "a", "file": "b"}\n', ["a"]),
        ("a.csv", "image,file\na,b\n", ["b"]),
        ("a.txt", "image,file\na,b\n", ["b"]),
        ("a.npz", "", [0, 1]),
    ],
)
def test_the_recipe_names_the_image_column_of_tables_only(
    name: str, content: str, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_pixels(name: str, field: str | None) -> range:
        assert field is None
        return range(2)

    monkeypatch.setattr(labelled_images, "read_npz_pixels", read_pixels)
    assert read(name, content, CAPTIONS, kind="image") == values


@refuses(
    ("en\tfr\n", {"field": "enn"}, "^stdin:1: column 'enn' is missing .* did you mean 'en'"),
    ("a\tb\n", {"field": "1"}, "^stdin:1: column '1' is missing .* set data.header=false"),
    ("english\tfr\n", {"words": ["data.header=true"]}, "^stdin:1: column 'en' is missing"),
    ("english\tfrench\na\tb\n", {}, "^stdin:1: column 'en' is missing .* --format text$"),
    ("\nen\tfr\na\tb\n", {}, "^stdin:1: column 'en' is missing"),
    ("a\n", {"words": ["data.words=1"]}, "^data.words: has no effect on -, which is read as tsv"),
)
def test_options_and_headers_of_piped_tables_are_checked(
    content: str, options: dict[str, Any]
) -> None:
    read("-", content, TSV, *options.pop("words", []), **options)


@refuses(
    ("a.json", {"format": None}, r"^a\.json: predict cannot read a \.json file; .*--format jsonl"),
    ("a.conll", {"n_best": True}, "^--n-best: words of a CoNLL file get one tag each"),
    ("a.conll", {"words": ["search.n_best=2"]}, "^search.n_best=2: words of a CoNLL file"),
    ("a.conll", {"pretokenized": True}, r"^--pretokenized: the words of a\.conll are those of its"),
    ("a.conll", {"field": "1"}, r"^--field 1 has no effect on a\.conll: .*; set data\.words"),
    ("a.txt", {"field": "x"}, r"^--field x has no effect on a\.txt: .* --format"),
    ("a.txt", {"words": ["data.words=1"]}, r"^data\.words: has no effect on a\.txt"),
    ("a.tsv", {"words": ["data.delimiter=;"]}, r"^data\.delimiter: has no effect on a\.tsv"),
    ("a.csv", {"words": ["data.delimiter=;;"]}, r"^data\.delimiter must be one character"),
    ("a.txt", {"words": ["data.header=1"]}, "^data.header=1: expected true or false"),
    (
        "a.png",
        {"kind": "image", "pretokenized": True},
        "^--pretokenized: task x takes images, not words; remove",
    ),
    (
        "a.png",
        {"kind": "image", "words": ["data.words=1"]},
        r"^data\.words: has no effect on lists",
    ),
    ("a.png", {"kind": "image", "words": ["data.header=false"]}, r"^data\.header: .* on a\.png"),
    ("a.jsonl", {"kind": "image", "words": ["data.delimiter=;"]}, r"^data\.delimiter: .* as jsonl"),
    *((name, {"kind": "image", "field": "x"}, "^--field x has no") for name in ("a.png", "a.txt")),
    (
        "a.conll",
        {"kind": "image"},
        r"^a\.conll: a list of images cannot have format conll; use --format csv, .* or tsv",
    ),
)
def test_options_without_effect_are_refused(name: str, options: dict[str, Any]) -> None:
    read(name, "a\n", {}, *options.pop("words", []), **options)


@pytest.mark.parametrize(
    ("text", "value"),
    [("#", "#"), ("|", "|"), (";", ";"), ("%", "%"), ("'# '", "# "), ("null", None)],
)
def test_special_characters_of_yaml(text: str, value: str) -> None:
    overrides = [f"data.comment={text}", "search.n_best=2", "data.max_length=3"]
    assert split_input_options(overrides) == ({"comment": value}, overrides[1:])


@refuses(
    (b"task: [", r"^run/recipe\.yaml:1: not valid YAML"),
    (b"\xff", r"^run/recipe\.yaml: is not UTF-8 text"),
    (b"- a\n", r"^run/recipe\.yaml: expected a YAML mapping"),
)
def test_damaged_recipes(content: bytes) -> None:
    Path("run").mkdir()
    Path("run/recipe.yaml").write_bytes(content)
    read_data_options(Path("run", "recipe.yaml"))


def test_texts_of_a_recipe_are_kept() -> None:
    Path("run").mkdir()
    assert read_data_options(Path("run", "recipe.yaml")) == {}
    Path("run/recipe.yaml").write_text("data: {corpus: tsv, source: 01, header: false}\n")
    assert read_data_options(Path("run", "recipe.yaml")) == {
        "corpus": "tsv",
        "source": "01",
        "header": False,
    }
    Path("run/recipe.yaml").write_text("data:\n")
    assert read_data_options(Path("run", "recipe.yaml")) == {}

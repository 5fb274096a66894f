"""Readers of labelled texts: values, locations and messages of every format."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from attention_zoo.data import (
    LabelledTexts,
    TextFields,
    join_sentences,
    read_labelled_csv,
    read_labelled_jsonl,
    read_labelled_tsv,
    read_text_folders,
    read_text_tfds,
)
from attention_zoo.data.text.sentences import split_sentences
from tests.data.text.test_tfds import make_mock_dataset
from tests.refusals import refuses

FIELDS = TextFields()
MULTI = TextFields(multi_label=True)
READERS: dict[str, Callable[..., LabelledTexts]] = {
    "csv": read_labelled_csv,
    "tsv": read_labelled_tsv,
    "jsonl": read_labelled_jsonl,
}


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[..., Path]:
    def write_file(content: str | bytes, name: str = "a.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def test_csv_has_quoted_texts_of_several_lines(write_file: Any) -> None:
    path = write_file('id,text,label\n1,"Good, ""very"".\nBuy it.", pos \n\n2,Bad.,neg\n')
    texts = read_labelled_csv(path, FIELDS)
    assert [*texts] == [('Good, "very".\nBuy it.', ("pos",)), ("Bad.", ("neg",))]
    assert texts.locations() == [f"{path}:2", f"{path}:5"]
    assert texts.known_classes == ("neg", "pos")
    assert (texts.origin, texts.skipped, texts.unlabelled) == (str(path), 0, 0)
    assert texts.take([1]).locations() == [f"{path}:5"]


def test_tsv_has_no_quotes(write_file: Any) -> None:
    paths = [write_file('text\tlabel\n"Good\t1\n'), write_file("label\ttext\r\n0\tBad\r\n", "b")]
    texts = read_labelled_tsv(paths, FIELDS)
    assert [*texts] == [('"Good', ("1",)), ("Bad", ("0",))]
    assert texts.locations() == [f"{paths[0]}:2", f"{paths[1]}:2"]
    numbered = read_labelled_tsv(paths[0], TextFields("0", "1"), header=False)
    assert numbered.labels == [("label",), ("1",)]


def test_jsonl_has_sentences_and_whole_numbers(write_file: Any) -> None:
    lines = '{"text": ["One\\nline.", "Two."], "label": 3}\n{"text": "A.\\nB.", "label": "-1"}\n'
    texts = read_labelled_jsonl(write_file(gzip.compress(lines.encode())), FIELDS)
    assert [*texts] == [("One line.\nTwo.", ("3",)), ("A.\nB.", ("-1",))]
    assert split_sentences(texts.texts[0], "lines") == ["One line.", "Two."]


def test_join_sentences_keeps_their_number() -> None:
    sentences = ["a\u2028b", "c\r\nd", "e"]
    assert join_sentences(sentences) == "a b\nc d\ne"
    assert len(split_sentences(join_sentences(sentences), "lines")) == 3


def test_multi_label_texts_have_any_number_of_classes(write_file: Any) -> None:
    rows = [("a", ("x", "y")), ("b", ()), ("c", ("x",))]
    path = write_file("text,label\na,x| y|x\nb,\nc,x\n")
    assert [*read_labelled_csv(path, MULTI)] == rows
    spaces = TextFields(multi_label=True, label_separator=" ")
    path = write_file("text\tlabel\na\tx y\nb\t  \nc\tx\n")
    assert [*read_labelled_tsv(path, spaces)] == rows
    path = write_file(
        '{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": []}\n'
        '{"text": "c", "label": "x"}\n'
    )
    assert [*read_labelled_jsonl(path, TextFields(multi_label=True, label_separator=None))] == rows
    path = write_file('{"text": "a", "label": "x|y"}\n')
    unsplit = read_labelled_jsonl(path, TextFields(multi_label=True, label_separator=None))
    assert unsplit.labels == [("x|y",)]
    assert read_labelled_jsonl(path, FIELDS).labels == [("x|y",)]


TABLE = "text,label\ngood,pos\n"
JSON = '{"text": "good", "label": "pos"}\n'


@refuses(
    ("csv", "text,lable\na,b\n", r"a\.csv:1: column 'label' is missing .*did you mean 'lable'.*\)"),
    ("csv", "text,lable\na,b\n", r"; change data\.label, or for a file without a header, set"),
    ("csv", f"{TABLE}a\n", r"a\.csv:3: expected 2 columns separated by ',', as in the header, got"),
    ("csv", f'{TABLE}"a,b\nc,d\n', r"a\.csv:3: not valid CSV: a quoted cell has no closing quote"),
    ("tsv", b"text\tlabel\ncaf\xe9\tx\n", r"a\.csv:2: not valid UTF-8"),
    ("tsv", "text\tlabel\na\tb\tc\n", r"a\.csv:2: expected 2 tab-separated columns, .* got 3"),
    ("csv", f"{TABLE} ,pos\n", r"a\.csv:3: the field 'text' is empty"),
    ("csv", f"{TABLE}bad,\n", r"a\.csv:3: the field 'label' is empty; fix it, or skip bad rows"),
    (
        "csv",
        f"{TABLE}bad,3.5\n",
        r"a\.csv:3: field 'label' is a decimal number, 3\.5, not a class; write names or whole"
        r" numbers, or use task matching with data\.target=regression",
    ),
    ("csv", "text,label\n", r"a\.csv: no texts \(bad rows skipped: 0\)"),
    ("jsonl", JSON + '{"text": "a"}', r"a\.csv:2: has no field 'label' \(fields: text\)"),
    ("jsonl", JSON + "[]", r"a\.csv:2: not a JSON object"),
    ("jsonl", '{"text": 7, "label": 1}', r":1: field 'text' must be a string or a list of strings"),
    ("jsonl", '{"text": [], "label": 1}', r":1: the field 'text' is empty"),
    ("jsonl", '{"text": ["", " "], "label": 1}', r":1: the field 'text' is empty"),
    ("jsonl", '{"text": "a", "label": 3.0}', r":1: field 'label' is a decimal number, 3\.0, not"),
    ("jsonl", '{"text": "a", "label": NaN}', r":1: field 'label' is a decimal number, nan, not a"),
    ("jsonl", '{"text": "a", "label": true}', r":1: field 'label' must be a name, .*, got True"),
    ("jsonl", '{"text": "a", "label": null}', r":1: field 'label' must be a name, .*, got None"),
    ("jsonl", '{"text": "a", "label": "\\ud800"}', r":1: field 'label' is not valid Unicode"),
    ("jsonl", '{"text": "a", "label": ["x", "y"]}', r":1: .* one class, got 2; .*multi_label=true"),
    ("jsonl", '{"text": "a", "label": []}', r":1: field 'label' must have one class, got 0"),
)
def test_bad_rows_raise(kind: str, content: str | bytes, write_file: Any) -> None:
    READERS[kind](write_file(content), FIELDS)


@refuses(
    ("csv", "text,label\na,x||y\n", r":2: the field 'label' is empty"),
    ("jsonl", '{"text": "a", "label": [["x"]]}', r":1: field 'label' must be a name, a string or"),
    ("jsonl", '{"text": "a", "label": [1.5]}', r":1: field 'label' is a decimal number, 1\.5, not"),
)
def test_bad_rows_of_multi_label_texts_raise(kind: str, content: str, write_file: Any) -> None:
    READERS[kind](write_file(content), MULTI)


def test_bad_rows_are_skipped(write_file: Any) -> None:
    path = write_file(TABLE + "bad\n,neg\nnot good,neg\n")
    texts = read_labelled_csv(path, FIELDS, skip_bad=2)
    assert (texts.texts, texts.lines, texts.skipped) == (["good", "not good"], [2, 5], 2)
    with pytest.raises(ValueError, match=r"a\.csv:4: .*data\.skip_bad=2 or more"):
        read_labelled_csv(path, FIELDS, skip_bad=1)


@refuses(
    (("a", "a"), {}, r"^data\.text and data\.label are both 'a'; name two columns or fields"),
    (("a", "b"), {"label_separator": ""}, r"^data\.label_separator is empty"),
)
def test_invalid_fields_raise(names: tuple[str, str], options: dict[str, Any]) -> None:
    TextFields(*names, **options)


def test_same_column_by_two_numbers_raises(write_file: Any) -> None:
    with pytest.raises(ValueError, match=r":1: data\.text and data\.label are the same column"):
        read_labelled_csv(write_file("a,b\n"), TextFields("1", "01"), header=False)


def test_folders_are_classes(write_file: Any, tmp_path: Path) -> None:
    write_file("\ufeffBad\nfilm.\n\n", "d/neg/2.txt")
    write_file("Worse.", "d/neg/10.txt")
    write_file("Good.", "d/pos/x/1.TXT")
    write_file("ignored", "d/pos/notes.md")
    write_file("ignored", "d/.git/1.txt")
    texts = read_text_folders(tmp_path / "d")
    assert [*texts] == [("Worse.", ("neg",)), ("Bad\nfilm.", ("neg",)), ("Good.", ("pos",))]
    assert texts.locations()[1] == f"{tmp_path}/d/neg/2.txt:1"
    assert texts.origin == f"{tmp_path}/d"
    write_file(" \n", "d/pos/0.txt")
    with pytest.raises(ValueError, match=r"d/pos/0\.txt:1: the field 'text' is empty"):
        read_text_folders(tmp_path / "d")
    assert read_text_folders(tmp_path / "d", skip_bad=1).texts == texts.texts


@refuses(
    ({"1.txt": b"a", "x/1.txt": b"b"}, r"d/1\.txt: is in no class folder; move it into one"),
    ({"x/1.txt": b"a\ncaf\xe9"}, r"d/x/1\.txt:2: not valid UTF-8 at byte 4"),
    ({"x/1.txt": b"a", "y/1.md": b"b"}, r"d/y: contains no \.txt file; remove the folder"),
    ({"x/y/1.txt": b"a", "x/z/1.txt": b"b"}, r"all texts are in subfolders of 'x'; give the path"),
    ({"a": b""}, r"d: no texts"),
    ({}, r"d: No such file or directory"),
)
def test_bad_folders_raise(files: dict[str, bytes], write_file: Any, tmp_path: Path) -> None:
    for name, content in files.items():
        write_file(content, f"d/{name}")
    read_text_folders(tmp_path / "d")


TFDS_SETS = {
    "ag_news_subset": ("description", ("World", "Sci/Tech")),
    "imdb_reviews": ("text", ("neg", "pos")),
    "glue/sst2": ("sentence", ("negative", "positive")),
}


@pytest.mark.parametrize("name", TFDS_SETS)
def test_tfds_drops_rows_that_are_not_labelled(tfds: Any, tmp_path: Path, name: str) -> None:
    text, classes = TFDS_SETS[name]
    last = 3 if name == "ag_news_subset" else 1
    columns = {text: ["a", "b", "c\n"], "label": [0, -1, last]}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(columns)):
        texts = read_text_tfds(name, "test", TextFields(text), tmp_path)
    assert [*texts] == [("a", classes[:1]), ("c\n", classes[1:])]
    assert (texts.unlabelled, texts.skipped) == (1, 0)
    assert texts.origin == f"{name} test (unlabelled rows dropped: 1)"
    assert texts.locations() == [f"{name} test:1", f"{name} test:3"]


@refuses(
    ({"sentence": ["a", "b"], "label": [-1, -1]}, "sentence", "test: no row is labelled .*-1: 2"),
    ({"sentence": ["a", ""], "label": [0, 1]}, "sentence", "test: row 2: the field 'sentence' is"),
    ({"sentence": ["a"], "label": [0]}, "sentense", "has no feature 'sentense'; did you mean 's"),
    ({"idx": [1], "label": [0]}, "idx", "row 1: field 'idx' must be a string or a list of strin"),
)
def test_bad_tfds_raises(columns: Any, text: str, tfds: Any, tmp_path: Path) -> None:
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(columns)):
        read_text_tfds("glue/sst2", "test", TextFields(text), tmp_path)


def test_tfds_labels_may_be_sequences_or_texts(tfds: Any, tmp_path: Path) -> None:
    columns = {"tokens": tf.ragged.constant([["a", "b"], ["c"]])}
    columns["ner"] = tf.ragged.constant([[0, 3], []], dtype=tf.int64)
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(columns)):
        fields = TextFields("tokens", "ner", multi_label=True)
        texts = read_text_tfds("conll2003", "train", fields, tmp_path)
    assert [*texts] == [("a\nb", ("O", "B-ORG")), ("c", ())]
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset({"pt": ["x"], "en": ["y"]})):
        fields = TextFields("pt", "en")
        texts = read_text_tfds("ted_hrlr_translate/pt_to_en", "train", fields, tmp_path)
    assert [*texts] == [("x", ("y",))]

"""Readers of labelled pairs: classes, numbers and rankings of every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attention_zoo.data import (
    LabelledPairs,
    PairFields,
    read_labelled_csv,
    read_labelled_jsonl,
    read_labelled_tsv,
    read_text_tfds,
)
from tests.data.text.test_tfds import make_mock_dataset
from tests.refusals import refuses

CLASSES = PairFields("a", "b")
NUMBERS = PairFields("a", "b", target="regression")
RANKING = PairFields("a", "b", group="id", target="ranking")


def write(folder: Path, content: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_classes(tmp_path: Path) -> None:
    path = write(tmp_path, 'b,x,label,a\n"A man\nsleeps.",,1,A man.\ny,,no,x\n')
    pairs = read_labelled_csv(path, CLASSES)
    assert [*pairs] == [("A man.", "A man\nsleeps.", "1", ""), ("x", "y", "no", "")]
    assert (pairs.scores, pairs.groups, pairs.known_classes) == (None, None, ("1", "no"))
    assert pairs.locations() == [f"{path}:2", f"{path}:4"]
    path = write(tmp_path, '{"a": ["x", "y"], "b": "z", "label": 0}\n')
    assert [*read_labelled_jsonl(path, CLASSES)] == [("x\ny", "z", "0", "")]


def test_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "a\tb\tlabel\nx\ty\t 3.5\nz\ty\t-1\nx\tx\t1e-3\n")
    pairs = read_labelled_tsv(path, NUMBERS)
    assert (pairs.scores, pairs.labels, pairs.groups) == ([3.5, -1.0, 0.001], None, None)
    assert pairs.known_classes == ()
    assert [*pairs.take([2])] == [("x", "x", 0.001, "")]
    path = write(tmp_path, '{"a": "x", "b": "y", "label": 5}\n{"a": "x", "b": "y", "label": 0.25}')
    assert read_labelled_jsonl(path, NUMBERS).scores == [5.0, 0.25]


RANKED = "id,a,b,label\n1.1,Who?,x,0\n2,Where?,y,1\n1.1,Who?,z,1\n"


def test_rankings(tmp_path: Path) -> None:
    pairs = read_labelled_csv(write(tmp_path, RANKED), RANKING)
    assert pairs.groups == ["1.1", "2", "1.1"]
    assert (pairs.scores, pairs.labels) == ([0.0, 1.0, 1.0], None)
    for group in (None, "", "a"):
        by_text = PairFields("a", "b", group=group, target="ranking")
        assert read_labelled_csv(tmp_path / "a.csv", by_text).groups == ["Who?", "Where?", "Who?"]


def test_groups_without_a_relevant_candidate(tmp_path: Path) -> None:
    path = write(tmp_path, RANKED + "3,When?,x,0\nbad\n4,How?,x,0\n3,When?,y,0\n")
    message = r"a\.csv:5: group '3' has no relevant candidate \(3 of 6 pairs are in such groups\)"
    with pytest.raises(ValueError, match=message):
        read_labelled_csv(path, RANKING, skip_bad=9)
    fields = PairFields("a", "b", group="id", target="ranking", drop_unanswered=True)
    pairs = read_labelled_csv(path, fields, skip_bad=1)
    assert (pairs.groups, pairs.lines, pairs.skipped) == (["1.1", "2", "1.1"], [2, 3, 4], 4)
    path = write(tmp_path, "id,a,b,label\n1,Who?,x,0\n")
    with pytest.raises(ValueError, match=r"a\.csv: no candidate is relevant; label relevant ones"):
        read_labelled_csv(path, fields)


@refuses(
    (CLASSES, " ,y,1", r"a\.csv:2: the field 'a' is empty"),
    (CLASSES, "x,,1", r"a\.csv:2: the field 'b' is empty"),
    (CLASSES, "x,y,", r"a\.csv:2: the field 'label' is empty"),
    (CLASSES, "x,y", r"a\.csv:2: expected 3 columns separated by ',', as in the header, got 2"),
    (CLASSES, "x,y,3.5", r":2: field 'label' is a decimal number, 3\.5, .*data\.target=regression"),
    (NUMBERS, "x,y,many", r":2: field 'label' must be a number such as 3\.5, got 'many'"),
    (NUMBERS, "x,y,", r":2: field 'label' must be a number such as 3\.5, got ''"),
    (NUMBERS, "x,y,nan", r":2: field 'label' must be a finite number, got nan"),
    (NUMBERS, "x,y,-inf", r":2: field 'label' must be a finite number, got -inf"),
    (PairFields("a", "b", target="ranking"), "x,y,2", r":2: .* must be 1 for a relevant .* got 2"),
    (PairFields("a", "b", "c"), "x,y,1", r":1: column 'c' is missing .*; change data\.label"),
)
def test_bad_rows_raise(fields: PairFields, row: str, tmp_path: Path) -> None:
    read_labelled_csv(write(tmp_path, f"a,b,label\n{row}\n"), fields)


@refuses(
    ('"label": NaN', r":1: field 'label' must be a finite number, got nan"),
    ('"label": true', r":1: field 'label' must be a number such as 3\.5, got True"),
    ('"label": [1]', r":1: field 'label' must be a number such as 3\.5, got \[1\]"),
    (f'"label": 1{"0" * 400}', r":1: field 'label' must be a number such as 3\.5, got 1000"),
    ('"lable": 1', r":1: has no field 'label'; did you mean 'lable'"),
)
def test_bad_json_raises(label: str, tmp_path: Path) -> None:
    path = write(tmp_path, f'{{"a": "x", "b": "y", {label}}}\n')
    read_labelled_jsonl(path, NUMBERS)


def test_empty_group_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.csv:2: the field 'id' is empty"):
        read_labelled_csv(write(tmp_path, "id,a,b,label\n,x,y,1\n"), RANKING)


@refuses(
    ({"second": "a"}, r"^data\.first and data\.second are both 'a'; name two columns or fields"),
    ({"label": "b"}, r"^data\.second and data\.label are both 'b'"),
    (
        {"target": "rank"},
        r"^data\.target must be one of classification, regression, ranking, got 'rank'; did",
    ),
    ({"group": "id"}, r"^data\.group=id needs data\.target=ranking, got class"),
    (
        {"drop_unanswered": True, "target": "regression"},
        r"^data\.drop_unanswered=True needs .* regression",
    ),
    ({"group": "label", "target": "ranking"}, r"^data\.label and data\.group are both 'label'"),
)
def test_invalid_fields_raise(options: dict[str, Any]) -> None:
    PairFields(**{"first": "a", "second": "b"} | options)


@refuses(
    ({"labels": ["x"], "scores": [1.0]}, r"here: exactly one of .* must be given, got both\.$"),
    ({"labels": None, "scores": None}, r"here: exactly one of .* must be given, got neither\.$"),
    ({"labels": None, "scores": [1.0, 2.0]}, r"here: expected one of each per example, got 1 fir"),
)
def test_inconsistent_columns_raise(columns: dict[str, Any]) -> None:
    LabelledPairs(["a"], ["b"], groups=None, origin="here", **columns)


def test_tfds_classes(tfds: Any, tmp_path: Path) -> None:
    rows = {"premise": ["a", "b"], "hypothesis": ["c", "d"], "label": [-1, 2]}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(rows)):
        pairs = read_text_tfds("snli", "test", PairFields("premise", "hypothesis"), tmp_path)
    assert [*pairs] == [("b", "d", "contradiction", "")]
    assert (pairs.unlabelled, pairs.locations()) == (1, ["snli test:2"])
    assert pairs.origin == "snli test (unlabelled rows dropped: 1)"
    rows = {"sentence1": ["a"], "sentence2": ["c"], "label": [1]}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(rows)):
        fields = PairFields("sentence1", "sentence2")
        assert read_text_tfds("glue/mrpc", "test", fields, tmp_path).labels == ["equivalent"]


def test_tfds_numbers(tfds: Any, tmp_path: Path) -> None:
    fields = PairFields("sentence1", "sentence2", target="regression")
    rows: dict[str, list[Any]] = {"sentence1": ["a", "b"], "sentence2": ["c", "d"]}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset({**rows, "label": [2.5, -1.0]})):
        pairs = read_text_tfds("glue/stsb", "test", fields, tmp_path)
    assert (pairs.scores, pairs.unlabelled) == ([2.5, -1.0], 0)
    assert pairs.origin == "glue/stsb test"
    unlabelled = make_mock_dataset({**rows, "label": [-1.0, -1.0]})
    with (
        tfds.testing.mock_data(as_dataset_fn=unlabelled),
        pytest.raises(ValueError, match=r"glue/stsb test: no row is labelled \(all are -1\)"),
    ):
        read_text_tfds("glue/stsb", "test", fields, tmp_path)


def test_tfds_rankings(tfds: Any, tmp_path: Path) -> None:
    rows: dict[str, list[Any]] = {"sentence1": ["a"] * 3, "sentence2": ["x", "y", "z"]}
    ids = {"label": [0.0, 1.0, 1.0], "idx": [7, 7, 8]}
    fields = PairFields("sentence1", "sentence2", group="idx", target="ranking")
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset({**rows, **ids})):
        pairs = read_text_tfds("glue/stsb", "test", fields, tmp_path)
    assert (pairs.scores, pairs.groups) == ([0.0, 1.0, 1.0], ["7", "7", "8"])

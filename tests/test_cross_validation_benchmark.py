"""The benchmark scripts of cross-validation and linear baselines: folds, intervals and metrics."""

from __future__ import annotations

import gzip
import importlib
import json
import math
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.tasks.classification.corpora import CsvTexts, JsonlTexts
from attention_zoo.tasks.matching.corpora import TsvPairs

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def scripts() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module


@pytest.fixture(scope="module")
def script(scripts: Any) -> Any:
    return scripts("cross_validation")


def test_rows_of_csv_files_are_split_with_their_bytes(script: Any, tmp_path: Path) -> None:
    first, second, folds = tmp_path / "a.csv", tmp_path / "b.csv.gz", tmp_path / "folds"
    folds.mkdir()
    first.write_bytes(b'label,text\r\nx,"one\r\n""1"""\r\ny,two\r\nx,three\r\ny,two')
    second.write_bytes(gzip.compress(b"text,label\nfour,x\nfive,y\n"))
    data = CsvTexts(train=[str(first), str(second)])
    paths, _ = script.write_folds(data, 3, folds)
    contents = [[Path(path).read_bytes() for path in fold] for fold in paths]
    head = b"label,text\r\n"
    assert contents == [
        [head + b'x,"one\r\n""1"""\r\n', b"text,label\nfour,x\n"],
        [head + b"y,two\r\ny,two\n", b"text,label\nfive,y\n"],
        [head + b"x,three\r\n"],
    ]


def test_each_row_is_in_one_fold_and_equal_texts_are_together(script: Any, tmp_path: Path) -> None:
    texts = [f"text {n % 7}" for n in range(20)]
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps({"text": t, "label": "a"}) + "\n" for t in texts))
    paths, digest = script.write_folds(JsonlTexts(train=str(file)), 4, tmp_path)
    folds = [[*JsonlTexts(train=fold).read("train").texts] for fold in paths]
    assert sorted(text for fold in folds for text in fold) == sorted(texts)
    assert sum(len(set(fold)) for fold in folds) == 7
    assert digest != script.write_folds(JsonlTexts(train=str(file)), 3, tmp_path)[1]


def test_candidates_of_a_group_are_in_one_fold(script: Any, tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    rows = [f"q{n // 3}\tanswer {n}\t{int(n % 3 == 0)}" for n in range(15)]
    file.write_text("\n".join(["q\ta\tlabel", *rows]))
    options: dict[str, Any] = {"first": "q", "second": "a", "target": "ranking"}
    paths, _ = script.write_folds(TsvPairs(train=str(file), **options), 3, tmp_path)
    groups = [set(TsvPairs(train=fold, **options).read("train").groups or ()) for fold in paths]
    assert groups == [{"q0", "q3"}, {"q1", "q4"}, {"q2"}]


def test_paired_interval(script: Any) -> None:
    mean, low, high = script.paired_interval([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert mean == 2.0
    assert (low, high) == pytest.approx((2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)))
    with pytest.raises(ValueError, match="2 and 1 values"):
        script.paired_interval([1.0, 2.0], [1.0])


def test_results_are_compared_by_fold_over_seeds(script: Any, tmp_path: Path) -> None:
    for name, offset in (("a", 0.0), ("b", 1.0)):
        values = {(1, 1): 80.0, (1, 2): 84.0, (2, 1): 82.0, (2, 2): 90.0 + 2 * offset}
        runs = [
            {"seed": seed, "fold": fold, "metrics": {"accuracy": value + offset}}
            for (seed, fold), value in values.items()
        ]
        summary = script.summarize(runs)
        assert summary["accuracy"]["mean_by_seed"]["1"] == 82.0 + offset
        result = {"recipe": name, "folds_sha256": "0", "seeds": [1, 2]}
        result["protocol"] = script.PROTOCOL
        result |= {"summary": summary, "runs": runs}
        (tmp_path / name).write_text(json.dumps(result))
    text = script.compare(tmp_path / "a", tmp_path / "b", None)
    assert text == "b - a: accuracy +1.500, 95 % interval -4.853 to +7.853"
    (tmp_path / "b").write_text(json.dumps({**result, "folds_sha256": "1"}))
    with pytest.raises(ValueError, match="different folds"):
        script.compare(tmp_path / "a", tmp_path / "b", None)
    with pytest.raises(ValueError, match="unknown metric 'f1'; known: accuracy"):
        script.compare(tmp_path / "a", tmp_path / "a", "f1")
    del result["protocol"]
    (tmp_path / "b").write_text(json.dumps(result))
    with pytest.raises(ValueError, match="must both be results of the protocol"):
        script.compare(tmp_path / "a", tmp_path / "b", None)


def test_each_run_is_trained_on_all_other_folds(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    monkeypatch.setattr(script, "run_fold", lambda _, overrides: {"overrides": overrides})
    options = Namespace(recipe="a.yaml", overrides=[], seeds=[3])
    runs = script.run_folds(options, [["a", "b"], ["c"], ["d"]], tmp_path, steps=70)
    found = [dict(one.split("=", 1) for one in run["metrics"]["overrides"]) for run in runs]
    assert [json.loads(run["data.train"]) for run in found] == [
        ["c", "d"],
        ["a", "b", "d"],
        ["a", "b", "c"],
    ]
    assert [json.loads(run["data.test"]) for run in found] == [["a", "b"], ["c"], ["d"]]
    assert {(run["seed"], run["training.evaluate_every"]) for run in found} == {("3", "70")}


def test_a_linear_baseline_has_no_seeds(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compared with the mean over the seeds of each fold."""

    def compute_rows(python: str, recipe: Any) -> list[dict[str, Any]]:
        texts = {name: set(recipe.data.read(name).texts) for name in ("train", "test")}
        assert not texts["train"] & texts["test"]
        assert len(texts["train"] | texts["test"]) == 9
        return [{"model": "SVM", "metrics": {"accuracy": float(len(texts["test"]))}}]

    monkeypatch.setattr(script.linear_baselines, "compute_rows", compute_rows)
    rows = "".join(f"{'a' if n % 4 < 2 else 'b'}\tfilm {n}\n" for n in range(9))
    (tmp_path / "train.tsv").write_text("label\ttext\n" + rows)
    recipe = tmp_path / "small.yaml"
    data = f"{{corpus: tsv, train: {tmp_path}/train.tsv, validation: {tmp_path}/train.tsv}}"
    recipe.write_text(f"format_version: 1\ntask: classification\ndata: {data}\n")
    options = {"recipe": str(recipe), "overrides": [], "folds": 3, "seeds": [1, 2]}
    linear = script.cross_validate(
        Namespace(**options, folder=tmp_path / "runs", scikit_learn_python="python")
    )
    assert linear["recipe"] == "SVM, data of small"
    assert (linear["seeds"], [run["fold"] for run in linear["runs"]]) == ([], [1, 2, 3])
    assert linear["summary"]["accuracy"]["values"] == [3.0, 3.0, 3.0]
    assert "seed" not in script.format_lines(linear)[-1]
    runs = [
        {"seed": seed, "fold": fold, "metrics": {"accuracy": 3.0 + seed}}
        for seed in (1, 2)
        for fold in (1, 2, 3)
    ]
    other = {**linear, "seeds": [1, 2], "runs": runs, "recipe": "model"}
    for name, result in (("linear", linear), ("other", other)):
        (tmp_path / name).write_text(json.dumps(result))
    text = script.compare(tmp_path / "linear", tmp_path / "other", None)
    assert text == "model - SVM, data of small: accuracy +1.500, 95 % interval +1.500 to +1.500"


@pytest.mark.full
@pytest.mark.timeout(300)
def test_last_step_of_each_run_is_evaluated(script: Any, tmp_path: Path) -> None:
    rows = "".join(f"{'good' if n % 4 < 2 else 'bad'}\tfilm {n}\n" for n in range(11))
    (tmp_path / "train.tsv").write_text("label\ttext\n" + rows)
    recipe = tmp_path / "a.yaml"
    recipe.write_text(
        f"""
format_version: 1
task: classification
data: {{corpus: tsv, train: {tmp_path}/train.tsv, validation: {tmp_path}/train.tsv}}
model: {{preset: kim_cnn_small, embedding_dim: 4, filters: 2}}
training: {{steps: 3, evaluate_every: 1, patience: 1, checkpoint_every: 2, batch_size: 4}}
"""
    )
    folder = tmp_path / "runs"
    options = {"recipe": str(recipe), "overrides": [], "folds": 2, "seeds": [1], "folder": folder}
    options["scikit_learn_python"] = None
    result = script.cross_validate(Namespace(**options))
    assert [run["metrics"]["texts"] for run in result["runs"]] == [6, 5]
    for run in folder.glob("run*"):
        assert json.loads((run / "results.json").read_text())["step"] == 3


def test_scores_of_linear_baselines(scripts: Any, tmp_path: Path) -> None:
    script = scripts("linear_baselines")
    (tmp_path / "train.csv").write_text("text,label\none,a|b\ntwo,\nthree,b\n")
    data = CsvTexts(train=str(tmp_path / "train.csv"), multi_label=True)
    splits = script.read_splits(data)
    assert [*splits] == ["train"]
    scores = script.score([["b", "a"], [], ["a"]], splits["train"], "multi_label")
    assert scores["exact_match"] == pytest.approx(200 / 3)


def make_result(seed: int, accuracy: float, **model: Any) -> dict[str, Any]:
    evaluation = {"split": "test", "data": "file", "metrics": {"accuracy": accuracy}}
    model = {"preset": "esim_small", **model}
    return {"preset": "esim_small", "model": model, "seed": seed, "evaluations": [evaluation]}


def test_runs_of_one_model_are_a_row(scripts: Any) -> None:
    compare_seeds = scripts("compare_seeds")
    runs = [make_result(seed, 90.0 + seed, dropout=0.1) for seed in (1, 2, 3)]
    runs += [make_result(seed, 80.0 + 2 * seed, dropout=0.1, attention="none") for seed in (1, 2)]
    first, second = compare_seeds.make_rows(runs, "accuracy")
    assert (first.name, first.seeds) == ("esim_small", [1, 2, 3])
    assert second.name == 'esim_small, attention="none"'
    assert first.mean("test") == 92
    assert math.isclose(first.standard_error("test"), 1 / 3**0.5)
    # Differences: 92 - 83; squared standard errors 1 / 3 and (82 - 84) ** 2 / 4.
    baselines = [compare_seeds.Row(f"SVM, {name}", [], {"test": [50.0]}) for name in "ab"]
    (line,) = compare_seeds.compare_pairs([*baselines, first, second])
    assert line.endswith(f"on test: +9.00, standard error {(1 / 3 + 1) ** 0.5:.2f}.")
    lines = compare_seeds.format_lines([first, second], "accuracy")
    assert "| esim_small | 1, 2, 3 | 92 ± 0.58 | 91, 92, 93 |" in lines


def test_tables_of_seeds_reject_runs_that_do_not_fit(scripts: Any) -> None:
    compare_seeds = scripts("compare_seeds")
    with pytest.raises(ValueError, match="esim_small: two runs have the seed 1"):
        compare_seeds.make_rows([make_result(1, 90.0), make_result(1, 91.0)], "accuracy")
    other = make_result(2, 90.0)
    other["evaluations"][0]["data"] = "other file"
    with pytest.raises(ValueError, match="same data in all runs"):
        compare_seeds.make_rows([make_result(1, 90.0), other], "accuracy")
    other["evaluations"] = []
    with pytest.raises(ValueError, match="no split has accuracy in all runs"):
        compare_seeds.make_rows([make_result(1, 90.0), other], "accuracy")
    content = {
        "results": [
            {"model": "SVM", "split": split, "metrics": {"accuracy": 50.0}}
            for split in ("test", "validation")
        ]
    }
    (row,) = compare_seeds.make_baselines(content, "accuracy", ["test"])
    assert row == ("SVM", [], {"test": [50.0]})

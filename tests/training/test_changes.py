"""A run resumes with an unchanged recipe and data, or with changes allowed by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo import training
from attention_zoo.data import TextPairs
from attention_zoo.training import read_recipe
from attention_zoo.training.changes import (
    covered,
    data_changes,
    fingerprint,
    recipe_changes,
    refuse_changes,
)
from attention_zoo.training.run_folder import RunState, open_run, prepare_run_folder, read_data
from tests.refusals import refuses
from tests.training.small import (
    assert_same_run,
    contents,
    copy_of_small_run,
    newest,
    records,
    write_recipe,
)


def test_all_changes_of_a_recipe_are_listed_except_the_run_folder(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    recipe = read_recipe(path, ["run=a"])
    assert recipe_changes(recipe, read_recipe(path, ["run=b"])) == {}
    other = read_recipe(path, ["model.units=17", "model.dropout=0.5", "training.steps=41"])
    assert recipe_changes(recipe, other) == {
        "model.units": "model.units 16 -> 17",
        "model.dropout": "model.dropout None -> 0.5",
        "training.steps": "training.steps 40 -> 41",
    }


def test_a_name_covers_its_key_and_nested_keys() -> None:
    assert covered("data.train", ["data"])
    assert covered("data.train", ["data.train"])
    assert not covered("data.train", ["data.tr", "training", "dat"])
    assert not covered("data", ["data.train"])


def test_fingerprints_locate_changed_examples() -> None:
    def fingerprints(*texts: str) -> dict[str, object]:
        return {"train": fingerprint(TextPairs(list(texts), list(texts), "here"))}

    many = [f"{number}" for number in range(2500)]
    assert fingerprints(*many)["train"]["examples"] == 2500  # type: ignore[index]
    assert data_changes(fingerprints(*many), fingerprints(*many)) == {}
    assert data_changes({}, fingerprints(*many)) == {}
    changed = [*many[:1000], "other", *many[1001:]]
    assert data_changes(fingerprints(*many), fingerprints(*changed)) == {
        "data.train": "data.train 2500 -> 2500 examples, first change among examples 1001 to 2000"
    }
    (text,) = data_changes(fingerprints(*many), fingerprints(*many, "more")).values()
    assert text.endswith("2500 -> 2501 examples, first change among examples 2001 to 2501")
    assert data_changes(fingerprints("a b", "c"), fingerprints("a", "b c"))
    points = [(np.arange(3.0), 1), (np.zeros(2), 2)]
    assert fingerprint(points) == fingerprint(iter(points))
    assert fingerprint(points) != fingerprint([(np.arange(3.0), 1), (np.ones(2), 2)])


def test_keys_that_determine_the_weights_cannot_change(tmp_path: Path) -> None:
    changes = {"model.units": "units", "training.steps": "steps"}
    with pytest.raises(ValueError, match=r"units; steps; model\.units cannot change within a run"):
        refuse_changes(tmp_path, changes, ["model", "training"])
    with pytest.raises(ValueError, match=r"steps\. .* pass --allow data,training\.steps$"):
        refuse_changes(tmp_path, {"training.steps": "steps"}, ["data"])
    refuse_changes(tmp_path, {"training.steps": "steps"}, ["training"])


@pytest.mark.usefixtures("no_run_folder")
@refuses(
    (
        ["training.step"],
        r"--allow training\.step: unknown recipe key; did you mean 'training\.st",
    ),
    (["daat"], "did you mean 'data'"),
    (["data.trian"], r"did you mean 'data\.train'"),
    ("data", r"allow must be a list of names, got 'data'; pass \['data'\]"),
)
def test_unknown_allowed_key_raises(allow: Any, tmp_path: Path) -> None:
    training.fit(write_recipe(tmp_path), [f"run={tmp_path / 'run'}"], allow=allow)


@pytest.mark.full
def test_changed_recipe_raises_with_all_differences(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    before = contents(run)
    overrides = [
        f"run={run}",
        "training.steps=60",
        "training.learning_rate=0.5",
        "data.test_size=9",
    ]
    message = (
        r"test_size 20 -> 9; training\.steps 40 -> 60;"
        r" training\.learning_rate 0\.01 -> 0\.5\. .*"
        r"--allow data\.test_size,training\.steps,training\.learning_rate$"
    )
    with pytest.raises(ValueError, match=message):
        training.fit(write_recipe(tmp_path), overrides)
    with pytest.raises(ValueError, match=r"_rate 0\.01 -> .* --allow training\.steps,data,train"):
        training.fit(write_recipe(tmp_path), overrides, allow=["training.steps", "data"])
    assert contents(run) == before


@pytest.mark.full
def test_more_steps_equal_an_uninterrupted_longer_run(tmp_path: Path) -> None:
    run, path = copy_of_small_run(tmp_path), write_recipe(tmp_path)
    first = (run / "recipe.yaml").read_text()
    more = ["training.steps=50", "training.evaluate_every=15"]
    assert training.fit(path, [f"run={run}", *more], allow=["training"]).step == 50
    assert [line["step"] for line in records(run)] == [20, 40, 45, 50]
    assert (run / "recipe.step-00000040.yaml").read_text() == first
    assert read_recipe(run / "recipe.yaml").training.steps == 50
    assert training.fit(path, [f"run={run}", *more]).step == 50

    overrides = ["training.steps=50", "training.evaluate_every=5"]
    same, stopped = tmp_path / "same", tmp_path / "stopped"
    training.fit(path, [f"run={same}", *overrides])
    training.fit(path, [f"run={stopped}", "training.steps=20", "training.evaluate_every=5"])
    training.fit(path, [f"run={stopped}", *overrides], allow=["training.steps"])
    assert_same_run(same, stopped)
    assert [line["loss"] for line in records(run)[-2:]] == [
        line["loss"] for line in records(same)[-2:]
    ]


def test_first_recipe_of_a_step_is_kept(tmp_path: Path) -> None:
    run, path = copy_of_small_run(tmp_path), write_recipe(tmp_path)
    for rate in (0.1, 0.2):
        recipe = read_recipe(path, [f"training.learning_rate={rate}"])
        prepare_run_folder(run, recipe, RunState(step=40), read_data(run))
    assert read_recipe(run / "recipe.step-00000040.yaml").training.learning_rate == 0.01
    assert read_recipe(run / "recipe.yaml").training.learning_rate == 0.2


TSV = """\
data:
  corpus: tsv
  source: en
  target: fr
  train: {folder}/train.tsv
  validation: {folder}/validation.tsv
tokenizer:
  kind: word
model: {{preset: rnnsearch_small, embedding_dim: 8, units: 16}}
training: {{steps: 2, evaluate_every: 2, batch_size: 4}}
"""


@pytest.mark.full
def test_changed_data_raise_unless_allowed(tmp_path: Path) -> None:
    rows = [f"it is {number}\til est {number}" for number in range(12)]
    for split in ("train", "validation"):
        (tmp_path / f"{split}.tsv").write_text("\n".join(["en\tfr", *rows]) + "\n")
    path, run = write_recipe(tmp_path, TSV.format(folder=tmp_path)), tmp_path / "run"
    training.fit(path, [f"run={run}"])
    first_data = read_data(run)
    assert first_data["train"]["examples"] == 12
    (tmp_path / "train.tsv").write_text("\n".join(["en\tfr", *rows, "it is 1\til est 2"]) + "\n")
    before = contents(run)
    overrides = [f"run={run}", "training.steps=4"]
    message = r"data\.train 12 -> 13 examples, .* --allow training\.steps,data\.train$"
    with pytest.raises(ValueError, match=message):
        training.fit(path, overrides, allow=["training.steps"])
    assert {**contents(run), "lock": b""} == {**before, "lock": b""}
    assert training.fit(path, overrides, allow=["training.steps", "data.train"]).step == 4
    assert read_data(run)["train"]["examples"] == 13
    assert json.loads((run / "data.step-00000002.json").read_text()) == first_data
    assert newest(run).name == "step-00000004"


def test_damaged_fingerprint_raises(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(ValueError, match=r"data\.json: damaged .*; start a new run"):
        read_data(tmp_path)


def test_whether_a_run_is_finished_depends_on_the_new_recipe(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    path = write_recipe(tmp_path)
    assert open_run(run, read_recipe(path)).finished
    more = read_recipe(path, ["training.steps=41"])
    assert not open_run(run, more, ["training.steps"]).finished
    options = read_recipe(path, ["training.patience=2"]).training
    assert RunState(step=3, waited=2).is_over(options)
    assert not RunState(step=3, waited=1).is_over(options)
    assert not RunState(step=40, pending={"loss": 1.0}).is_over(options)

"""A run goes on with what it was begun with, or with what is allowed by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_zoo import training
from attention_zoo.data import TextPairs, progress
from attention_zoo.training import fitting, read_recipe
from attention_zoo.training.changes import (
    SplitReader,
    compute_fingerprint,
    find_data_changes,
    find_recipe_changes,
    is_covered,
    refuse_changes,
)
from attention_zoo.training.run_folder import (
    RunState,
    find_moved_data,
    open_run,
    prepare_run_folder,
    read_data,
)
from tests.refusals import refuses
from tests.training.small import (
    assert_same_run,
    contents,
    copy_of_small_run,
    newest,
    records,
    write_recipe,
)


def test_all_changes_except_the_folder_are_listed(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    recipe = read_recipe(path, ["run=a"])
    assert find_recipe_changes(recipe, read_recipe(path, ["run=b"])) == {}
    other = read_recipe(path, ["model.units=17", "model.dropout=0.5", "training.steps=41"])
    assert find_recipe_changes(recipe, other) == {
        "model.units": "model.units 16 -> 17",
        "model.dropout": "model.dropout None -> 0.5",
        "training.steps": "training.steps 40 -> 41",
    }


def test_other_paths_of_the_same_file_are_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_recipe(tmp_path)
    before = ["init=x", "tokenizer.vectors=v", "model.encoder={weights: w}"]
    after = ["init=./x/", f"tokenizer.vectors={tmp_path}/v", "model.encoder={weights: ./w}"]
    recipe = read_recipe(path, before)
    assert find_recipe_changes(recipe, read_recipe(path, after)) == {}
    changes = find_recipe_changes(recipe, read_recipe(path, ["init=./y", *before[1:]]))
    assert changes == {"init": "init x -> ./y"}
    assert [*find_recipe_changes(recipe, read_recipe(path, before[1:]))] == ["init"]


def test_name_covers_its_key_and_the_keys_below() -> None:
    assert is_covered("data.train", ["data"])
    assert is_covered("data.train", ["data.train"])
    assert not is_covered("data.train", ["data.tr", "training", "dat"])
    assert not is_covered("data", ["data.train"])


def test_fingerprints_locate_changed_examples() -> None:
    def of(*texts: str) -> dict[str, object]:
        return {"train": compute_fingerprint(TextPairs(list(texts), list(texts), "here"))}

    many = [f"{number}" for number in range(2500)]
    assert of(*many)["train"]["examples"] == 2500  # type: ignore[index]
    assert find_data_changes(of(*many), of(*many)) == {}
    assert find_data_changes({}, of(*many)) == {}
    changed = [*many[:1000], "other", *many[1001:]]
    assert find_data_changes(of(*many), of(*changed)) == {
        "data.train": "data.train 2500 -> 2500 examples, first change among examples 1001 to 2000"
    }
    (text,) = find_data_changes(of(*many), of(*many, "more")).values()
    assert text.endswith("2500 -> 2501 examples, first change among examples 2001 to 2501")
    assert find_data_changes(of("a b", "c"), of("a", "b c"))
    points = [(np.arange(3.0), 1), (np.zeros(2), 2)]
    assert compute_fingerprint(points) == compute_fingerprint(iter(points))
    assert compute_fingerprint(points) != compute_fingerprint(
        [(np.arange(3.0), 1), (np.ones(2), 2)]
    )


def test_keys_that_determine_the_weights_cannot_change(tmp_path: Path) -> None:
    changes = {"model.units": "units", "training.steps": "steps"}
    with pytest.raises(ValueError, match=r"units; steps; model\.units cannot change within a run"):
        refuse_changes(tmp_path, changes, ["model", "training"])
    with pytest.raises(ValueError, match=r"steps\. .* pass --allow data,training\.steps$"):
        refuse_changes(tmp_path, {"training.steps": "steps"}, ["data"])
    refuse_changes(tmp_path, {"training.steps": "steps"}, ["training"])
    refuse_changes(tmp_path, {"imports": "imports"}, [])


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
def test_misspelled_name_raises(allow: Any, tmp_path: Path) -> None:
    training.fit(write_recipe(tmp_path), [f"run={tmp_path / 'run'}"], allow=allow)


@pytest.mark.full
def test_changed_recipe_raises_with_all_differences(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    before = contents(run)
    words = [f"run={run}", "training.steps=60", "training.learning_rate=0.5", "data.test_size=9"]
    message = (
        r"test_size 20 -> 9; training\.steps 40 -> 60;"
        r" training\.learning_rate 0\.01 -> 0\.5\. .*"
        r"--allow data\.test_size,training\.steps,training\.learning_rate$"
    )
    with pytest.raises(ValueError, match=message):
        training.fit(write_recipe(tmp_path), words)
    with pytest.raises(ValueError, match=r"_rate 0\.01 -> .* --allow training\.steps,data,train"):
        training.fit(write_recipe(tmp_path), words, allow=["training.steps", "data"])
    assert contents(run) == before


@pytest.mark.full
def test_extended_run_equals_a_longer_run(tmp_path: Path) -> None:
    run, path = copy_of_small_run(tmp_path), write_recipe(tmp_path)
    first = (run / "recipe.yaml").read_text()
    more = ["training.steps=50", "training.evaluate_every=15"]
    assert training.fit(path, [f"run={run}", *more], allow=["training"]).step == 50
    assert [line["step"] for line in records(run)] == [20, 40, 45, 50]
    assert (run / "recipe.step-00000040.yaml").read_text() == first
    assert read_recipe(run / "recipe.yaml").training.steps == 50
    assert training.fit(path, [f"run={run}", *more]).step == 50

    whole = ["training.steps=50", "training.evaluate_every=5"]
    same, stopped = tmp_path / "same", tmp_path / "stopped"
    training.fit(path, [f"run={same}", *whole])
    training.fit(path, [f"run={stopped}", "training.steps=20", "training.evaluate_every=5"])
    training.fit(path, [f"run={stopped}", *whole], allow=["training.steps"])
    assert_same_run(same, stopped)
    assert [line["loss"] for line in records(run)[-2:]] == [
        line["loss"] for line in records(same)[-2:]
    ]


def test_previous_recipe_is_saved_once_per_step(tmp_path: Path) -> None:
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
    held = read_data(run)
    assert held["train"]["examples"] == 12
    (tmp_path / "train.tsv").write_text("\n".join(["en\tfr", *rows, "it is 1\til est 2"]) + "\n")
    before = contents(run)
    words = [f"run={run}", "training.steps=4"]
    message = r"data\.train 12 -> 13 examples, .* --allow training\.steps,data\.train$"
    with pytest.raises(ValueError, match=message):
        training.fit(path, words, allow=["training.steps"])
    assert {**contents(run), "lock": b""} == {**before, "lock": b""}
    assert training.fit(path, words, allow=["training.steps", "data.train"]).step == 4
    assert read_data(run)["train"]["examples"] == 13
    (run / "data.step-00000002.json").rename(tmp_path / "data.json")
    assert read_data(tmp_path) == held
    assert newest(run).name == "step-00000004"


def test_other_paths_of_the_same_examples_are_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("train", 3), ("copy", 3), ("other", 4), ("test", 2), ("same", 2)):
        lines = ["en\tfr", *(f"it is {number}\til est {number}" for number in range(rows))]
        Path(f"{name}.tsv").write_text("\n".join(lines) + "\n")
    page = TSV.format(folder=".") + "run: run\n"
    page = page.replace("./validation.tsv", "test.tsv").replace("./train", "train")
    path = write_recipe(tmp_path, page.replace("tokenizer:", "  test: test.tsv\ntokenizer:"))
    recipe = read_recipe(path)
    data = {s: compute_fingerprint(recipe.data.read(s)) for s in ("train", "validation")}
    prepare_run_folder(Path("run"), recipe, RunState(step=1), data)

    def moved(*overrides: str) -> list[str]:
        return find_moved_data(Path("run"), read_recipe(path, overrides))

    assert moved() == moved("training.steps=9") == find_moved_data(Path("none"), recipe) == []
    assert moved("data.train=./train.tsv") == ["data.train"]
    assert moved("data.train=copy.tsv") == ["data.train"]
    assert moved("data.train=other.tsv") == []
    assert moved("data.train=copy.tsv", "data.source=fr", "data.target=en") == []
    assert moved(f"data.test={tmp_path}/same.tsv", "data.validation=same.tsv") == [
        "data.validation",
        "data.test",
    ]
    assert moved("data.test=other.tsv") == []
    assert moved("data.test=nowhere.tsv") == []  # training does not read it
    for split in ("train", "validation"):
        with pytest.raises(ValueError, match=rf"^data\.{split}: nowhere\.tsv: no such file"):
            moved(f"data.{split}=nowhere.tsv")


def test_other_paths_of_images_and_captions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("Images", "copy", "other")):
        Path(folder).mkdir()
        for name in ("a.png", "b.png"):
            Image.new("L", (4, 4), 60 * (number // 2)).save(f"{folder}/{name}")
    for name, text in (("cap", "one"), ("new", "two")):
        Path(f"{name}.csv").write_text(f"image,caption\na.png,{text}\nb.png,x\n")
    Path("train").write_text("a.png\n")
    Path("validation").write_text("b.png\n")
    path = write_recipe(
        tmp_path,
        "task: captioning\ndata: {corpus: captions, images: Images, captions: cap.csv,"
        " train: train, validation: validation, image_size: 4}\n",
    )
    recipe = read_recipe(path)
    data = {
        split: compute_fingerprint(recipe.data.read(split)) for split in ("train", "validation")
    }
    prepare_run_folder(Path("run"), recipe, RunState(step=1), data)

    def moved(*overrides: str) -> list[str]:
        return find_moved_data(Path("run"), read_recipe(path, overrides))

    both = ["data.images", "data.captions"]
    assert moved("data.images=./Images", "data.captions=./cap.csv") == both
    assert moved("data.images=copy") == ["data.images"]
    assert moved("data.images=other") == moved("data.captions=new.csv") == []
    assert moved("data.images=copy", "data.test=train") == ["data.images"]
    assert moved("data.images=other", "data.captions=./cap.csv") == []


def test_moved_data_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "FIRST_DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    for split in ("train", "validation", "copy"):
        rows = [f"it is {number}\til est {number}" for number in range(150)]
        Path(f"{split}.tsv").write_text("\n".join(["en\tfr", *rows]) + "\n")
    path = write_recipe(tmp_path, TSV.format(folder="."))
    recipe = read_recipe(path)
    data = {
        split: compute_fingerprint(recipe.data.read(split)) for split in ("train", "validation")
    }
    prepare_run_folder(Path("run"), recipe, RunState(step=1), data)
    words = ["run=run", "data.train=copy.tsv"]

    def stop(*_: Any) -> None:
        raise ValueError("stop")

    monkeypatch.setattr(fitting, "holds_run", stop)
    with pytest.raises(ValueError, match="stop"):
        training.fit(path, words)
    assert "copy.tsv: 150 lines" in capsys.readouterr().out
    recipe = read_recipe(path, words)
    reader = SplitReader(recipe.data)
    assert find_moved_data(Path("run"), recipe, reader) == ["data.train"]
    monkeypatch.setattr(type(recipe.data), "read", stop)
    assert len(reader.read("train")) == 150


@pytest.mark.full
def test_run_resumes_from_another_path_of_the_same_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"it is {number}\til est {number}" for number in range(12)]
    for split in ("train", "validation"):
        Path(f"{split}.tsv").write_text("\n".join(["en\tfr", *rows]) + "\n")
    path = write_recipe(tmp_path, TSV.format(folder="."))
    training.fit(path, ["run=run", "data.train=train.tsv"])
    more = ["run=run", f"data.train={tmp_path}/train.tsv", "training.steps=4"]
    with pytest.raises(ValueError, match=r": training\.steps 2 -> 4\. "):
        training.fit(path, more)
    assert training.fit(path, more, allow=["training.steps"]).step == 4
    assert read_recipe("run/recipe.yaml").data.train == f"{tmp_path}/train.tsv"
    Path("train.tsv").write_text("\n".join(["en\tfr", *rows[1:]]) + "\n")
    with pytest.raises(ValueError, match=r": data\.train \./train\.tsv|data\.train /.*train\.tsv"):
        training.fit(path, ["run=run", "data.train=train.tsv", "training.steps=4"])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", r": damaged .*; start a new run"),
        ("{", r": damaged .*; start a new run"),
        ("[]", r": damaged .*; start a new run"),
        ('{"train": 3}', r": outdated or edited \(.*; train again"),
        (
            '{"train": {"examples": 3}}',
            r": outdated or edited \('sha256' is missing\); train again",
        ),
        ('{"format_version": 2}', r" has format_version 2, .*; upgrade attention_zoo"),
    ],
)
def test_damaged_fingerprint_raises(content: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(ValueError, match=rf"data\.json{problem}"):
        read_data(tmp_path)


def test_current_recipe_decides_whether_a_run_is_finished(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    path = write_recipe(tmp_path)
    assert open_run(run, read_recipe(path)).finished
    more = read_recipe(path, ["training.steps=41"])
    assert not open_run(run, more, ["training.steps"]).finished
    options = read_recipe(path, ["training.patience=2"]).training
    assert RunState(step=3, waited=2).is_over(options)
    assert not RunState(step=3, waited=1).is_over(options)
    assert not RunState(step=40, pending={"loss": 1.0}).is_over(options)

"""Presets, recipes and entries by name: from the repository and from installed wheels."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import attention_zoo as az
from attention_zoo import zoo
from attention_zoo.cli import main
from attention_zoo.hub import resolve_folder
from attention_zoo.tasks import FileCorpus
from tests.scripts import load_script

ROOT = Path(__file__).parents[1]
ENTRY, WITHOUT_WEIGHTS = "rnnsearch_small.dates_en_fr", "rnnsearch_small.multi30k_de_en"
ONLY_RECIPE = "bilstm_crf.conll2003"
TRAINED = [row for row in zoo.read_index() if row.kind == "entry" and row.weights]
SENTENCE = "they arrive on Monday, March 3, 2031; dinner is at 5:04 PM."
TEXTS = {
    "masked_language_modeling": "the bus left on [MASK], March 3, 2031.",
    "language_modeling": "the bus left",
    "summarization": "Lokor has lost , and with 684 votes Kedoth gets Bimosk Sututh for mayor .",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def eager() -> Iterator[None]:
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def test_index_is_up_to_date() -> None:
    script = load_script("make_index")
    rows = zoo.read_index()
    presets = {(row.name, row.task) for row in rows if row.kind == "preset"}
    assert presets == {
        (name, script.get_task(az.models.preset_class(name))) for name in az.list_presets()
    }
    others = [row for row in rows if row.kind != "preset"]
    expected = [*script.list_recipes(), *script.list_entries()]
    assert sorted(map(str, others)) == sorted(map(str, expected)), "run `make index`"


@pytest.mark.full
def test_parameters_of_presets_are_up_to_date() -> None:
    script = load_script("make_index")
    text = script.format_index([*script.list_presets(), *script.list_recipes()])
    expected = [row for row in zoo.read_index() if row.kind != "entry"]
    assert text == script.format_index(expected), "run `make index`"


def test_number_of_parameters_equals_that_of_a_built_model() -> None:
    sizes = {"source_vocabulary_size": 8000, "target_vocabulary_size": 8000}
    model = az.models.from_preset("transformer_tiny", **sizes)
    listing = zoo.find_listing("transformer_tiny", "preset")
    assert listing is not None
    assert listing.parameters == model.count_params()


@pytest.mark.parametrize("name", [row.name for row in TRAINED])
@pytest.mark.usefixtures("eager")
def test_entries_load_by_name_and_predict(folder: Path, name: str) -> None:
    task = az.load(name)
    if "max_length" in task.used_search_options:
        task.search = task.search.override(max_length=3)
    result = predict_one(task, name)
    assert result.ok
    assert result.text or result.labels == ()  # none of several classes


def predict_one(task: Any, name: str) -> Any:
    """Return the result for a sentence, a pair of sentences, or a generated image."""
    kinds = [one.kind for one in task.inputs]
    if kinds in (["text"], ["document"]):
        return task.predict([TEXTS.get(task.name, SENTENCE)])[0]
    if kinds == ["text_pair"]:
        return task.predict([(SENTENCE, SENTENCE)])[0]
    examples = az.training.read_recipe(name, ["data.test_size=3"]).data.read("test")
    return task.predict_example(examples, 0)[0]


def test_models_of_entries_load_by_name(folder: Path) -> None:
    model = az.models.from_preset(ENTRY)
    assert isinstance(model, az.models.RNNSearch)
    with pytest.raises(ValueError, match="is a RNNSearch, not a GPT"):
        az.models.GPT.from_preset(ENTRY)


def test_the_entry_goes_before_a_local_folder_of_its_name(folder: Path) -> None:
    (folder / ENTRY).mkdir()
    with pytest.warns(UserWarning, match=rf"using the entry of the zoo, .*; write \./{ENTRY} for"):
        assert resolve_folder(ENTRY) == ROOT / "models" / "translation" / ENTRY
    for local in (f"./{ENTRY}", folder / ENTRY, Path(ENTRY), str(folder / ENTRY)):
        assert resolve_folder(local).resolve() == folder / ENTRY
    (folder / "mine").mkdir()
    assert resolve_folder("mine") == Path("mine")
    (folder / WITHOUT_WEIGHTS).mkdir()
    with pytest.raises(ValueError, match=rf"no weights .*; write \./{WITHOUT_WEIGHTS} for the"):
        resolve_folder(WITHOUT_WEIGHTS)


def test_predict_reads_the_recipe_of_the_entry(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / ENTRY).mkdir()
    (folder / ENTRY / "recipe.yaml").write_text("data: {corpus: tsv, source: 1}")
    (folder / "in.txt").write_text("dinner is at 5:04 PM.\n")
    with pytest.warns(UserWarning, match="using the entry"):
        assert main(["predict", ENTRY, "in.txt"]) == 0
    assert capsys.readouterr().out == "le dîner est à 17:04.\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rnnsearch_small.dates_en_fx", f"no such folder, and no entry .*; did you mean '{ENTRY}'"),
        ("qqq", "^qqq: no such folder, and no entry of the zoo has this name .`attention-zoo list"),
        (WITHOUT_WEIGHTS, f"no weights of this entry; .*`attention-zoo train {WITHOUT_WEIGHTS}`"),
        (ONLY_RECIPE, f"has its recipe but no weights; .*`attention-zoo train {ONLY_RECIPE}`"),
    ],
)
def test_names_without_weights_are_rejected(folder: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        az.load(name)
    assert main(["predict", name, "-"]) == 2


def test_recipes_by_name(folder: Path) -> None:
    recipe = az.training.read_recipe(ENTRY, ["training.steps=7"])
    assert (recipe.run, recipe.training.steps) == (f"runs/{ENTRY}", 7)
    with pytest.raises(ValueError, match=f"no recipe .*did you mean '{ENTRY}'"):
        az.training.read_recipe("rnnsearch_small.dates_en_fx")
    (folder / "mine.yaml").write_text("data: {corpus: dates}\nmodel: {preset: luong_small}\n")
    (folder / ENTRY).write_text("seed: [")
    with pytest.warns(UserWarning, match=rf"{ENTRY}: using the recipe of the zoo"):
        assert az.training.read_recipe(ENTRY).seed == 1
    assert az.training.read_recipe("mine.yaml").run == "runs/mine"
    with pytest.raises(ValueError, match=r"no such recipe"):
        az.training.read_recipe("other.yaml")


@pytest.mark.full
def test_evaluating_an_entry_changes_no_file(folder: Path) -> None:
    results = ROOT / "models" / "translation" / ENTRY / "results.json"
    before = results.read_bytes()
    entry = az.training.evaluate(ENTRY, ["data.test_size=20"])
    assert entry["metrics"]["exact_match"] > 80
    assert entry["overrides"] == ["data.test_size=20"]
    assert results.read_bytes() == before


class TestWheels:
    """The layout of an installed wheel: recipes in the package, weights in another one."""

    @pytest.fixture(autouse=True)
    def _layout(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = folder / "attention_zoo"
        recipe = package / "recipes" / "translation" / f"{ENTRY}.yaml"
        recipe.parent.mkdir(parents=True)
        recipe.touch()
        (package / "index.json").write_bytes((zoo.PACKAGE / "index.json").read_bytes())
        monkeypatch.setattr(zoo, "PACKAGE", package)
        monkeypatch.syspath_prepend(folder)

    def test_without_the_models(self, folder: Path) -> None:
        assert zoo.find_recipe(ENTRY) == zoo.PACKAGE / "recipes" / "translation" / f"{ENTRY}.yaml"
        with pytest.raises(ValueError, match="run `pip install attention-zoo-models`"):
            zoo.find_entry(ENTRY)
        assert not zoo.is_entry_folder(folder)

    def test_with_the_models(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = folder / zoo.MODELS_PACKAGE / "translation" / ENTRY
        entry.mkdir(parents=True)
        (folder / "first" / zoo.MODELS_PACKAGE).mkdir(parents=True)  # empty
        monkeypatch.syspath_prepend(folder / "first")
        importlib.invalidate_caches()
        assert zoo.find_entry(ENTRY) == entry
        assert zoo.is_entry_folder(entry)


def test_list_prints_tables_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "translation"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [ENTRY, "entry", "469,056", "bleu", "99.94", "yes"] in lines
    assert [WITHOUT_WEIGHTS, "entry", "10,928,640", "bleu", "37.96", "no"] in lines
    assert ["rnnsearch_small", "preset", "13,232,640"] in lines
    assert ["captioning"] not in lines
    assert main(["list"]) == 0
    assert "\n\ncaptioning\n" in f"\n\n{capsys.readouterr().out}"
    assert main(["list", "translatoin"]) == 2
    assert "did you mean 'translation'?" in capsys.readouterr().err


def test_list_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == [asdict(row) for row in zoo.read_index()]
    for row in rows:
        assert list(row) == ["name", "kind", "task", "parameters", "metric", "value", "weights"]
        assert row["kind"] in ("preset", "recipe", "entry")
        assert isinstance(row["weights"], bool)


def test_list_imports_neither_keras_nor_tensorflow(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPROFILEIMPORTTIME": "1"}
    command = [sys.executable, "-m", "attention_zoo", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    imported = {line.split("|")[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "attention_zoo" in imported
    assert not imported & {"keras", "tensorflow", "numpy"}


@pytest.mark.zoo
@pytest.mark.parametrize("name", [row.name for row in TRAINED])
def test_score_equals_that_of_the_card(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The score of 200 examples, with the options of the card's first evaluation.

    The 200 examples form ten groups. The mean score of the groups may differ from the card's by
    four standard errors (their standard deviation / sqrt(10)), and by 1.5 points more (perplexity:
    1.5 %): if all 200 are right, up to 3 / 200 of the split may be wrong. Retrieval depends on the
    number of candidates; its score is that of the whole split, and may differ by 0.5 points.
    """
    monkeypatch.chdir(ROOT)
    listing = zoo.find_listing(name, "entry")
    results = json.loads((zoo.find_entry(name) / "results.json").read_text("utf-8"))
    (first, *_) = results["evaluations"]
    recipe = az.training.read_recipe(name, first.get("overrides", []))
    task = az.load(name)
    task.set_options(**task.recipe_options(recipe))
    try:
        examples = recipe.data.read(recipe.data.split)
    except ValueError as error:
        if isinstance(recipe.data, FileCorpus) and "no such file" in str(error):
            pytest.skip(str(error))
        raise
    expected = first["metrics"][listing.metric]
    if task.name == "retrieval":
        assert task.evaluate(examples)[listing.metric] == pytest.approx(expected, abs=0.5)
        return
    size = min(200, len(examples))
    groups = [examples.take(range(start, size, 10)) for start in range(10)]
    scores = [task.evaluate(group)[listing.metric] for group in groups]
    margin = 4 * np.std(scores, ddof=1) / 10**0.5
    margin += 0.015 * (expected if listing.metric == "perplexity" else 100)
    assert np.mean(scores) == pytest.approx(expected, abs=margin)

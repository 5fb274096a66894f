"""Files of earlier versions load and predict as they did, or are rejected as outdated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models, tasks, training
from attention_zoo.cli import main
from attention_zoo.files import write_manifest
from attention_zoo.training import evaluation, read_recipe
from attention_zoo.training.run_folder import holds_run, open_run

FOLDER = Path(__file__).parent / "golden" / "formats"
PIXELS = np.arange(16 * 16 * 3).reshape(16, 16, 3)
IMAGES = [(PIXELS * factor % modulus).astype("uint8") for factor, modulus in ((7, 251), (11, 239))]
TEXTS = ["the cat sat on the mat", "a dog ran to the cat", "the mat is red"]
INPUTS: dict[str, Any] = {
    "captioning": IMAGES,
    "glimpses": IMAGES,
    "masked_language_modeling": ["a [MASK] c"],
    "retrieval": TEXTS[:2],
    "tagging": [text.split() for text in TEXTS],
}

# Archives of task folders, with the predictions of the version that wrote them.
TASKS = (
    # Manifests of version 0; no format versions in other files.
    "task_luong_4608e047",
    "task_rnnsearch_f1b328a8",
    "task_seq2seq_b964e343",
    # Manifests of version 2, format versions 1; earlier names of layers, arguments and options.
    "task_abs_49a68fd4",
    "task_bert_tagger_223548d3",
    "task_deep_conv_890cbe3f",
    "task_deep_recurrent_ce1a8b51",
    "task_glimpses_4feda118",
    "task_masked_ec927932",
    "task_retrieval_ee4a827a",
    "task_sat_hard_008c691c",
    "task_sat_soft_d1027ff4",
)
HEAVY_TASKS = (
    # Manifests of version 1; no format versions in other files.
    "task_gpt_e1b65098",
    "task_transformer_c12dbd78",
    # Manifests of version 2, format versions 1; earlier names of layers, arguments and options.
    "task_caption_transformer_151a569a",
    "task_copy_transformer_1aebfda2",
    "task_pointer_86de8a28",
    "task_tagger_attention_51cfd89a",
    "task_tagger_characters_6d524d3b",
    "task_transformer_06cd30e0",
    # Present names; no format version in tokenizer.json.
    "task_pointer_b551c10b",
)
OUTDATED = {
    # Arguments that were moved to "layer".
    "task_transformer_9f376dad": "Transformer has no argument 'activation'",
}
RUNS = (
    # Checkpoints "best" and "last" without manifests.
    "run_df24498b",
    # Numbered checkpoints with manifests of version 1; no data.json.
    "run_89453d94",
    # data.json, and the sums of an interval in training.json.
    "run_a1992b6a",
    # Manifests of version 2; format versions 1 in recipe.yaml, task.json and training.json.
    "run_a39c089b",
    # Format versions 1 also in data.json and tokenizer.json.
    "run_7d323705",
)
SMALLEST = "task_seq2seq_b964e343"


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def unpack(name: str, folder: Path) -> Path:
    """Unpack an archive into a new folder of its name."""
    shutil.unpack_archive(FOLDER / f"{name}.tar.xz", folder / name, filter="data")
    return folder / name


def assert_stored_predictions(task: Any, folder: Path, inputs: Any, **options: Any) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    results = task.predict(inputs, **options)
    assert [result.text for result in results] == [entry["text"] for entry in expected]
    scores = [entry["score"] for entry in expected]
    np.testing.assert_allclose([result.score for result in results], scores, rtol=1e-4)


@pytest.mark.parametrize(
    "name", [*TASKS, *(pytest.param(name, marks=pytest.mark.full) for name in HEAVY_TASKS)]
)
def test_tasks_of_earlier_versions_predict_as_they_did(name: str, tmp_path: Path) -> None:
    folder = unpack(name, tmp_path)
    task = tasks.load(folder)
    options: dict[str, Any] = {"top": 3} if task.name == "masked_language_modeling" else {}
    if task.name == "retrieval":
        options["index"] = task.build_index(IMAGES)
    assert_stored_predictions(task, folder, INPUTS.get(task.name, TEXTS), **options)


@pytest.mark.parametrize("name", HEAVY_TASKS)
def test_tasks_of_earlier_versions_load(name: str, tmp_path: Path) -> None:
    tasks.load(unpack(name, tmp_path))


@pytest.mark.parametrize("name", OUTDATED)
def test_outdated_tasks_are_rejected(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unpack(name, tmp_path)
    with pytest.raises(ValueError, match=r"outdated.*; train again, or use the version") as caught:
        tasks.load(folder)
    assert OUTDATED[name] in str(caught.value)
    assert "damaged" not in str(caught.value)
    assert main(["predict", str(folder)]) == 2
    assert capsys.readouterr().err == f"attention-zoo: error: {caught.value}\n"


@pytest.mark.parametrize("change", ["vocabulary", "layers"])
def test_weights_of_other_layers_are_outdated(change: str, tmp_path: Path) -> None:
    folder = unpack(SMALLEST, tmp_path) / "model"
    config = json.loads((folder / "config.json").read_text())
    config["config"] |= {"vocabulary": {"units": 5}, "layers": {"num_layers": 2}}[change]
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder, ["config.json", "model.weights.h5"])
    with pytest.raises(ValueError, match=r"h5: does not fit the layers of this Seq2Seq \(outdated"):
        models.from_preset(folder)


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_earlier_versions_predict_as_they_did(name: str, tmp_path: Path) -> None:
    folder = unpack(name, tmp_path)
    assert_stored_predictions(tasks.load(folder / "run"), folder, ["May 3"])


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_earlier_versions_are_opened(name: str, tmp_path: Path) -> None:
    run = unpack(name, tmp_path) / "run"
    recipe = read_recipe(run / "recipe.yaml", [f"run={run}"])
    if name == RUNS[0]:
        message = r"run: an outdated run .* cannot be resumed; use another run=FOLDER \(init="
        with pytest.raises(ValueError, match=message):
            holds_run(run, recipe)
    else:
        state = open_run(run, recipe)
        assert (state.step, state.finished) == (4, True)


@pytest.mark.full
@pytest.mark.parametrize("name", RUNS[1:])
def test_runs_of_earlier_versions_are_resumed(name: str, tmp_path: Path) -> None:
    """With a learning rate near zero, one more step leaves the stored predictions as they are."""
    folder = unpack(name, tmp_path)
    run, changed = folder / "run", ["training.steps", "training.learning_rate"]
    changes = [f"run={run}", "training.steps=5", "training.learning_rate=1e-12"]
    assert training.fit(run / "recipe.yaml", changes, allow=changed).step == 5
    assert_stored_predictions(tasks.load(run), folder, ["May 3"])


def test_recipes_of_earlier_versions_are_read() -> None:
    assert vars(read_recipe(FOLDER / "recipe_summarization.yaml").data)["truncate_source"] is True
    recipe = read_recipe(FOLDER / "recipe_captioning.yaml")
    assert vars(recipe.data)["max_captions"] == 2
    assert recipe.model["attention"] == {"kind": "hard", "coefficient": 0.2}


def test_keys_of_other_tasks_are_not_renamed(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {corpus: dates}\nmodel: {preset: mine, look: 4}\n")
    assert read_recipe(path).model == {"preset": "mine", "look": 4}


def test_results_of_earlier_versions_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(FOLDER / "results_1.json", tmp_path / "results.json")
    earlier = json.loads((FOLDER / "results_1.json").read_text())
    monkeypatch.setattr(evaluation, "describe_run", lambda *_: {"step": earlier["step"]})
    entry: dict[str, Any] = {"split": "test", "data": "dates", "search": {}, "metrics": {}}
    recipe: Any = None
    evaluation.write_results(tmp_path, recipe, None, entry)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["evaluations"] == [*earlier["evaluations"], entry]
    assert results["format_version"] == 1


def test_all_archives_are_tested() -> None:
    tested = {*TASKS, *HEAVY_TASKS, *OUTDATED, *RUNS}
    assert {path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.xz")} == tested


FILES = (
    "task.json",
    "source_tokenizer/tokenizer.json",
    "source_tokenizer/vocabulary.txt",
    "model/manifest.json",
    "model/config.json",
    "model/model.weights.h5",
)


@pytest.mark.parametrize(
    "file", ["task.json", "model/config.json", "source_tokenizer/tokenizer.json"]
)
def test_newer_formats_are_rejected(file: str, tmp_path: Path) -> None:
    folder = unpack(SMALLEST, tmp_path)
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(content | {"format_version": 2}))
    write_manifest(folder / "model", ["config.json", "model.weights.h5"])
    with pytest.raises(
        ValueError, match=rf"{file} has format_version 2, .*; upgrade attention_zoo"
    ):
        tasks.load(folder)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "list": lambda path: path.write_text("[1]"),
    "number": lambda path: path.write_text("3"),
    "flipped": lambda path: path.write_bytes(b"\xff" + path.read_bytes()[1:]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_named_in_one_line(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    intact = tmp_path / "intact"
    tasks.load(unpack(SMALLEST, tmp_path)).save(intact)
    for number, file in enumerate(FILES):
        folder = Path(shutil.copytree(intact, tmp_path / str(number)))
        DAMAGES[damage](folder / file)
        assert main(["predict", str(folder)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"attention-zoo: error: {folder}")
        assert error.count("\n") == 1
        assert Path(file).name in error
        assert "outdated" not in error

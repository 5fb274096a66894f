"""`load` finds a task in a run folder, the zoo or the hub, or raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models, tasks
from attention_zoo.export import export
from attention_zoo.training import read_recipe
from tests.hub import use_cache, write_repository
from tests.models.public.checkpoints import GOLDEN
from tests.training.small import copy_of_small_run, small_run

ROOT = Path(__file__).parents[2]
TRANSLATORS = sorted(
    path.parent for path in (ROOT / "models").glob("translation/*.dates_*/task.json")
)


def test_run_and_checkpoint_folders() -> None:
    run = small_run()
    best = run / "checkpoints" / "step-00000040"
    expected = tasks.load(best).model.get_weights()
    for want, weight in zip(expected, tasks.load(str(run)).model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, want)
    assert tasks.find_task_folder(run) == best


def test_damaged_checkpoint_is_skipped_and_never_loaded(tmp_path: Path) -> None:
    run = copy_of_small_run(tmp_path)
    last, before = (run / "checkpoints" / f"step-{step:08d}" for step in (40, 20))
    weights = last / "model" / "model.weights.h5"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    with pytest.warns(UserWarning, match=r"step-00000040: model/model\.weights\.h5 is damaged"):
        assert tasks.find_task_folder(run) == before
    with pytest.raises(ValueError, match=r"weights\.h5 is damaged; use another checkpoint"):
        tasks.load(last)
    (before / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"step-00000020: manifest\.json is missing; use another"):
        tasks.load(before)


@pytest.mark.parametrize("dtype", models.precision.DTYPES)
def test_dtype(dtype: str) -> None:
    before = keras.config.dtype_policy()
    task, reference = tasks.load(GOLDEN / "distilbert_tagger", dtype), tasks.load(small_run())
    policies = {layer.dtype_policy.name for layer in task.model._flatten_layers()}
    assert policies == {dtype}
    assert keras.config.dtype_policy() is before
    assert reference.model.dtype_policy.name == before.name
    (result,) = task.predict([["Ida", "lives"]])
    (want,) = tasks.load(GOLDEN / "distilbert_tagger").predict([["Ida", "lives"]])
    np.testing.assert_allclose(result.score, want.score, rtol=0.01)


def test_unknown_dtype_raises() -> None:
    with pytest.raises(ValueError, match=r"dtype must be one of float32, .*got 'mixed_bfloat'"):
        tasks.load(small_run(), "mixed_bfloat")


@pytest.mark.full
@pytest.mark.parametrize("name", ["marian_translator", "bart", "t5_gated", "vit_gpt2"])
def test_exports_have_the_precision_of_the_model(name: str, tmp_path: Path) -> None:
    folder = GOLDEN / name
    given: Any = "ba de ki"
    if name == "vit_gpt2":
        given = (folder / "expected0.png").read_bytes()
    (want,) = tasks.load(folder).predict([given])
    task = tasks.load(folder, "mixed_bfloat16")
    (predicted,) = task.predict([given])
    exported = export(task, tmp_path / "served")
    served = tf.saved_model.load(exported).signatures["serving_default"]
    (source,) = served.structured_input_signature[1]
    outputs = served(**{source: tf.constant([given])})
    assert outputs["scores"].dtype == tf.float32
    assert outputs["text"].numpy()[0, 0].decode() == predicted.text
    np.testing.assert_allclose(outputs["scores"].numpy()[0, 0], predicted.score, rtol=0.01)
    # Rounding may change the order of hypotheses with nearly equal scores.
    assert 0 < abs(predicted.score - want.score) < 0.02


def test_folder_without_a_task_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: no such folder; train a model"):
        tasks.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"not a run folder .*; pass one that"):
        tasks.load(tmp_path)
    (tmp_path / "recipe.yaml").write_text("")
    with pytest.raises(ValueError, match=r"has no checkpoint yet"):
        tasks.load(tmp_path)
    for name in ("README.md", "results.json"):
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=r"contains a model card but no weights"):
        tasks.load(tmp_path)


def test_unknown_task_raises(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text('{"task": "translate"}')
    with pytest.raises(ValueError, match="unknown task 'translate'; did you mean 'translation'"):
        tasks.load(tmp_path)


def test_task_file_of_a_newer_version_raises(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text('{"format_version": 2, "task": "translation"}')
    with pytest.raises(ValueError, match=r"task\.json has format_version 2, .* reads up to 1"):
        tasks.load(tmp_path)


@pytest.mark.parametrize("entry", TRANSLATORS, ids=lambda entry: entry.name)
def test_zoo_entries_load_with_their_trained_weights(entry: Path) -> None:
    """The model predicts nearly all target tokens of its test split, given those before.

    `make test-zoo` computes the scores of all entries.
    """
    task = tasks.load(entry)
    recipe = read_recipe(ROOT / "training" / task.name / f"{entry.name}.yaml")
    inputs, labels = task.make_batches(recipe.data.read("test").take(range(16)), 16, 1).get_batch(0)
    predicted = np.asarray(task.model(inputs)).argmax(-1)
    assert (predicted == labels)[labels > 0].mean() > 0.9


def test_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_cache(monkeypatch, tmp_path)
    write_repository(tmp_path, "someone/dates", small_run())
    assert tasks.load("hf://someone/dates").name == "translation"
    assert tasks.load("hf://someone/dates/checkpoints/step-00000040").name == "translation"

"""Fine-tuning: `init`, frozen parts and `model.encoder.weights`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import tasks, training
from attention_zoo.training import override_recipe, read_recipe
from attention_zoo.training.fine_tuning import freeze, initial_task
from attention_zoo.training.fitting import headline, prepare
from attention_zoo.training.run_folder import RunState
from tests.refusals import refuses
from tests.training.small import RECIPE, arrays, assert_same_run, small_run, write_recipe

FINE_TUNING = """\
data: {corpus: dates, seed: 2, size: 100, validation_size: 20, test_size: 5, max_phrases: 1}
training: {steps: 8, evaluate_every: 4, batch_size: 16, learning_rate: 0.001}
"""


@pytest.fixture
def recipe_path(tmp_path: Path) -> Path:
    return write_recipe(tmp_path, f"init: {small_run()}\n{FINE_TUNING}")


def weights_of(layer: Any) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight) for weight in layer.weights]


def test_init_loads_weights_and_tokenizers_but_no_optimizer_state(
    recipe_path: Path, tmp_path: Path
) -> None:
    overrides = ["search.beam_width=3", "data.max_source_length=77"]
    job = prepare(
        read_recipe(recipe_path, overrides),
        tmp_path / "run",
        RunState(),
        tf.distribute.get_strategy(),
    )
    initial = tasks.load(small_run())
    for before, after in zip(weights_of(initial.model), weights_of(job.task.model), strict=True):
        np.testing.assert_array_equal(after, before)
    assert job.task.source_tokenizer.vocabulary == initial.source_tokenizer.vocabulary
    assert (job.task.search.beam_width, job.task.max_source_length) == (3, 77)
    optimizer = job.task.model.optimizer
    slots = [v for v in optimizer.variables if v is not optimizer._learning_rate]
    assert len(slots) > 10
    assert not any(keras.ops.convert_to_numpy(slot).any() for slot in slots)
    assert f"from the weights of {small_run()}" in headline(job)


@pytest.mark.full
def test_fine_tuned_run_resumes_exactly_without_the_initial_run(tmp_path: Path) -> None:
    initial = tmp_path / "initial"
    tasks.load(small_run()).save(initial)
    path = write_recipe(tmp_path, f"init: {initial}\n{FINE_TUNING}")
    overrides = ["model.preset=rnnsearch_small", "model.units=16", "model.embedding_dim=8"]
    overrides += ["model.dropout=0.2", "training.frozen=[encoder]", "training.checkpoint_every=3"]
    uninterrupted, resumed = (tmp_path / name for name in ("uninterrupted", "resumed"))
    training.fit(path, [f"run={uninterrupted}", *overrides])

    class StopAtBatch2(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit(path, [f"run={resumed}", *overrides], [StopAtBatch2()])
    initial.rename(tmp_path / "moved")
    training.fit(path, [f"run={resumed}", *overrides])
    assert_same_run(uninterrupted, resumed)
    assert tasks.load(resumed).model.settings["dropout"] == 0.2


@pytest.mark.full
def test_only_unfrozen_parts_are_trained(recipe_path: Path, tmp_path: Path) -> None:
    overrides = [f"run={tmp_path / 'run'}", "training.steps=4"]
    overrides.append("training.frozen=[encoder,decoder.cell,source_embedding]")
    result = training.fit(recipe_path, overrides)
    before, after = (tasks.load(run).model for run in (small_run(), result.folder))

    def changed(part: Callable[[Any], Any]) -> set[bool]:
        weights = zip(weights_of(part(before)), weights_of(part(after)), strict=True)
        return {bool((one != other).any()) for one, other in weights}

    for frozen in ("encoder", "decoder.cell", "source_embedding"):
        assert changed(operator.attrgetter(frozen)) == {False}
    for trained in ("target_embedding", "maxout", "vocabulary"):
        assert changed(operator.attrgetter(trained)) == {True}
    assert len(arrays(result.folder)) < len(arrays(small_run()))
    assert all(weight.trainable for weight in result.task.model.weights)


@pytest.mark.usefixtures("no_run_folder")
@refuses(
    (
        "model.preset=luong_small",
        r"has model class RNNSearch, but model\.preset=luong_small needs Luong",
    ),
    (
        "model={preset: rnnsearch_small, units: 17, embedding_dim: 8}",
        r"init=.* has model\.units=16, but the recipe has 17; use another init",
    ),
    ("model.units=16", r"model\.preset is missing"),
    (
        "tokenizer.kind=subword",
        r"init=.*: source tokenizer has kind word, but the recipe has tokenizer\.kind=subword",
    ),
    (
        "tokenizer={kind: word, lowercase: true}",
        r"has lowercase False, .* tokenizer\.lowercase=True",
    ),
    (
        "tokenizer={kind: word, vocabulary_size: 9}",
        r"source tokenizer has \d+ entries, .* tokenizer\.vocabulary_size=9 in the recipe",
    ),
    ("init=nowhere", "nowhere: no such folder"),
    (
        "training.frozen=[encodr]",
        r"training\.frozen: the model has no part 'encodr'; did you mean 'encoder'\? \(known: ",
    ),
    ("training.frozen=[decoder.vocabulary]", "the model has no part 'decoder.vocabulary'"),
)
def test_mismatch_with_init_raises(override: str, recipe_path: Path, tmp_path: Path) -> None:
    training.fit(recipe_path, [f"run={tmp_path / 'run'}", override])


def test_init_of_another_task_raises(recipe_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.Translation, "name", "tagging")
    with pytest.raises(ValueError, match="has task tagging, but the recipe has task=translation"):
        initial_task(read_recipe(recipe_path))


def test_init_accepts_matching_model_and_tokenizer_sections(tmp_path: Path) -> None:
    recipe = override_recipe(read_recipe(write_recipe(tmp_path, RECIPE)), [f"init={small_run()}"])
    assert recipe.tokenizer is not None
    assert initial_task(recipe).model.settings["units"] == 16


SCENES = """\
task: captioning
data: {corpus: scenes, size: 8, validation_size: 4, image_size: 16}
tokenizer: {kind: whitespace}
model: {preset: show_attend_tell_small, units: 6, encoder: {filters: [4]}}
training: {steps: 1, evaluate_every: 1, batch_size: 4, monitor: loss}
"""


@pytest.mark.full
def test_hard_attention_starts_from_soft_attention_weights(tmp_path: Path) -> None:
    """The baseline of REINFORCE is new.

    Before training, hard attention selects the position with the largest soft weight.
    """
    soft = training.fit(write_recipe(tmp_path, SCENES), [f"run={tmp_path / 'soft'}"]).task
    recipe_path = write_recipe(tmp_path, f"init: {tmp_path / 'soft'}\n{SCENES}")
    overrides = ["model.attention.kind=hard", "model.word_dropout=0.5"]
    hard = initial_task(read_recipe(recipe_path, overrides))
    assert hard.model.settings["attention"]["kind"] == "hard"
    assert [len(weights_of(task.model)) for task in (soft, hard)] == [23, 24]
    inputs = {"image": np.zeros((1, 16, 16, 3), "uint8"), "target": np.array([[2]])}
    for soft_weight, hard_weight in zip(
        soft.model.trainable_variables, hard.model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(hard_weight, soft_weight)
    attention_weights = [
        task.model.search(inputs["image"], max_length=1).attention for task in (soft, hard)
    ]
    assert np.argmax(attention_weights[0]) == np.argmax(attention_weights[1])
    assert np.max(attention_weights[1]) == 1


@pytest.mark.full
def test_image_encoder_is_initialized_from_another_run(tmp_path: Path) -> None:
    """`model.encoder.weights` of a retriever, frozen; its run is not needed to resume."""
    retrieval_recipe = SCENES.replace("captioning", "retrieval").replace(
        "show_attend_tell_small", "cross_attention_retriever_small"
    )
    retriever, run = tmp_path / "retriever", tmp_path / "captioner"
    retrieval_path = write_recipe(tmp_path, retrieval_recipe)
    retriever_model = training.fit(retrieval_path, [f"run={retriever}"]).task.model
    overrides = [f"run={run}", "training.frozen=[encoder]", f"model.encoder.weights={retriever}"]
    recipe_path = write_recipe(tmp_path, SCENES)
    training.fit(recipe_path, overrides)
    retriever.rename(tmp_path / "moved")
    training.fit(recipe_path, [*overrides, "training.steps=2"], allow=["training.steps"])
    encoder = tasks.load(run).model.encoder
    for weight, initial in zip(
        weights_of(encoder), weights_of(retriever_model.encoder), strict=True
    ):
        np.testing.assert_array_equal(weight, initial)
    assert np.ptp(weights_of(encoder)[0]) > 0


@pytest.mark.full
def test_init_and_frozen_cannot_change_within_a_run(recipe_path: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training.fit(recipe_path, [f"run={run}", "training.steps=1"])
    overrides = [f"run={run}", "training.steps=1"]
    for override in ("init=null", "training.frozen=[encoder]"):
        with pytest.raises(ValueError, match=r"cannot change within a run"):
            training.fit(
                recipe_path, [*overrides, override], allow=["init", "training", "tokenizer"]
            )


def test_parts_of_any_model_are_found_by_name() -> None:
    class Stack(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = [keras.layers.Dense(2) for _ in range(3)]
            self.head = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    model = Stack()
    model(np.zeros((1, 2)))
    freeze(model, ["blocks.1"])
    assert len(model.trainable_variables) == 6
    freeze(model, ["blocks"])
    assert len(model.trainable_variables) == 2
    with pytest.raises(ValueError, match="head: no trainable weights remain; remove a part"):
        freeze(model, ["head"])
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="first")])
    with pytest.raises(ValueError, match=r"known: first"):
        freeze(plain, ["last"])

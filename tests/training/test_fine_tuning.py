"""`init`: a run starts from the weights of another, and may leave parts of them as they are."""

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
from attention_zoo.training.fine_tuning import freeze, load_initial_task
from attention_zoo.training.fitting import describe_job, prepare
from attention_zoo.training.run_folder import RunState
from tests.refusals import refuses
from tests.training.small import PAGE, arrays, assert_same_run, small_run, write_recipe

FINE = """\
data: {corpus: dates, seed: 2, size: 100, validation_size: 20, test_size: 5, max_phrases: 1}
training: {steps: 8, evaluate_every: 4, batch_size: 16, learning_rate: 0.001}
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write_recipe(tmp_path, f"init: {small_run()}\n{FINE}")


def arrays_of(layer: Any) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight) for weight in layer.weights]


def test_weights_and_tokenizers_are_the_initial_ones_and_the_optimizer_is_new(
    page: Path, tmp_path: Path
) -> None:
    words = ["search.beam_width=3", "data.max_source_length=77"]
    job = prepare(
        read_recipe(page, words), tmp_path / "run", RunState(), tf.distribute.get_strategy()
    )
    initial = tasks.load(small_run())
    for one, other in zip(arrays_of(initial.model), arrays_of(job.task.model), strict=True):
        np.testing.assert_array_equal(other, one)
    assert job.task.source_tokenizer.vocabulary == initial.source_tokenizer.vocabulary
    assert (job.task.search.beam_width, job.task.max_source_length) == (3, 77)
    optimizer = job.task.model.optimizer
    slots = [v for v in optimizer.variables if v is not optimizer._learning_rate]
    assert len(slots) > 10
    assert not any(keras.ops.convert_to_numpy(slot).any() for slot in slots)
    assert f"from the weights of {small_run()}" in describe_job(job)


@pytest.mark.full
def test_fine_tuned_run_resumes_exactly_without_the_initial_run(tmp_path: Path) -> None:
    initial = tmp_path / "initial"
    tasks.load(small_run()).save(initial)
    path = write_recipe(tmp_path, f"init: {initial}\n{FINE}")
    words = ["model.preset=rnnsearch_small", "model.units=16", "model.embedding_dim=8"]
    words += ["model.dropout=0.2", "training.frozen=[encoder]", "training.checkpoint_every=3"]
    whole, stopped = (tmp_path / name for name in ("whole", "stopped"))
    training.fit(path, [f"run={whole}", *words])

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.fit(path, [f"run={stopped}", *words], [Stop()])
    initial.rename(tmp_path / "gone")
    training.fit(path, [f"run={stopped}", *words])
    assert_same_run(whole, stopped)
    assert tasks.load(stopped).model.settings["dropout"] == 0.2


@pytest.mark.full
def test_only_frozen_parts_do_not_change(page: Path, tmp_path: Path) -> None:
    words = [f"run={tmp_path / 'run'}", "training.steps=4"]
    words.append("training.frozen=[encoder,decoder.cell,source_embedding]")
    result = training.fit(page, words)
    before, after = (tasks.load(run).model for run in (small_run(), result.folder))

    def changed(part: Callable[[Any], Any]) -> set[bool]:
        weights = zip(arrays_of(part(before)), arrays_of(part(after)), strict=True)
        return {bool((one != other).any()) for one, other in weights}

    for frozen in ("encoder", "decoder.cell", "source_embedding"):
        assert changed(operator.attrgetter(frozen)) == {False}
    for trained in ("target_embedding", "maxout", "vocabulary"):
        assert changed(operator.attrgetter(trained)) == {True}
    assert len(arrays(result.folder)) < len(arrays(small_run()))
    assert all(weight.trainable for weight in result.task.model.weights)


@pytest.mark.usefixtures("no_run_folder")
@refuses(
    ("model.preset=luong_small", r"a RNNSearch, but model\.preset=luong_small is a LuongTranslato"),
    (
        "model={preset: rnnsearch_small, units: 17, embedding_dim: 8}",
        r"init=.*: it has model\.units=16, but the recipe has 17; use another init",
    ),
    ("model.units=17", r"init=.*: it has model\.units=16, but the recipe has 17; use another"),
    ("model.unit=16", "RNNSearch has no argument .unit.; did you mean"),
    (
        "tokenizer.kind=subword",
        r"its source tokenizer has kind word, but the recipe has tokenizer\.kind=subword",
    ),
    (
        "tokenizer={kind: word, lowercase: true}",
        r"has lowercase False, .* tokenizer\.lowercase=True",
    ),
    (
        "tokenizer={kind: word, vocabulary_size: 9}",
        r"its source tokenizer has \d+ entries, .* tokenizer\.vocabulary_size=9 in the recipe",
    ),
    ("init=nowhere", "nowhere: no such folder"),
    (
        "training.frozen=[encodr]",
        r"training\.frozen: encodr: no part 'encodr'; did you mean 'encoder'\? \(known: .*decoder",
    ),
    ("training.frozen=[decoder.vocabulary]", "decoder.vocabulary: no part 'vocabulary'"),
)
def test_mismatch_raises_with_its_name(override: str, page: Path, tmp_path: Path) -> None:
    training.fit(page, [f"run={tmp_path / 'run'}", override])


def test_other_task_raises(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.Translation, "name", "tagging")
    with pytest.raises(ValueError, match="its task is tagging, the recipe has task=translation"):
        load_initial_task(read_recipe(page))


def test_recipe_may_repeat_model_and_tokenizer(tmp_path: Path) -> None:
    recipe = override_recipe(read_recipe(write_recipe(tmp_path, PAGE)), [f"init={small_run()}"])
    assert recipe.tokenizer is not None
    assert load_initial_task(recipe).model.settings["units"] == 16


SCENES = """\
task: captioning
data: {corpus: scenes, size: 8, validation_size: 4, image_size: 16}
tokenizer: {kind: whitespace}
model: {preset: show_attend_tell_small, units: 6, encoder: {filters: [4]}}
training: {steps: 1, evaluate_every: 1, batch_size: 4, monitor: loss}
"""


@pytest.mark.full
def test_hard_attention_starts_from_soft_attention(tmp_path: Path) -> None:
    """The baseline is new; hard attention selects the position of the largest weight."""
    soft = training.fit(write_recipe(tmp_path, SCENES), [f"run={tmp_path / 'soft'}"]).task
    page = write_recipe(tmp_path, f"init: {tmp_path / 'soft'}\n{SCENES}")
    words = ["model.attention.kind=hard", "model.word_dropout=0.5"]
    hard = load_initial_task(read_recipe(page, words))
    assert hard.model.settings["attention"]["kind"] == "hard"
    assert [len(arrays_of(task.model)) for task in (soft, hard)] == [23, 24]
    inputs = {"image": np.zeros((1, 16, 16, 3), "uint8"), "target": np.array([[2]])}
    for one, other in zip(
        soft.model.trainable_variables, hard.model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(one, other)
    weights = [task.model.search(inputs["image"], max_length=1).attention for task in (soft, hard)]
    assert np.argmax(weights[0]) == np.argmax(weights[1])
    assert np.max(weights[1]) == 1


@pytest.mark.full
def test_image_encoder_starts_from_another_run(tmp_path: Path) -> None:
    """A retriever's, which a captioner leaves as it is, and does not need to go on."""
    other = SCENES.replace("captioning", "retrieval").replace(
        "show_attend_tell_small", "cross_attention_retriever_small"
    )
    retriever, run = tmp_path / "retriever", tmp_path / "captioner"
    taught = training.fit(write_recipe(tmp_path, other), [f"run={retriever}"]).task.model
    words = [f"run={run}", "training.frozen=[encoder]", f"model.encoder.weights={retriever}"]
    page = write_recipe(tmp_path, SCENES)
    training.fit(page, words)
    retriever.rename(tmp_path / "gone")
    training.fit(page, [*words, "training.steps=2"], allow=["training.steps"])
    kept = tasks.load(run).model.encoder
    for weight, first in zip(arrays_of(kept), arrays_of(taught.encoder), strict=True):
        np.testing.assert_array_equal(weight, first)
    assert np.ptp(arrays_of(kept)[0]) > 0


@pytest.mark.full
def test_init_cannot_change_within_a_run(page: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training.fit(page, [f"run={run}", "training.steps=1"])
    words = [f"run={run}", "training.steps=1"]
    for word in ("init=null", "training.frozen=[encoder]"):
        with pytest.raises(ValueError, match=r"cannot change within a run"):
            training.fit(page, [*words, word], allow=["init", "training", "tokenizer"])


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

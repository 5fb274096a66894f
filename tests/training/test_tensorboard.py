"""TensorBoard files of a run: every point once, and images of the attention."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_zoo import tasks, training
from attention_zoo.cli.train import draw_attention
from attention_zoo.data import TextPairs
from attention_zoo.inspection.attention_callback import AttentionCallback
from attention_zoo.tasks import Caption, Translation, TranslationResult
from attention_zoo.training.callbacks import Checkpoints
from attention_zoo.training.fitting import make_image_callbacks
from attention_zoo.training.tensorboard import FOLDER, Events, trim_events
from tests.tasks.captioners import captioned, make_untrained_task
from tests.training.small import RESUMED, assert_same_run, fit, records, small_run, write_recipe


def shown(run: Path) -> EventAccumulator:
    events = EventAccumulator(str(run / FOLDER), size_guidance={"tensors": 0})
    events.Reload()
    return events


def curve(run: Path, name: str) -> list[tuple[int, float]]:
    points = shown(run).Tensors(name)
    return [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in points]


def written(run: Path, steps: range) -> None:
    events = Events(run)
    for step in steps:
        events.write_image(step, "attention/1", np.full((5, 4, 3), step, "uint8"))
        events.write_scalars(step, {"loss": float(step)})


def test_events_after_a_step_are_removed(tmp_path: Path) -> None:
    written(tmp_path, range(1, 6))
    (file,) = (tmp_path / FOLDER).iterdir()
    before = file.read_bytes()
    trim_events(tmp_path, 5)
    assert file.read_bytes() == before
    trim_events(tmp_path, 3)
    assert curve(tmp_path, "loss") == [(step, float(step)) for step in (1, 2, 3)]
    assert [event.step for event in shown(tmp_path).Tensors("attention/1")] == [1, 2, 3]
    written(tmp_path, range(4, 6))
    assert curve(tmp_path, "loss") == [(step, float(step)) for step in (1, 2, 3, 4, 5)]
    assert len(list((tmp_path / FOLDER).iterdir())) == 2
    trim_events(tmp_path, 0)
    assert list((tmp_path / FOLDER).iterdir()) == []
    trim_events(tmp_path / "none", 0)


def test_incomplete_event_file(tmp_path: Path) -> None:
    written(tmp_path, range(1, 4))
    (file,) = (tmp_path / FOLDER).iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    trim_events(tmp_path, 9)
    assert curve(tmp_path, "loss") == [(1, 1.0), (2, 2.0)]
    whole = file.read_bytes()
    trim_events(tmp_path, 9)
    assert file.read_bytes() == whole


def test_folder_that_cannot_be_written_raises_oserror(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file")
    with pytest.raises(OSError, match="exists"):
        Events(tmp_path)


def test_full_disk_raises_oserror_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events(tmp_path)

    def fail(data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(events._file._records, "write", fail)
    with pytest.raises(OSError, match="No space left on device") as caught:
        events.write_scalars(1, {"loss": 1.0})
    assert caught.value.filename == str(tmp_path / FOLDER)


@pytest.mark.full
def test_resumed_run_shows_no_step_twice_and_images_of_each_evaluation(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures change nothing of the run."""
    path, run = write_recipe(tmp_path), tmp_path / "run"

    words, real = [f"run={run}", *RESUMED], Checkpoints.save

    def save(self: Checkpoints) -> None:
        if self.state.step == 40:  # logged, and not saved
            raise KeyboardInterrupt
        real(self)

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(KeyboardInterrupt):
        training.fit(path, words, draw=draw_attention)
    monkeypatch.undo()
    assert [step for step, _ in curve(run, "loss")] == [20, 40]
    training.fit(path, words, draw=draw_attention)
    assert_same_run(whole, run)
    logged = [(line["step"], pytest.approx(line["val_loss"])) for line in records(run)]
    assert curve(run, "val_loss") == logged
    pictures = [shown(run).Tensors(f"attention/{number}") for number in (1, 2, 3)]
    assert any(event.step == 40 for events in pictures for event in events)
    assert all(len({event.step for event in events}) == len(events) for events in pictures)


@pytest.mark.full
def test_attention_callback_changes_nothing_of_the_run(tmp_path: Path) -> None:
    """The steps of the recurrent decoder are one map."""
    examples = training.read_recipe(write_recipe(tmp_path)).data.read("train")
    batches = tasks.load(small_run()).make_batches(examples, 4, 1)
    inputs, *_ = next(iter(batches.dataset(0)))
    run = fit(tmp_path, callbacks=[AttentionCallback(tmp_path / FOLDER, inputs)]).folder
    assert_same_run(small_run(), run)
    path = "decoder/cell/attentions/0"
    assert [step for step, _ in curve(tmp_path, f"attention_entropy/{path}")] == [0, 1]
    assert len(shown(tmp_path).Tensors(f"attention_map/{path}")) == 2


def test_empty_results_and_results_without_attention_are_not_drawn() -> None:
    answer = small_answer(np.array([[0.25, 0.75]]), ("a",))
    pixels = draw_attention(TASK, answer)
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.std() > 10
    assert draw_attention(TASK, small_answer(None, ("a",))) is None
    assert draw_attention(TASK, small_answer(np.zeros((0, 2)), ())) is None


TASK = Translation(None, None, None)


def small_answer(attention: Any, tokens: tuple[str, ...]) -> TranslationResult:
    return TranslationResult(
        text="a",
        score=0.0,
        tokens=tokens,
        token_scores=(0.0,) * len(tokens),
        source_tokens=("b", "c"),
        attention=attention,
    )


def test_small_run_has_curves_and_no_images() -> None:
    """Nothing was handed to `fit` to draw with."""
    assert [step for step, _ in curve(small_run(), "loss")] == [20, 40]
    assert "attention/1" not in shown(small_run()).Tags()["tensors"]


def predict_letters(texts: list[str], on_error: str = "raise") -> list[Any]:
    """Return a result for each letter; the result of "b" is a failed one."""
    if on_error == "raise":
        raise ValueError("the model returned NaN")
    return [SimpleNamespace(text=text, ok=text != "b") for text in texts]


def test_three_validation_examples_are_drawn() -> None:
    """Examples without a prediction are skipped; nothing is drawn without `draw` or texts."""
    task = SimpleNamespace(
        predict=predict_letters, get_predict_inputs=lambda examples: examples.sources
    )
    job: Any = SimpleNamespace(validation=make_pairs("abcdef"), task=task, state=None)
    drawn: list[str] = []
    (callback,) = make_image_callbacks(job, lambda task, result: drawn.append(result.text), None)
    callback.on_epoch_end(0, {})
    assert drawn == ["a", "c"]
    assert make_image_callbacks(job, None, None) == []
    task.get_predict_inputs = lambda examples: ()
    assert make_image_callbacks(job, lambda task, result: None, None) == []


def make_pairs(letters: str) -> TextPairs:
    return TextPairs(list(letters), list(letters), "letters")


def test_captions_of_validation_images_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed results, and those of captioners without spatial attention, are skipped."""
    task, examples = make_untrained_task(), captioned(5)
    predicted: list[Any] = []

    def predict(images: list[Any], on_error: str) -> list[Caption]:
        predicted.extend(images)
        weights, words = np.full((2, 3, 3), 1 / 9), ("a", "dog")
        caption = Caption(text="a dog", score=0.0, tokens=words, attention=weights, image=images[0])
        return [caption, Caption.failed("NaN"), replace(caption, attention=None)]

    monkeypatch.setattr(task, "predict", predict)
    events, state = Events(tmp_path), SimpleNamespace(step=7)
    job: Any = SimpleNamespace(validation=examples, task=task, state=state)
    (callback,) = make_image_callbacks(job, draw_attention, events)
    callback.on_epoch_end(0, {})
    events.write_scalars(7, {})
    np.testing.assert_array_equal(predicted, examples.images[:3])
    (event,) = shown(tmp_path).Tensors("attention/1")
    assert event.step == 7
    assert shown(tmp_path).Tags()["tensors"] == ["attention/1"]

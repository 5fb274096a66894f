"""TensorBoard events of a run: each point once, and pictures of attention."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_zoo import training
from attention_zoo.cli.train import draw_attention
from attention_zoo.tasks import Translation, TranslationResult
from attention_zoo.training.callbacks import Checkpoints
from attention_zoo.training.fitting import pictures
from attention_zoo.training.tensorboard import FOLDER, Events, cut_back
from tests.training.small import RESUME_OVERRIDES, assert_same_run, records, small_run, write_recipe


def read_events(run: Path) -> EventAccumulator:
    events = EventAccumulator(str(run / FOLDER), size_guidance={"tensors": 0})
    events.Reload()
    return events


def curve(run: Path, name: str) -> list[tuple[int, float]]:
    tensors = read_events(run).Tensors(name)
    return [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in tensors]


def write_events(run: Path, steps: range) -> None:
    events = Events(run)
    for step in steps:
        events.picture(step, "attention/1", np.full((5, 4, 3), step, "uint8"))
        events.scalars(step, {"loss": float(step)})


def test_events_after_a_step_are_removed(tmp_path: Path) -> None:
    write_events(tmp_path, range(1, 6))
    (file,) = (tmp_path / FOLDER).iterdir()
    before = file.read_bytes()
    cut_back(tmp_path, 5)
    assert file.read_bytes() == before
    cut_back(tmp_path, 3)
    assert curve(tmp_path, "loss") == [(step, float(step)) for step in (1, 2, 3)]
    assert [event.step for event in read_events(tmp_path).Tensors("attention/1")] == [1, 2, 3]
    write_events(tmp_path, range(4, 6))
    assert curve(tmp_path, "loss") == [(step, float(step)) for step in (1, 2, 3, 4, 5)]
    assert len(list((tmp_path / FOLDER).iterdir())) == 2
    cut_back(tmp_path, 0)
    assert list((tmp_path / FOLDER).iterdir()) == []
    cut_back(tmp_path / "none", 0)


def test_truncated_event_file_is_repaired(tmp_path: Path) -> None:
    write_events(tmp_path, range(1, 4))
    (file,) = (tmp_path / FOLDER).iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    cut_back(tmp_path, 9)
    assert curve(tmp_path, "loss") == [(1, 1.0), (2, 2.0)]
    content = file.read_bytes()
    cut_back(tmp_path, 9)
    assert file.read_bytes() == content


def test_unwritable_folder_raises_os_error(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file")
    with pytest.raises(OSError, match="exists"):
        Events(tmp_path)


def test_write_error_of_tensorflow_becomes_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "events; No space left on device")

    monkeypatch.setattr(tf.summary, "scalar", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        events.scalars(1, {"loss": 1.0})
    assert caught.value.filename == str(tmp_path / FOLDER)


@pytest.mark.full
def test_resumed_run_logs_each_step_once_and_pictures_of_each_evaluation(
    uninterrupted_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures do not change the run."""
    path, run = write_recipe(tmp_path), tmp_path / "run"

    overrides, real = [f"run={run}", *RESUME_OVERRIDES], Checkpoints.save

    def save(self: Checkpoints) -> None:
        if self.state.step == 40:  # logged, and not saved
            raise KeyboardInterrupt
        real(self)

    monkeypatch.setattr(Checkpoints, "save", save)
    with pytest.raises(KeyboardInterrupt):
        training.fit(path, overrides, draw=draw_attention)
    monkeypatch.undo()
    assert [step for step, _ in curve(run, "loss")] == [20, 40]
    training.fit(path, overrides, draw=draw_attention)
    assert_same_run(uninterrupted_run, run)
    logged = [(line["step"], pytest.approx(line["val_loss"])) for line in records(run)]
    assert curve(run, "val_loss") == logged
    pictures = [read_events(run).Tensors(f"attention/{number}") for number in (1, 2, 3)]
    assert any(event.step == 40 for events in pictures for event in events)
    assert all(len({event.step for event in events}) == len(events) for events in pictures)


def test_no_picture_of_an_empty_translation_or_without_attention() -> None:
    result = make_result(np.array([[0.25, 0.75]]), ("a",))
    pixels = draw_attention(TASK, result)
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.std() > 10
    assert draw_attention(TASK, make_result(None, ("a",))) is None
    assert draw_attention(TASK, make_result(np.zeros((0, 2)), ())) is None


TASK = Translation(None, None, None)


def make_result(attention: Any, tokens: tuple[str, ...]) -> TranslationResult:
    return TranslationResult(
        text="a",
        score=0.0,
        tokens=tokens,
        token_scores=(0.0,) * len(tokens),
        source_tokens=("b", "c"),
        attention=attention,
    )


def test_run_without_draw_has_curves_but_no_pictures() -> None:
    """`fit` was called without `draw`."""
    assert [step for step, _ in curve(small_run(), "loss")] == [20, 40]
    assert "attention/1" not in read_events(small_run()).Tags()["tensors"]


def test_three_validation_examples_are_drawn() -> None:
    """No picture without `draw` or without texts."""
    task = SimpleNamespace(
        predict=lambda texts: texts, predict_inputs=lambda examples: examples.sources
    )
    job: Any = SimpleNamespace(
        validation=SimpleNamespace(sources=list("abcdef")), task=task, state=None
    )
    (callback,) = pictures(job, lambda task, result: None, None)
    assert callback.answers() == ["a", "b", "c"]
    assert pictures(job, None, None) == []
    job.validation.sources = []
    assert pictures(job, lambda task, result: None, None) == []

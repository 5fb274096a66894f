"""`fit` on a generated corpus: it learns, it goes on exactly, it refuses what is not its own."""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf

from attention_zoo import tasks, training
from attention_zoo.data import TextPairs
from attention_zoo.training import devices, fitting, read_recipe
from attention_zoo.training.callbacks import Clock
from attention_zoo.training.fitting import describe_job, make_metric_callbacks, prepare
from attention_zoo.training.recipe import TrainingOptions
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.stopping import StopRequest
from tests.refusals import refuses
from tests.training import custom_task
from tests.training.small import (
    PAGE,
    RESUMED,
    assert_same_run,
    contents,
    fit,
    newest,
    records,
    small_run,
    write_recipe,
)


class StopAfter(keras.callbacks.Callback):
    """Interrupts training after a number of its batches, as Ctrl-C does."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_modules_are_imported_and_recorded(
    user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("one", "other")
    for name in names:
        (user_folder / f"{name}.py").write_text("")
    recorded: list[list[str]] = []
    monkeypatch.setattr(fitting, "check_allowed", lambda recipe, _: recorded.append(recipe.imports))
    monkeypatch.setattr(fitting, "find_moved_data", lambda *_: 1 / 0)
    path = write_recipe(user_folder, f"imports: [one]\n{PAGE}")
    for recipe in (path, read_recipe(path)):
        with pytest.raises(ZeroDivisionError):
            training.fit(recipe, imports=["other", "one"])
        assert {*names} <= {*sys.modules}
        for name in names:
            del sys.modules[name]
    assert recorded == [["one", "other"]] * 2


@pytest.mark.full
def test_later_evaluations_trace_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is traced stays in memory for good."""
    traced: list[int] = []
    at_ends: list[int] = []

    def shard(*given: Any) -> Any:
        traced.append(1)
        return _shard(*given)

    _shard = devices._shard
    monkeypatch.setattr(devices, "_shard", shard)
    after = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: at_ends.append(len(traced))
    )
    fit(tmp_path, callbacks=[after], steps=4, evaluate_every=1)
    assert at_ends == [at_ends[0]] * 4
    assert at_ends[0] > 0


@pytest.mark.full
def test_run_folder_and_learning() -> None:
    folder = small_run()
    log = records(folder)
    assert [line["step"] for line in log] == [20, 40]
    assert log[1]["loss"] < log[0]["loss"] - 0.3
    assert log[1]["val_loss"] < log[0]["val_loss"]
    assert log[0]["learning_rate"] == pytest.approx(0.01)
    assert log[0]["tokens_per_second"] > 0
    assert list((folder / "tensorboard").iterdir())
    state = json.loads((newest(folder) / "training.json").read_text())
    assert state["step"] == state["best_step"] == 40
    assert state["best"] == pytest.approx(log[1]["val_loss"])
    assert state["pending"] is None


def test_result_names_the_run(tmp_path: Path) -> None:
    result = training.fit(write_recipe(tmp_path), [f"run={small_run()}"])
    assert (result.step, result.best_step, result.folder) == (40, 40, small_run())
    assert result.task.name == "translation"


def test_finished_run_is_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(small_run())
    training.fit(write_recipe(tmp_path), [f"run={small_run()}"])
    assert "finished at step 40, nothing to do" in capsys.readouterr().out
    assert contents(small_run()) == before


COVERAGE_PAGE = """\
task: summarization
data: {corpus: reports, size: 100, validation_size: 8, test_size: 4}
tokenizer: {kind: whitespace, vocabulary_size: 80}
model: {preset: pointer_generator_coverage_small, embedding_dim: 8, units: 8,
  coverage: {from_step: 5, weight: 1.0}}
training: {steps: 8, evaluate_every: 4, batch_size: 8, checkpoint_every: 3}
"""


@pytest.mark.full
def test_coverage_starts_at_its_step_in_a_resumed_run(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, COVERAGE_PAGE)
    whole = training.fit(path, [f"run={tmp_path / 'whole'}"]).folder
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        training.fit(path, [f"run={folder}"], callbacks=[StopAfter(4)])
    assert newest(folder).name == "step-00000003"
    task = training.fit(path, [f"run={folder}"]).task
    assert_same_run(whole, folder)
    assert int(task.model.switch.steps) == 8
    first, second = records(folder)
    assert second["val_loss"] < first["val_loss"]
    assert first["auxiliary_loss"] == 0
    assert second["auxiliary_loss"] > 0.1  # the coverage loss
    assert second["loss"] == pytest.approx(first["loss"], abs=0.1)


def test_other_recipe_raises_and_changes_nothing(tmp_path: Path) -> None:
    before = contents(small_run())
    with pytest.raises(ValueError, match=r"training\.learning_rate 0\.01 -> 0\.5"):
        training.fit(write_recipe(tmp_path), [f"run={small_run()}", "training.learning_rate=0.5"])
    assert contents(small_run()) == before


def test_folder_without_a_run_raises(tmp_path: Path) -> None:
    path = write_recipe(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for run in ("mine", "mine/letter.txt"):
        with pytest.raises(ValueError, match="exists but holds no run; use another run=FOLDER"):
            training.fit(path, [f"run={tmp_path / run}"])
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.usefixtures("no_run_folder")
@refuses(
    ("training.monitor=blue", r"training\.monitor=blue: unknown; did you mean 'bleu'\?"),
    ("training.optimizer=adm", "unknown optimizer 'adm'; did you mean 'adam'"),
    ("training.schedule=nom", "unknown schedule 'nom'; did you mean 'noam'"),
    ("model.preset=rnnserch_small", "did you mean 'rnnsearch_small'"),
    ("model.preset=gpt_tiny", r"^model\.preset=gpt_tiny builds .* \(GPT\); use one of luong_base,"),
    ("model.unit=3", r"^model\.unit=3: .* RNNSearch has no argument 'unit'; did you mean 'units'"),
    ("model.source_vocabulary_size=3", r"model\.source_vocabulary_size: determined by the data"),
    ("model.units=wide", r"^model\.units=wide: model\.units: expected int, got 'wide'"),
    ("model.units=true", r"^model\.units=true: model\.units: expected int, got True"),
    ("model.units=-1", r"^model\.units=-1: model\.units must be at least 1, got -1"),
    ("tokenizer.kind=words", "unknown tokenizer.*'words'; did you mean 'word'"),
    ("task=translate", "unknown task 'translate'; did you mean 'translation'"),
    ("data.source=EN", r"^data\.source=EN: .*unknown language 'EN'; did you mean 'en'"),
    ("data.max_target_length=1", r"none of its 300 pairs fits .* raise data\.max_source_length"),
)
def test_error_leaves_no_folder(override: str, tmp_path: Path) -> None:
    fit(tmp_path, override)


@pytest.mark.full
def test_no_preset(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model\.preset is missing; name one of .*rnnsearch"):
        training.fit(write_recipe(tmp_path, "data: {corpus: dates}\n"), [f"run={tmp_path / 'x'}"])


@pytest.mark.full
def test_metric_as_monitor_early_stopping_and_best(tmp_path: Path) -> None:
    """A rate of nearly 0 never gets better than its first evaluation."""
    options = {"learning_rate": 1e-9, "monitor": "exact_match", "monitor_size": 3}
    result = fit(tmp_path, **options, evaluate_every=2, patience=2)
    assert (result.step, result.best_step) == (6, 2)
    kept = [path.name for path in sorted((result.folder / "checkpoints").iterdir())]
    assert kept == [f"step-{step:08d}" for step in (2, 4, 6)]
    assert tasks.find_task_folder(result.folder).name == "step-00000002"
    assert [line["val_exact_match"] for line in records(result.folder)] == [0.0, 0.0, 0.0]
    assert all("val_bleu" in line for line in records(result.folder))


@pytest.mark.full
def test_best_checkpoint_and_patience_survive_a_resume(tmp_path: Path) -> None:
    """The best is older than the newest, and the third evaluation after it ends the run."""
    folder = tmp_path / "run"
    options = {"learning_rate": 1e-9, "monitor": "exact_match", "monitor_size": 3}
    options |= {"evaluate_every": 2, "patience": 3, "checkpoint_every": 1, "keep_checkpoints": 1}
    for batches, saved in ((6, 5), (2, 7)):
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path, callbacks=[StopAfter(batches)], **options)
        assert newest(folder).name == f"step-{saved:08d}"
        assert tasks.find_task_folder(folder).name == "step-00000002"
    result = fit(tmp_path, **options)
    assert (result.step, result.best_step) == (8, 2)
    assert [line["step"] for line in records(folder)] == [2, 4, 6, 8]
    kept = [path.name for path in sorted((folder / "checkpoints").iterdir())]
    assert kept == ["step-00000002", "step-00000008"]


@pytest.mark.full
def test_runs_with_batch_tokens_resume_exactly(tmp_path: Path) -> None:
    options = {"batch_tokens": 200, "steps": 6, "evaluate_every": 3, "checkpoint_every": 1}
    (tmp_path / "whole").mkdir()
    whole = fit(tmp_path / "whole", *RESUMED[:2], **options).folder
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, *RESUMED[:2], **options, callbacks=[StopAfter(5)])
    assert fit(tmp_path, *RESUMED[:2], **options).step == 6
    assert_same_run(whole, tmp_path / "run")


@pytest.mark.parametrize(("batch_tokens", "most"), [(None, 64), (80, 80)])
def test_batches_of_a_recipe(batch_tokens: int | None, most: int) -> None:
    task, recipe = tasks.load(small_run()), read_recipe(small_run() / "recipe.yaml")
    recipe.training.batch_tokens, recipe.training.batch_size = batch_tokens, 4
    examples = TextPairs(["at 5:04 PM."] * 9, ["à 17 h 04."] * 9, "here")
    batches = fitting.make_batches(task, examples, recipe)
    sizes = [batches.get_batch(step)[1].size for step in range(batches.steps_per_epoch)]
    assert max(sizes) <= most
    assert len(sizes) == (3 if batch_tokens is None else 1)


def test_batch_tokens_below_the_longest_example() -> None:
    task, recipe = tasks.load(small_run()), read_recipe(small_run() / "recipe.yaml")
    recipe.training.batch_tokens = 5
    examples = TextPairs(["at 5:04 PM."], ["à 17 h 04."], "here")
    message = r"^here: training\.batch_tokens: example 1 has 8 tokens .*, the limit is 5; raise"
    with pytest.raises(ValueError, match=message):
        fitting.make_batches(task, examples, recipe)


@pytest.mark.usefixtures("custom_task")
def test_batch_tokens_of_batches_without_tokens(tmp_path: Path) -> None:
    recipe = custom_task.recipe(tmp_path / "run", batch_tokens=100)
    examples = recipe.data.read("train")
    task = custom_task.Regression.from_recipe(recipe, examples)
    with pytest.raises(ValueError, match=r"^training\.batch_tokens: .* has no limit_tokens; defi"):
        fitting.make_batches(task, examples, recipe)


@pytest.mark.full
def test_callback_can_stop_training(tmp_path: Path) -> None:
    class Enough(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = True

    options = {"evaluate_every": 4, "steps": 12, "keep_checkpoints": 1}
    assert fit(tmp_path, callbacks=[Enough()], **options).step == 4
    assert fit(tmp_path, **options).step == 12
    assert [line["step"] for line in records(tmp_path / "run")] == [4, 8, 12]
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1


def test_description_counts_dropped_pairs(tmp_path: Path) -> None:
    recipe = read_recipe(write_recipe(tmp_path), ["data.max_target_length=9"])
    job = prepare(recipe, tmp_path / "run", RunState(), tf.distribute.get_strategy())
    line = describe_job(job)
    assert 0 < len(job.train) < 300
    assert f"{len(job.train)} training pairs ({300 - len(job.train)} over the length limits" in line
    assert f"rnnsearch_small: {job.task.model.count_params():,} parameters" in line
    assert "float32" in line
    assert str(tmp_path / "run") in line
    sizes = [tokenizer.vocabulary_size for tokenizer in job.task.tokenizers.values()]
    assert f"; vocabulary {sizes[0]} source and {sizes[1]} target tokens;" in line


@pytest.mark.full
def test_non_finite_loss_saves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^step \d: the loss is (nan|inf) on training examples "):
        fit(tmp_path, learning_rate=1e38, clip_norm="null", optimizer="sgd")
    assert not list((tmp_path / "run" / "checkpoints").iterdir())
    other, options = tmp_path / "other", {"learning_rate": 1e38, "clip_norm": "null"}
    with pytest.raises(ValueError, match=r"^step 1: the validation loss is (nan|inf), "):
        fit(tmp_path, f"run={other}", **options, optimizer="sgd", steps=1)
    assert not list((other / "checkpoints").iterdir())


def test_metrics_are_nan_if_the_validation_loss_is() -> None:
    """`evaluate` raises an error for a model that returns NaN."""
    job: Any = SimpleNamespace(
        recipe=SimpleNamespace(training=TrainingOptions(monitor="bleu")),
        validation=TextPairs(["a"], ["b"], "here"),
        task=SimpleNamespace(
            metric_names=("bleu",),
            select_monitored=lambda examples, size: examples,
            evaluate=lambda examples: {"bleu": 5.0},
        ),
    )
    (callback,) = make_metric_callbacks(job)
    for loss, expected in ((1.0, 5.0), (float("nan"), float("nan"))):
        logs = {"val_loss": loss}
        callback.on_epoch_end(0, logs)
        assert logs["val_bleu"] == pytest.approx(expected, nan_ok=True)


@pytest.mark.full
def test_damaged_checkpoint_is_trained_again(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    (newest(folder) / "training.npz").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"step-00000040: training\.npz is damaged"):
        training.fit(write_recipe(tmp_path), [f"run={folder}", *RESUMED])
    assert_same_run(whole, folder)


@pytest.mark.full
def test_mixed_precision_restores_the_policy(tmp_path: Path) -> None:
    result = fit(tmp_path, precision="mixed_bfloat16")
    assert keras.config.dtype_policy().name == "float32"
    assert records(result.folder)[-1]["loss"] == pytest.approx(
        records(small_run())[-1]["loss"], rel=0.05
    )


def test_recipe_object_needs_a_folder(tmp_path: Path) -> None:
    recipe = read_recipe(write_recipe(tmp_path), [f"run={small_run()}"])
    assert training.fit(recipe).step == 40
    recipe.run = None
    with pytest.raises(ValueError, match="run is missing"):
        training.fit(recipe)


@pytest.mark.full
@pytest.mark.usefixtures("custom_task")
def test_callbacks_get_the_calls_of_keras(tmp_path: Path) -> None:
    class Hooks(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[Any] = []
            for hook in dir(self):
                if hook.startswith(("on_train_", "on_test_", "on_epoch_")):
                    setattr(self, hook, partial(self.note, hook))

        def note(self, hook: str, *given: Any, **named: Any) -> None:
            logs = named.get("logs", given[-1])
            at = [one for one in given if isinstance(one, int)]
            names = sorted(logs or {}) if "batch_begin" not in hook else []
            self.calls.append((hook, *at, *(name for name in names if "loss" in name)))

    ours, theirs = Hooks(), Hooks()
    recipe = custom_task.recipe(tmp_path / "run", {"size": 18}, steps=2, evaluate_every=2)
    task = training.fit(recipe, callbacks=[ours]).task
    task.model.compile("sgd", "mse")
    points = recipe.data.read("train")
    fitted = {"batch_size": 9, "validation_data": (points.x, points.y), "validation_batch_size": 9}
    task.model.fit(points.x, points.y, callbacks=[theirs], verbose=0, **fitted)
    assert len(ours.calls) > 10
    assert ours.calls == theirs.calls


def test_seconds_of_a_step_exclude_the_previous_checkpoint() -> None:
    clock = Clock(RunState(), StopRequest())
    clock.on_epoch_begin(0)
    for batch in range(3):
        clock.on_train_batch_begin(batch)
        clock.on_train_batch_end(batch)
        time.sleep(0.05)
    assert 0 < clock.seconds < 0.05
    assert clock.state.seconds == clock.seconds


@pytest.mark.full
def test_validation_examples_over_the_limits_are_dropped_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"monitor": "bleu", "steps": 2, "evaluate_every": 2, "monitor_size": 40}
    result = fit(tmp_path, "data.max_source_length=8", **options)
    assert result.best is not None
    (counts,) = re.findall(
        r"(\d+) validation pairs \((\d+) over the length limits dropped\)", capsys.readouterr().out
    )
    used, left_out = map(int, counts)
    assert used + left_out == 40
    assert left_out > 0

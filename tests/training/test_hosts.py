"""Several hosts come to what one comes to, and one that is lost ends the others."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from attention_zoo import training
from attention_zoo.training.hosts import (
    check_same_step,
    explain_worker_loss,
    has_several_hosts,
    is_chief,
    read_cluster,
)
from tests.training import custom_task
from tests.training.processes import FIT, configs, end, fit_words, start
from tests.training.small import assert_same_run, assert_similar_run, newest


def hosts(folder: Path, count: int = 2, program: str = FIT, **options: Any) -> list[Any]:
    """A run on several hosts, begun."""
    words = fit_words(folder, **options)
    return [start(program, words, TF_CONFIG=config) for config in configs(count)]


def test_without_tf_config_there_is_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert read_cluster() == {}
    assert not has_several_hosts()
    assert is_chief()


def test_chief_is_the_named_one_or_the_first_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    chiefs = []
    addresses: dict[str, list[str]]
    for addresses in ({"worker": ["a:1", "b:1"]}, {"chief": ["c:1"], "worker": ["a:1"]}):
        for kind, workers in addresses.items():
            for index in range(len(workers)):
                config = {"cluster": addresses, "task": {"type": kind, "index": index}}
                monkeypatch.setenv("TF_CONFIG", json.dumps(config))
                assert has_several_hosts()
                chiefs.append(is_chief())
    assert chiefs == [True, False, True, False]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}']
)
def test_incomplete_tf_config_raises(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(
        ValueError, match=r'^TF_CONFIG=.*: expected \{"cluster": .*, or unset TF_CONFIG$'
    ):
        has_several_hosts()


def test_worker_loss_is_explained_for_several_hosts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tf.errors.UnavailableError(None, None, "Connection reset\nmore")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(tf.errors.UnavailableError), explain_worker_loss():
        raise gone
    monkeypatch.setenv("TF_CONFIG", configs(2)[0])
    message = r"stop all hosts and start them .*\(Connection reset\)$"
    with pytest.raises(ValueError, match=message), explain_worker_loss():
        raise gone
    with pytest.raises(tf.errors.InvalidArgumentError), explain_worker_loss():
        raise tf.errors.InvalidArgumentError(None, None, "label 7 of 5")


@pytest.mark.parametrize("step", [1, 2, 3])
def test_every_host_raises_if_the_steps_differ(step: int) -> None:
    strategy: Any = SimpleNamespace(
        experimental_distribute_values_from_function=lambda function: function(None),
        gather=lambda values, axis: tf.concat([values, [9]], axis),
    )
    message = rf"got step {step} on this host and steps \[{step}, 9\] in all; use one run folder"
    with pytest.raises(ValueError, match=message):
        check_same_step(strategy, step)
    check_same_step(tf.distribute.get_strategy(), step)


@pytest.mark.slow
@pytest.mark.usefixtures("custom_task")
def test_two_hosts_equal_one(tmp_path: Path) -> None:
    """The last batch of a pass is of one example: the second host has no share of it."""
    options = {"clip_norm": 0.1, "ema": 0.9, "checkpoint_every": 3}
    for process in hosts(tmp_path / "two", **options):
        end(process)
    training.fit(custom_task.recipe(tmp_path / "one", **options))
    assert_similar_run(tmp_path / "one", tmp_path / "two")


EXAMPLES = """
import sys
import numpy as np
from attention_zoo.training import hosts, step
from attention_zoo.training.loop import TrainingLoop
from tests.training import custom_task
original_run = TrainingLoop.run
def run(self):
    from attention_zoo.training.devices import distribute_batches
    points = self.train.points
    self.train.points = custom_task.PointSet(np.arange(1, 38), np.arange(1, 38))
    stream = iter(distribute_batches(self.steps.strategy, self.train.dataset(0)))
    self.train.points = points
    local = self.steps.strategy.experimental_local_results
    numbers_of_host = []
    for _ in range(self.train.steps_per_epoch):
        (numbers,), _, (live,) = map(local, next(stream))
        numbers_of_host += numbers.numpy().tolist() * bool(live)
    print("EXAMPLES", numbers_of_host, flush=True)
    original_run(self)
    values = np.concatenate([w.numpy().ravel() for w in self.steps.model.weights])
    print("WEIGHTS", values.tobytes().hex(), flush=True)
TrainingLoop.run = run
"""


@pytest.mark.slow
def test_hosts_share_the_examples_and_have_the_same_weights(tmp_path: Path) -> None:
    texts = [end(process) for process in hosts(tmp_path / "run", program=EXAMPLES + FIT)]
    lines = [line for text in texts for line in text.splitlines()]
    examples = [
        json.loads(line.removeprefix("EXAMPLES ")) for line in lines if line.startswith("EXAMPLES ")
    ]
    assert len(examples) == 2
    assert sorted(examples[0] + examples[1]) == list(range(1, 38))
    assert min(map(len, examples)) >= 16
    weights = {line for line in lines if line.startswith("WEIGHTS ")}
    assert len(weights) == 1
    assert sum("examples/s" in text for text in texts) == 1  # the chief alone speaks of steps


SLOW = """
import keras, time
from attention_zoo.training.callbacks import Clock
stepped = Clock.on_train_batch_end
def slowly(self, batch, logs=None):
    print("STEP", batch, flush=True)
    time.sleep(0.2)
    stepped(self, batch, logs)
Clock.on_train_batch_end = slowly
"""


def begun(folder: Path, **options: Any) -> list[Any]:
    """A slow run on two hosts that has saved its sixth step."""
    both = hosts(folder, program=SLOW + FIT, **options)
    deadline = time.monotonic() + 90
    while not list(folder.glob("checkpoints/step-*6")):
        assert time.monotonic() < deadline, [process.communicate() for process in both]
        time.sleep(0.1)
    return both


def assert_all_go_on_exactly(folder: Path, whole: Path, **options: Any) -> None:
    for run in (folder, whole):
        for process in hosts(run, **options):
            end(process)
    assert_same_run(whole, folder)


SIXTY = {"steps": 60, "evaluate_every": 20, "checkpoint_every": 3}
AGAIN = "stop all hosts and start them with the same command"


@pytest.mark.usefixtures("custom_task")
@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(0, marks=pytest.mark.slow, id="the chief is lost"),
        pytest.param(1, marks=pytest.mark.soak, id="a worker is lost"),
    ],
)
def test_lost_host_ends_the_others_and_all_resume_exactly(lost: int, tmp_path: Path) -> None:
    both = begun(tmp_path / "run", **SIXTY)
    both[lost].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    text = end(both[1 - lost], code=1, within=60)
    assert time.monotonic() - killed < 30
    assert AGAIN in text
    both[lost].communicate()
    assert newest(tmp_path / "run").name != "step-00000060"
    assert_all_go_on_exactly(tmp_path / "run", tmp_path / "whole", **SIXTY)


@pytest.mark.slow
@pytest.mark.usefixtures("custom_task")
def test_stopped_hosts_save_their_last_step(tmp_path: Path) -> None:
    """The signal comes at the third step; without it, the first checkpoint is of step 19."""
    options = {**SIXTY, "checkpoint_every": 19}
    chief, worker = hosts(tmp_path / "run", program=SLOW + FIT, **options)
    assert any(line == "STEP 3\n" for line in chief.stdout), chief.communicate()
    for process in (worker, chief):
        process.send_signal(signal.SIGTERM)
    end(chief, code=3, within=60)
    assert AGAIN in end(worker, code=1, within=60)
    assert 3 <= int(newest(tmp_path / "run").name[5:]) < 19
    assert_all_go_on_exactly(tmp_path / "run", tmp_path / "whole", **options)


@pytest.mark.slow
def test_hosts_with_separate_folders_raise(tmp_path: Path) -> None:
    """One goes on from a checkpoint that the other does not see."""
    options = {"steps": 4, "evaluate_every": 2}
    end(start(FIT, fit_words(tmp_path / "b", stop=3, **options)), code=3)
    words = [fit_words(tmp_path / name, **options) for name in ("b", "c")]
    both = [
        start(FIT, given, TF_CONFIG=config) for given, config in zip(words, configs(2), strict=True)
    ]
    texts = [end(process, code=1) for process in both]
    assert all("use one run folder on shared storage" in text for text in texts)

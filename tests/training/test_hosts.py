"""Training on several hosts equals training on one; a lost host stops the others."""

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
from attention_zoo.training.hosts import agree, cluster, explain_worker_loss, is_chief, several
from tests.training import custom_task
from tests.training.processes import FIT, fit_arguments, make_tf_configs, start, wait
from tests.training.small import assert_same_run, assert_similar_run, newest


def start_hosts(folder: Path, count: int = 2, program: str = FIT, **options: Any) -> list[Any]:
    """Start a run on several hosts."""
    arguments = fit_arguments(folder, **options)
    return [start(program, arguments, TF_CONFIG=config) for config in make_tf_configs(count)]


def test_without_tf_config_there_is_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert cluster() == {}
    assert not several()
    assert is_chief()


def test_chief_is_the_task_chief_or_worker_0(monkeypatch: pytest.MonkeyPatch) -> None:
    chiefs = []
    addresses: dict[str, list[str]]
    for addresses in ({"worker": ["a:1", "b:1"]}, {"chief": ["c:1"], "worker": ["a:1"]}):
        for kind, workers in addresses.items():
            for index in range(len(workers)):
                config = {"cluster": addresses, "task": {"type": kind, "index": index}}
                monkeypatch.setenv("TF_CONFIG", json.dumps(config))
                assert several()
                chiefs.append(is_chief())
    assert chiefs == [True, False, True, False]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}']
)
def test_invalid_tf_config_raises(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(
        ValueError, match=r'^TF_CONFIG=.*: expected \{"cluster": .*, or unset TF_CONFIG$'
    ):
        several()


def test_lost_host_error_only_with_multiple_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    error = tf.errors.UnavailableError(None, None, "Connection reset\nmore")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(tf.errors.UnavailableError), explain_worker_loss():
        raise error
    monkeypatch.setenv("TF_CONFIG", make_tf_configs(2)[0])
    message = r"stop all hosts and start them .*\(Connection reset\)$"
    with pytest.raises(ValueError, match=message), explain_worker_loss():
        raise error
    with pytest.raises(tf.errors.InvalidArgumentError), explain_worker_loss():
        raise tf.errors.InvalidArgumentError(None, None, "label 7 of 5")


@pytest.mark.parametrize("step", [1, 2, 3])
def test_every_host_raises_if_the_steps_differ(step: int) -> None:
    strategy: Any = SimpleNamespace(
        experimental_distribute_values_from_function=lambda function: function(None),
        gather=lambda values, axis: tf.constant([1, 2, 3]),
    )
    message = rf"got step {step} on this host and steps \[1, 2, 3\] in all; use one run folder"
    with pytest.raises(ValueError, match=message):
        agree(strategy, step)
    agree(tf.distribute.get_strategy(), step)


@pytest.mark.slow
@pytest.mark.usefixtures("custom_task")
def test_two_hosts_equal_one(tmp_path: Path) -> None:
    """The last batch of an epoch has one example, so the second host has none."""
    options = {"clip_norm": 0.1, "ema": 0.9, "checkpoint_every": 3}
    for process in start_hosts(tmp_path / "two", **options):
        wait(process)
    training.fit(custom_task.recipe(tmp_path / "one", **options))
    assert_similar_run(tmp_path / "one", tmp_path / "two")


PRINT_EXAMPLES = """
import sys
import numpy as np
from attention_zoo.training import hosts, step
from attention_zoo.training.loop import TrainingLoop
from tests.training import custom_task
original_run = TrainingLoop.run
def run(self):
    from attention_zoo.training.devices import spread
    points = self.train.points
    self.train.points = custom_task.PointSet(np.arange(1, 38), np.arange(1, 38))
    stream = iter(spread(self.steps.strategy, self.train.dataset(0)))
    self.train.points = points
    local = self.steps.strategy.experimental_local_results
    seen = []
    for _ in range(self.train.steps_per_epoch):
        (numbers,), _, (is_used,) = map(local, next(stream))
        seen += numbers.numpy().tolist() * bool(is_used)
    print("EXAMPLES", seen, flush=True)
    original_run(self)
    values = np.concatenate([w.numpy().ravel() for w in self.steps.model.weights])
    print("WEIGHTS", values.tobytes().hex(), flush=True)
TrainingLoop.run = run
"""


@pytest.mark.slow
def test_hosts_share_the_examples_and_have_the_same_weights(tmp_path: Path) -> None:
    texts = [
        wait(process) for process in start_hosts(tmp_path / "run", program=PRINT_EXAMPLES + FIT)
    ]
    lines = [line for text in texts for line in text.splitlines()]
    seen = [json.loads(line[9:]) for line in lines if line.startswith("EXAMPLES ")]
    assert len(seen) == 2
    assert sorted(seen[0] + seen[1]) == list(range(1, 38))
    assert min(map(len, seen)) >= 16
    weights = {line for line in lines if line.startswith("WEIGHTS ")}
    assert len(weights) == 1
    assert sum("examples/s" in text for text in texts) == 1  # only the chief prints progress


SLOW_STEPS = """
import keras, time
from attention_zoo.training.callbacks import Clock
original_hook = Clock.on_train_batch_end
def slow_hook(self, batch, logs=None):
    print("STEP", batch, flush=True)
    time.sleep(0.2)
    original_hook(self, batch, logs)
Clock.on_train_batch_end = slow_hook
"""


def start_slow_hosts(folder: Path, **options: Any) -> list[Any]:
    """Start a slow run on two hosts and wait for its checkpoint of step 6."""
    processes = start_hosts(folder, program=SLOW_STEPS + FIT, **options)
    deadline = time.monotonic() + 90
    while not list(folder.glob("checkpoints/step-*6")):
        assert time.monotonic() < deadline, [process.communicate() for process in processes]
        time.sleep(0.1)
    return processes


def assert_hosts_resume_exactly(folder: Path, uninterrupted_run: Path, **options: Any) -> None:
    for run in (folder, uninterrupted_run):
        for process in start_hosts(run, **options):
            wait(process)
    assert_same_run(uninterrupted_run, folder)


SIXTY = {"steps": 60, "evaluate_every": 20, "checkpoint_every": 3}
RESTART = "stop all hosts and start them with the same command"


@pytest.mark.usefixtures("custom_task")
@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(0, marks=pytest.mark.slow, id="the chief is lost"),
        pytest.param(1, marks=pytest.mark.soak, id="a worker is lost"),
    ],
)
def test_lost_host_stops_the_others_and_the_run_resumes_exactly(lost: int, tmp_path: Path) -> None:
    processes = start_slow_hosts(tmp_path / "run", **SIXTY)
    processes[lost].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    text = wait(processes[1 - lost], code=1, timeout=60)
    assert time.monotonic() - killed < 30
    assert RESTART in text
    processes[lost].communicate()
    assert newest(tmp_path / "run").name != "step-00000060"
    assert_hosts_resume_exactly(tmp_path / "run", tmp_path / "uninterrupted", **SIXTY)


@pytest.mark.slow
@pytest.mark.usefixtures("custom_task")
def test_stopped_hosts_save_their_last_step(tmp_path: Path) -> None:
    """The signal comes at the third step; without it, the first checkpoint is of step 19."""
    options = {**SIXTY, "checkpoint_every": 19}
    chief, worker = start_hosts(tmp_path / "run", program=SLOW_STEPS + FIT, **options)
    assert any(line == "STEP 3\n" for line in chief.stdout), chief.communicate()
    for process in (worker, chief):
        process.send_signal(signal.SIGTERM)
    wait(chief, code=3, timeout=60)
    assert RESTART in wait(worker, code=1, timeout=60)
    assert 3 <= int(newest(tmp_path / "run").name[5:]) < 19
    assert_hosts_resume_exactly(tmp_path / "run", tmp_path / "uninterrupted", **options)


@pytest.mark.slow
def test_hosts_with_different_folders_raise(tmp_path: Path) -> None:
    """One host resumes from a checkpoint that the other does not have."""
    options = {"steps": 4, "evaluate_every": 2}
    wait(start(FIT, fit_arguments(tmp_path / "b", stop=3, **options)), code=3)
    arguments = [fit_arguments(tmp_path / name, **options) for name in ("b", "c")]
    processes = [
        start(FIT, host_arguments, TF_CONFIG=config)
        for host_arguments, config in zip(arguments, make_tf_configs(2), strict=True)
    ]
    texts = [wait(process, code=1) for process in processes]
    assert all("use one run folder on shared storage" in text for text in texts)

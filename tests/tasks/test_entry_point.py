"""A task of another package: found by its entry point, and used by every command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import tensorflow as tf

from attention_zoo.tasks import registry as registry_module
from tests.tasks import letter_task

RECIPE = """
task: letters
data: {corpus: random_letters, size: 40, validation_size: 8, test_size: 8}
model: {units: 4}
training: {steps: 5, batch_size: 8, evaluate_every: 5, monitor: accuracy}
"""


def install(folder: Path) -> None:
    """Write the task as an installed package: a module, and metadata with its entry point."""
    metadata = folder / "letter_task-1.0.dist-info"
    metadata.mkdir(parents=True)
    shutil.copy(letter_task.__file__, folder)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: letter-task\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[attention_zoo.tasks]\nletters = letter_task\n")


@pytest.mark.slow
def test_every_command_accepts_an_installed_task(tmp_path: Path) -> None:
    install(tmp_path / "installed")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "texts").write_text("aab\nabbb\n")
    path = os.pathsep.join([str(tmp_path / "installed"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}

    def run(*words: str) -> str:
        command = [sys.executable, "-c", "from attention_zoo.cli import main; exit(main())", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "data.corpus=random_letters" in run("train", "--help-keys", "letters")
    assert "40 training texts" in run("train", "recipe.yaml", "run=run", "seed=2")
    predictions = run("predict", "run", "texts", "--html", "page.html", "data.max_length=8")
    assert set(predictions.split()) <= {"a", "b"}
    assert (tmp_path / "page.html").read_text().split() == predictions.split()
    assert "accuracy" in run("evaluate", "run")
    run("export", "run", "served")
    served = tf.saved_model.load(tmp_path / "served").signatures["serving_default"]
    texts = served(text=tf.constant(["aab", "abbb"]))["text"].numpy()
    assert [text.decode() for text in texts] == predictions.split()


def test_failing_entry_point_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("letters", "no_such_module", registry_module.ENTRY_POINTS)
    monkeypatch.setattr(registry_module, "entry_points", lambda group: [point])
    registry = registry_module.TaskRegistry("task")
    with pytest.raises(ValueError, match=r"tasks: letters = no_such_module: No mod"):
        registry.get("letters")


def test_entry_points_are_loaded_once_and_only_for_unknown_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = []
    monkeypatch.setattr(registry_module, "entry_points", lambda group: groups.append(group) or [])
    registry = registry_module.TaskRegistry("task")
    registry.register("known")(dict)
    assert registry.get("known") is dict
    assert "known" in registry
    assert groups == []
    assert "letters" not in registry
    for _ in range(2):
        with pytest.raises(ValueError, match="unknown task 'letters'"):
            registry.get("letters")
    assert registry.names() == ["known"]
    assert groups == [registry_module.ENTRY_POINTS]

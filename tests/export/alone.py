"""Outputs of exports: in a process that imports only TensorFlow, and run eagerly in this one."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from attention_zoo.cli import main
from attention_zoo.export import export
from attention_zoo.serving import verify_export
from tests.tiers import FULL

STATUS = ("ok", "error")
"""Outputs of every export: whether a row is valid, and what is wrong with it."""

ALONE = """
import base64, json, sys
import tensorflow as tf
def plain(x):
    if isinstance(x, list):
        return [plain(y) for y in x]
    return x.decode() if isinstance(x, bytes) else x
given = json.load(sys.stdin)
for folder in sys.argv[1:]:
    served = tf.saved_model.load(folder).signatures["serving_default"]
    names = served.structured_input_signature[1]
    for batch in given:
        batch = batch if isinstance(batch, dict) else dict.fromkeys(names, batch)
        batch = {name: [base64.b64decode(one) for one in some] for name, some in batch.items()}
        assert batch.keys() == names.keys()
        try:
            answers = served(**{name: tf.constant(x, "string") for name, x in batch.items()})
        except tf.errors.InvalidArgumentError as error:
            print(json.dumps(error.message))
        else:
            shapes = {name: value.shape.as_list() for name, value in answers.items()}
            answers = {name: plain(value.numpy().tolist()) for name, value in answers.items()}
            print(json.dumps([answers, shapes]))
assert not {"attention_zoo", "tokenizers", "tensorflow_text"} & set(sys.modules)
"""


Batch = Sequence[str | bytes] | Mapping[str, Sequence[str | bytes]]


class ExportedOutputs(dict[str, list[Any]]):
    """Outputs of the exports of several tasks for several batches, by kind of task.

    A test module defines `task`, `KINDS`, `BATCHES` and optionally `EXPORT`, which exports a task
    to a folder. Full tier: exports loaded in a process that imports only TensorFlow. Fast tier:
    exported modules run eagerly in this process, the first kind at once and others on access.
    """

    def __init__(self, module: Any, folder: Path) -> None:
        super().__init__()
        self.task, self.batches, names = module.task, module.BATCHES, list(module.KINDS)
        if FULL:
            write = getattr(module, "EXPORT", export)
            folders = [write(self.task(name), folder / str(n)) for n, name in enumerate(names)]
            for written in folders:
                verify_export(written)
            outputs = predict_in_tensorflow_process(folders, self.batches)
            self.update(zip(names, outputs, strict=True))
        else:
            self.__missing__(names[0])

    def __missing__(self, name: str) -> list[Any]:
        task = self.task(name)
        module = task.export_module()
        self[name] = [run_exported_eagerly(module, batch) for batch in self.batches]
        return self[name]


def run_exported_eagerly(module: tf.Module, batch: Batch) -> Any:
    """Return outputs for one batch in the format of `predict_in_tensorflow_process`."""
    inputs = batch.values() if isinstance(batch, Mapping) else [batch]
    eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        answers = module.serve(*(tf.constant(list(x), "string") for x in inputs))
    except tf.errors.InvalidArgumentError as error:
        return " ".join(error.message.split())
    finally:
        tf.config.run_functions_eagerly(eager)
    shapes = {name: value.shape.as_list() for name, value in answers.items()}
    return [{name: _decoded(value.numpy().tolist()) for name, value in answers.items()}, shapes]


def _decoded(x: Any) -> Any:
    if isinstance(x, list):
        return [_decoded(y) for y in x]
    return x.decode() if isinstance(x, bytes) else x


def export_by_command(task: Any, folder: Path) -> Path:
    """Save a task, export it by the command line and return the export's folder."""
    task.save(folder / "run")
    assert main(["export", str(folder / "run"), str(folder / "served")]) == 0
    return folder / "served"


def predict_in_tensorflow_process(
    folders: Sequence[Path], batches: Sequence[Batch]
) -> list[list[Any]]:
    """Return the outputs of each export for each batch of strings, or of several inputs by name.

    Returns:
        For each folder and batch the outputs and their shapes by name, or the error message.
    """
    payload = [
        {name: _printable(some) for name, some in batch.items()}
        if isinstance(batch, Mapping)
        else _printable(batch)
        for batch in batches
    ]
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, *map(str, folders)],
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(folders) * len(batches)
    return [lines[n * len(batches) :][: len(batches)] for n in range(len(folders))]


def _printable(some: Sequence[str | bytes]) -> list[str]:
    raw = [one.encode() if isinstance(one, str) else one for one in some]
    return [base64.b64encode(one).decode() for one in raw]

"""What exports answer in a process that has TensorFlow alone."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_zoo.cli import main

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


def exported(task: Any, folder: Path) -> Path:
    """The task's export as the command writes it, of the run that the task saves."""
    task.save(folder / "run")
    assert main(["export", str(folder / "run"), str(folder / "served")]) == 0
    return folder / "served"


def answers_alone(
    folders: Sequence[Path],
    batches: Sequence[Sequence[str | bytes] | Mapping[str, Sequence[str | bytes]]],
) -> list[list[Any]]:
    """What each export answers to each batch of texts or of other bytes, or of several by name.

    Returns:
        For each folder and batch its answers and their shapes, by name; or why it was refused.
    """
    given = [
        {name: _printable(some) for name, some in batch.items()}
        if isinstance(batch, Mapping)
        else _printable(batch)
        for batch in batches
    ]
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, *map(str, folders)],
        input=json.dumps(given),
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

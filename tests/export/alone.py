"""What exports answer in a process that has TensorFlow alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ALONE = """
import json, sys
import tensorflow as tf
def plain(x):
    if isinstance(x, list):
        return [plain(y) for y in x]
    return x.decode() if isinstance(x, bytes) else x
given = json.load(sys.stdin)
for folder in sys.argv[1:]:
    served = tf.saved_model.load(folder).signatures["serving_default"]
    for texts in given:
        try:
            answers = served(text=tf.constant(texts, "string"))
        except tf.errors.InvalidArgumentError as error:
            print(json.dumps(error.message))
        else:
            shapes = {name: value.shape.as_list() for name, value in answers.items()}
            answers = {name: plain(value.numpy().tolist()) for name, value in answers.items()}
            print(json.dumps([answers, shapes]))
assert not {"attention_zoo", "tokenizers", "tensorflow_text"} & set(sys.modules)
"""


def answers_alone(folders: Sequence[Path], batches: Sequence[Sequence[str]]) -> list[list[Any]]:
    """What each export answers to each batch of texts.

    Returns:
        For each folder and batch its answers and their shapes, by name; or why it was refused.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, *map(str, folders)],
        input=json.dumps(batches),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(folders) * len(batches)
    return [lines[n * len(batches) :][: len(batches)] for n in range(len(folders))]

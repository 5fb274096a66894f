"""Training in subprocesses, since TensorFlow initializes its devices once per process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FIT = """
import json, sys
from pathlib import Path
from attention_zoo import training
from tests.training import custom_task
from tests.training.test_fitting import StopAfter
custom_task.register()
folder, data, options, stop = json.loads(sys.argv[1])
recipe = custom_task.recipe(Path(folder), data, **options)
try:
    training.fit(recipe, callbacks=[StopAfter(stop)] if stop else [])
except KeyboardInterrupt:
    sys.exit(3)
"""
ROOT = Path(__file__).resolve().parents[2]


def start(program: str, arguments: Iterable[str], **environment: str) -> subprocess.Popen[str]:
    """Start a Python program in a subprocess."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait(process: subprocess.Popen[str], code: int = 0, timeout: float = 120) -> str:
    """Wait for a process, check its exit code and return its output."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == code, f"{process.returncode}: {out[-1500:]} {err[-3000:]}"
    return out + err


def fit_arguments(
    folder: Path, data: dict[str, Any] | None = None, stop: int = 0, **options: Any
) -> list[str]:
    """Return the command-line argument of `FIT`."""
    return [json.dumps([str(folder), data, options, stop])]


def make_tf_configs(hosts: int) -> list[str]:
    """Return the `TF_CONFIG` of each of several hosts on this machine, with free ports."""
    sockets = [socket.socket() for _ in range(hosts)]
    for one in sockets:
        one.bind(("localhost", 0))
    workers = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return [
        json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})
        for index in range(hosts)
    ]

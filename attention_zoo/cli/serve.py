"""Serve exported models over HTTP, with the REST API of TensorFlow Serving."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the models, the address and the port."""
    parser.add_argument(
        "models",
        metavar="NAME_OR_FOLDER",
        nargs="+",
        help="an export, or a run or zoo entry, which is exported first; its last part is the name",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=8501, help="port (default: 8501; 0: any)")


def run(arguments: argparse.Namespace) -> None:
    """Load all models, then serve them until SIGINT or SIGTERM."""
    names = [Path(os.path.abspath(model)).name for model in arguments.models]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"two models have the name {repeated[0]!r}; rename a folder")
    if not 0 <= arguments.port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, got {arguments.port}")
    from attention_zoo.serving.app import make_app
    from attention_zoo.serving.served_model import ServedModel
    from attention_zoo.serving.server import make_server

    if arguments.host not in ("127.0.0.1", "::1", "localhost"):
        print(
            f"attention-zoo: warning: {arguments.host} is reachable from other machines, without"
            " authentication",
            file=sys.stderr,
        )
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    address = arguments.host, arguments.port
    with (
        socket.create_server(address, family=family) as listener,
        tempfile.TemporaryDirectory(prefix="attention-zoo-") as folder,
    ):
        models = {
            name: ServedModel(find_export(model, Path(folder) / name))
            for name, model in zip(names, arguments.models, strict=True)
        }
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        port = listener.getsockname()[1]
        print(f"serving {', '.join(names)} on http://{host}:{port}", flush=True)
        make_server(make_app(models)).run(sockets=[listener])


def find_export(model: str, folder: Path) -> Path:
    """Return the folder of an export; a run or an entry is exported to `folder`.

    A process of its own exports it, so that this one imports no model code.
    """
    if (Path(model) / "saved_model.pb").is_file():
        return Path(model)
    command = [sys.executable, "-m", "attention_zoo", "export", model, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [f"the export failed with code {done.returncode}", *done.stderr.splitlines()]
        raise ValueError(f"{model}: {lines[-1].removeprefix('attention-zoo: error: ')}")
    return folder

"""Serve exported models over HTTP, with the REST API of TensorFlow Serving."""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN = "ATTENTION_ZOO_TOKEN"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the models, the address and access control."""
    parser.add_argument(
        "models",
        metavar="NAME_OR_FOLDER",
        nargs="*",
        help="an export or a folder of versions 1/, 2/, ..., or a run or zoo entry, which is"
        " exported first; its last part is the name",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="YAML file of models and their limits, which SIGHUP reads again",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=int, default=8501, help="port (default: 8501; 0: any)")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file of the bearer token that requests must have (default: the variable {TOKEN}, or"
        " none)",
    )
    parser.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        default=[],
        help="further host name in URLs of a server on 127.0.0.1; repeatable",
    )


def run(arguments: argparse.Namespace) -> None:
    """Load all models, then serve them until SIGINT or SIGTERM."""
    serve(arguments)


def serve(arguments: argparse.Namespace, has_demo: bool = False) -> None:
    """Serve the models of the command line.

    Args:
        arguments: those of `add_arguments`.
        has_demo: whether to serve the demo page too.
    """
    if bool(arguments.models) == bool(arguments.config):
        raise ValueError(
            f"expected models or --config FILE, got {'both' if arguments.models else 'neither'};"
            " `attention-zoo list` prints the zoo entries."
        )
    if not 0 <= arguments.port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, got {arguments.port}")
    token = read_token(arguments.token_file)
    from attention_zoo.serving.config import check_name, check_names

    names = [Path(os.path.abspath(model)).name for model in arguments.models]
    check_names(names)
    for name in names:
        check_name(name)
    if arguments.host not in LOOPBACK and token is None:
        print(
            f"attention-zoo: warning: {arguments.host} is reachable from other machines, without a"
            " token; see --token-file",
            file=sys.stderr,
        )
    # SIGTERM ends the process by an exception, so that the exports below are removed. SIGHUP has no
    # effect until the server runs.
    previous = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number)),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    }
    try:
        is_forced = serve_models(arguments, names, token, has_demo)
    finally:
        gc.enable()
        for number, handler in previous.items():
            signal.signal(number, handler)
    if is_forced:
        os._exit(1)  # a running call of a model would delay `sys.exit`


def serve_models(
    arguments: argparse.Namespace, names: list[str], token: str | None, has_demo: bool
) -> bool:
    """Export what is no export yet, and serve; return whether calls may still run at the end."""
    gc.disable()  # until the models are loaded: collections would take seconds
    from attention_zoo.serving.server import bind, import_tensorflow

    import_tensorflow()

    with (
        bind(arguments.host, arguments.port) as listener,  # uvicorn listens after the exports
        tempfile.TemporaryDirectory(prefix="attention-zoo-") as folder,
    ):
        exports = {
            name: str(find_export(model, Path(folder) / name))
            for name, model in zip(names, arguments.models, strict=True)
        }
        return run_server(arguments, exports, token, listener, has_demo)


def run_server(
    arguments: argparse.Namespace,
    exports: dict[str, str],
    token: str | None,
    listener: socket.socket,
    has_demo: bool,
) -> bool:
    """Serve exports, by name, or the configured models; return whether a second signal ended it."""
    from attention_zoo.serving.app import make_app
    from attention_zoo.serving.config import ModelConfig, read_config
    from attention_zoo.serving.demo import DEMO_PATHS, add_demo
    from attention_zoo.serving.logs import configure_logs
    from attention_zoo.serving.metrics import Metrics
    from attention_zoo.serving.model_manager import ModelManager
    from attention_zoo.serving.served_model import load_model
    from attention_zoo.serving.server import freeze_objects, make_server

    def read_configs() -> list[ModelConfig]:
        if arguments.config:
            return read_config(arguments.config)
        return [ModelConfig(name=name, path=path) for name, path in exports.items()]

    configure_logs()
    metrics = Metrics()
    manager = ModelManager(read_configs, load_model, metrics.observe_batch)
    metrics.add_queues(manager)
    is_local = arguments.host in LOOPBACK
    hosts = {"127.0.0.1", "localhost", "[::1]", *map(str.lower, arguments.allowed_host)}
    app = make_app(
        manager,
        metrics,
        token=token,
        hosts=hosts if is_local else None,
        public_paths=DEMO_PATHS if has_demo else (),
    )
    if has_demo:
        add_demo(app)
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    url = f"http://{host}:{listener.getsockname()[1]}"

    def announce() -> None:
        freeze_objects()
        served = ", ".join(model["name"] for model in manager.list_models())
        print(f"serving {served} on {url}", flush=True)

    server = make_server(app, manager, announce)
    server.run(sockets=[listener])
    if server.errors:
        raise ValueError(server.errors[0])
    return server.force_exit


def read_token(path: str | None) -> str | None:
    """Return the bearer token of a file or of the environment, None if there is neither."""
    token = os.environ.get(TOKEN)
    source = TOKEN
    if path is not None:
        source = path
        try:
            token = Path(path).read_text("ascii")
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}: the token must be ASCII. Create one with `openssl rand -hex 32`."
            ) from None
    if token is None:
        return None
    token = token.strip()
    if not re.fullmatch("[!-~]{16,4096}", token):
        raise ValueError(
            f"{source}: the token must have 16 to 4,096 printable ASCII characters without spaces,"
            f" got {len(token)} characters. Create one with `openssl rand -hex 32`."
        )
    return token


def find_export(model: str, folder: Path) -> Path:
    """Return the folder of an export or of its versions; export a run or an entry to `folder`.

    A process of its own exports it, so that this one imports no model code.
    """
    if (Path(model) / "saved_model.pb").is_file() or any(Path(model).glob("[0-9]*/saved_model.pb")):
        return Path(model)
    command = [sys.executable, "-m", "attention_zoo", "export", model, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [f"the export failed with code {done.returncode}", *done.stderr.splitlines()]
        raise ValueError(f"{model}: {lines[-1].removeprefix('attention-zoo: error: ')}")
    return folder

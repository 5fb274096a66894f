"""A server in a thread of the test process, with a model without a graph, and its client."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.files import MANIFEST
from attention_zoo.serving.app import make_app
from attention_zoo.serving.config import Limits, ModelConfig
from attention_zoo.serving.metrics import Metrics
from attention_zoo.serving.model_manager import ModelManager
from attention_zoo.serving.rest import TensorSpec
from attention_zoo.serving.served_model import RejectedInputError, ServedModel
from attention_zoo.serving.server import bind, make_server

TEXTS = TensorSpec(np.dtype(object), (None,))


class Upper(ServedModel):
    """A model without a graph, which returns texts in upper case, followed by a suffix.

    Calls wait while `gate` is closed.
    """

    def __init__(self, suffix: str = "") -> None:
        self.signatures = {
            "serving_default": {"text": TEXTS},
            "options": {
                "text": TEXTS,
                "times": TensorSpec(np.dtype("int32"), ()),
                "max_length": TensorSpec(np.dtype("int32"), (), True),
            },
        }
        self.metadata: dict[str, Any] = {}
        self.joint_signatures = frozenset()
        self.has_images = False
        self.task, self.examples = "upper", [{"text": "a"}]
        self.suffix = suffix.encode()
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Event()
        self.batches: list[int] = []

    def run(self, key: Any, rows: Any) -> list[dict[str, Any]]:
        self.batches.append(len(rows))
        self.started.set()
        assert self.gate.wait(20)
        texts = [row["text"].item() for row in rows]
        if b"refused" in texts:
            raise RejectedInputError("the text is refused")
        if b"broken" in texts:
            raise RuntimeError("secret details of /etc/hostname")
        times = dict(key.options).get("times", 1)
        return [{"text": np.array(text.upper() * times + self.suffix, object)} for text in texts]


class Response(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Client:
    """A client of a server in a thread of this process.

    Attributes:
        limits: limits of all models after the next `update`.
    """

    def __init__(self, server: Any, thread: threading.Thread, limits: dict[str, Any]) -> None:
        self.server, self.thread, self.limits = server, thread, limits
        self.manager: ModelManager
        self.model: Upper
        self.loop: asyncio.AbstractEventLoop
        self.port = 0

    def update(self) -> None:
        """Update the models, as SIGHUP does."""
        asyncio.run_coroutine_threadsafe(self.manager.update(), self.loop).result(20)

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = response.read()
            if response.getheader("content-type") == "application/json":
                return Response(response.status, json.loads(content), dict(response.getheaders()))
            return Response(response.status, content, dict(response.getheaders()))

    def predict(self, content: Any, name: str = "upper", **headers: str) -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.request("POST", f"/v1/models/{name}:predict", body, named)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 20)


def wait_for(condition: Callable[[], Any], timeout: float = 20, interval: float = 0.01) -> None:
    """Wait until a condition holds, at most `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(interval)


@contextlib.contextmanager
def serve(
    models: dict[str, Upper] | None = None, app_options: Any = None, **limits: Any
) -> Iterator[Client]:
    """Serve models by name, by default one with the name `upper`; close the gates at the end."""
    models = models or {"upper": Upper()}
    logging.getLogger("attention_zoo.serving").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        for name in models:
            (Path(folder) / name).mkdir()
            (Path(folder) / name / MANIFEST).write_text(name)

        def read_configs() -> Sequence[ModelConfig]:
            return [
                ModelConfig(name=name, path=str(Path(folder) / name), limits=Limits(**limits))
                for name in models
            ]

        metrics = Metrics()
        manager = ModelManager(read_configs, lambda path: models[path.name], metrics.observe_batch)
        metrics.add_queues(manager)
        loops: list[asyncio.AbstractEventLoop] = []
        app = make_app(manager, metrics, **(app_options or {}))
        server = make_server(app, manager, lambda: loops.append(asyncio.get_running_loop()))
        with bind("127.0.0.1", 0) as listener:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            wait_for(lambda: loops)
            client = Client(server, thread, limits)
            client.manager, client.model = manager, next(iter(models.values()))
            (client.loop,) = loops
            client.port = listener.getsockname()[1]
            try:
                yield client
            finally:
                for model in models.values():
                    model.gate.set()
                server.should_exit = True
                thread.join(20)
                assert not thread.is_alive()

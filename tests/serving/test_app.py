"""The HTTP server: predictions, states, errors by status code, and slow or large bodies."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from attention_zoo.serving import server as server_module
from attention_zoo.serving.app import Limits, make_app
from attention_zoo.serving.rest import TensorSpec
from attention_zoo.serving.served_model import BatchKey, RejectedInputError, ServedModel
from attention_zoo.serving.server import make_server

ROOT = Path(__file__).parents[2]


class Upper(ServedModel):
    """A model without a graph, which returns texts in upper case."""

    def __init__(self) -> None:
        self.signatures = {
            "serving_default": {"text": TensorSpec(np.dtype(object), (None,))},
            "options": {
                "text": TensorSpec(np.dtype(object), (None,)),
                "times": TensorSpec(np.dtype("int32"), ()),
                "max_length": TensorSpec(np.dtype("int32"), (), True),
            },
        }
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
        return [{"text": np.array(text.upper() * times, object)} for text in texts]


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Client:
    """A client of a server in a thread of this process."""

    def __init__(self, port: int, model: Upper) -> None:
        self.port, self.model = port, model

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            content = json.loads(response.read())
            return Answer(response.status, content, dict(response.getheaders()))

    def predict(self, content: Any, name: str = "upper", **headers: str) -> Answer:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.request("POST", f"/v1/models/{name}:predict", body, named)


@contextlib.contextmanager
def serve(**limits: Any) -> Iterator[Client]:
    model = Upper()
    server = make_server(make_app({"upper": model}, Limits(**limits)))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    port = listener.getsockname()[1]
    try:
        yield Client(port, model)
    finally:
        model.gate.set()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serve(max_body_bytes=2000, max_batch_size=4) as client:
        yield client


def test_predictions(client: Client) -> None:
    answer = client.predict({"instances": ["a", {"text": "bé"}]})
    assert (answer.status, answer.body) == (
        200,
        {"predictions": ["A", "Bé".encode().upper().decode()]},
    )
    assert answer.headers["content-type"] == "application/json"
    content = {"signature_name": "options", "inputs": {"text": ["a"], "times": 3}}
    assert client.predict(content).body == {"outputs": ["AAA"]}


def test_compressed_bodies(client: Client) -> None:
    body = gzip.compress(json.dumps({"instances": ["a"]}).encode())
    assert client.predict(body, Content_Encoding="gzip").body == {"predictions": ["A"]}


def test_states(client: Client) -> None:
    assert client.request("GET", "/healthz").status == 200
    assert client.request("GET", "/readyz").status == 200
    (version,) = client.request("GET", "/v1/models/upper").body["model_version_status"]
    assert version == {
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    metadata = client.request("GET", "/v1/models/upper/metadata").body["metadata"]
    assert metadata["signature_def"]["options"] == {
        "text": {"dtype": "string", "shape": [-1], "optional": False},
        "times": {"dtype": "int32", "shape": [], "optional": False},
        "max_length": {"dtype": "int32", "shape": [], "optional": True},
    }
    assert "/v1/models/{name}:predict" in client.request("GET", "/openapi.json").body["paths"]


BOMB = gzip.compress(b" " * 5_000_000)
WHOLE = gzip.compress(b'{"instances": ["a"]}')
ERRORS: dict[str, tuple[Any, dict[str, str], int, str]] = {
    "no_json": (b"{", {}, 400, "the body is not JSON"),
    "no_body": (b"", {}, 400, "the body is not JSON"),
    "bad_input": ({"instances": [5]}, {}, 400, "instances[0].text must be a string"),
    "many_rows": ({"instances": ["a"] * 5}, {}, 400, "must have at most 4 rows, got 5"),
    "max_length": (
        {
            "signature_name": "options",
            "inputs": {"text": ["a"], "times": 1, "max_length": 2**31 - 1},
        },
        {},
        400,
        "inputs.max_length must be at most 1024",
    ),
    "refused": ({"instances": ["refused"]}, {}, 400, "the text is refused"),
    "model": ({"instances": ["a"]}, {"name": "lower"}, 404, "unknown model 'lower'; known: upper"),
    "large": (b" " * 2001, {}, 413, "the body must have at most 2,000 bytes"),
    "bomb": (BOMB[:1999], {"Content_Encoding": "gzip"}, 413, "must have at most 2,000 bytes"),
    "no_gzip": (b"{}", {"Content_Encoding": "gzip"}, 400, "the body is not gzip"),
    "part": (WHOLE[:-1], {"Content_Encoding": "gzip"}, 400, "not one complete gzip member"),
    "two_members": (WHOLE * 2, {"Content_Encoding": "gzip"}, 400, "not one complete gzip member"),
    "encoding": (b"{}", {"Content_Encoding": "br"}, 415, "must be identity or gzip, got 'br'"),
    "broken": ({"instances": ["broken"]}, {}, 500, "internal error"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(client: Client, name: str) -> None:
    content, options, status, message = ERRORS[name]
    answer = client.predict(content, **options)
    assert answer.status == status
    assert answer.body.keys() == {"error"}
    assert message in answer.body["error"]
    assert "secret" not in answer.body["error"]
    assert len(answer.headers["x-request-id"]) == 32


def test_unknown_paths_and_methods(client: Client) -> None:
    assert client.request("GET", "/v1/models/lower").body == {
        "error": "unknown model 'lower'; known: upper"
    }
    for method, path, status in (
        ("GET", "/v2", 404),
        ("GET", "/v1/models/upper:predict", 404),
        ("POST", "/v1/models/upper", 405),
        ("GET", "/v1/models/..%2Fupper", 404),
        ("DELETE", "/v1/models/upper", 405),
    ):
        answer = client.request(method, path)
        assert (answer.status, answer.body.keys()) == (status, {"error"}), path


def test_a_chunked_body_without_a_length_is_limited(client: Client) -> None:
    chunks = iter([b" " * 900] * 1000)
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    with contextlib.closing(connection):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", "/v1/models/upper:predict", chunks)
        response = connection.getresponse()
        assert response.status == 413


def test_full_queues() -> None:
    """Of four requests, one runs, one waits and two find no room."""
    with serve(max_waiting=1, max_batch_size=1) as client:
        client.model.gate.clear()
        answers: list[Answer] = []

        def predict() -> None:
            answers.append(client.predict({"instances": ["a"]}))

        threads = [threading.Thread(target=predict) for _ in range(4)]
        threads[0].start()
        assert client.model.started.wait(20)
        for thread in threads[1:]:
            thread.start()
        deadline = time.monotonic() + 20
        while len(answers) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        client.model.gate.set()
        for thread in threads:
            thread.join(20)
    assert [answer.status for answer in answers] == [503, 503, 200, 200]
    assert answers[0].headers["retry-after"] == "1"
    assert answers[0].body == {"error": "too many requests wait for this model"}


def test_deadlines() -> None:
    with serve(timeout=1.0) as client:
        client.model.gate.clear()
        late = client.predict({"instances": ["a"]})
        assert late.status == 504
        assert late.body == {"error": "no result before the deadline of the request"}
        client.model.gate.set()


def test_rows_of_different_shapes_have_their_own_results(client: Client) -> None:
    """They are computed in several batches."""
    keys = ("short", "long")

    def get_batch_keys(request: Any) -> list[Any]:
        return [BatchKey(keys[len(row["text"].item()) > 1], (), ()) for row in request.rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.model, "get_batch_keys", get_batch_keys)
        answer = client.predict({"instances": ["a", "bb", "c", "dd"]})
    assert answer.body == {"predictions": ["A", "BB", "C", "DD"]}


def test_slow_bodies_and_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow senders are disconnected, while others are served."""
    monkeypatch.setattr(server_module, "HEADER_TIMEOUT", 1.0)
    with serve(body_timeout=1.0) as client:
        address = ("127.0.0.1", client.port)
        slow_header, slow_body = (socket.create_connection(address, 20) for _ in range(2))
        with slow_header, slow_body:
            slow_header.sendall(b"POST /v1/models/upper:predict HTTP/1.1\r\nHost: x\r\n")
            head = (
                b"POST /v1/models/upper:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
            )
            slow_body.sendall(head)
            assert client.predict({"instances": ["a"]}).status == 200
            assert b"408" in slow_body.recv(4096)
            assert slow_header.recv(4096) == b""


def run_page(port: int) -> None:
    """Run the clients of docs/serving.md against a server."""
    page = (ROOT / "docs" / "serving.md").read_text("utf-8").replace("8501", str(port))
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["first"]["text"] == ["ils arrivent le 3 mars."]
    assert names["second"]["ok"] is False
    assert names["limited"]["finished"] == [[False]]
    with pytest.raises(ValueError, match="unknown input"):
        names["predict"](instances=[{"words": "a"}])
    (curl,) = re.findall(r"```sh\n(curl .*?)```", page, re.DOTALL)
    if shutil.which("curl") is not None:
        done = subprocess.run(curl, shell=True, capture_output=True, check=True)
        texts = [row["text"] for row in json.loads(done.stdout)["predictions"]]
        assert texts == [["ils arrivent le 3 mars."], ["le dîner est à 17:04."]]


@pytest.mark.slow
def test_command_serves_an_entry_until_sigterm() -> None:
    """The command exports the entry, serves the clients of the page, and exits with 0."""
    name = "rnnsearch_small.dates_en_fr"
    command = [sys.executable, "-m", "attention_zoo", "serve", name, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert process.stdout is not None
        head, port = process.stdout.readline().rsplit(":", 1)
        assert head == f"serving {name} on http://127.0.0.1"
        run_page(int(port))
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(40) == 0
    finally:
        process.kill()

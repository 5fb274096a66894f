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
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusResponse

from attention_zoo import load
from attention_zoo.export import export
from attention_zoo.serving.served_model import BatchKey
from tests.serving.local_server import Client, Response, serve, wait_for

ROOT = Path(__file__).parents[2]


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
    # The client library of TensorFlow Serving parses it.
    body = client.request("GET", "/v1/models/upper/versions/1").body
    (parsed,) = ParseDict(body, GetModelStatusResponse()).model_version_status
    assert (parsed.version, parsed.state) == (1, parsed.AVAILABLE)
    assert client.predict({"instances": ["a"]}, "upper/versions/1").body == {"predictions": ["A"]}
    for path in ("/v1/models/upper/versions/2", "/v1/models/upper/versions/1.0"):
        assert client.request("GET", path).status == 404
        assert client.request("POST", f"{path}:predict", b"{}").status == 404
    assert client.request("GET", "/v1/models").body == {
        "models": [
            {"name": "upper", "versions": ["1"], "task": "upper", "examples": [{"text": "a"}]}
        ]
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
    "option": (
        {"signature_name": "options", "instances": ["a"]},
        {},
        400,
        "times has one value for all rows; send inputs",
    ),
    "model": ({"instances": ["a"]}, {"name": "lower"}, 404, "unknown model 'lower'; known: upper"),
    "large": (b" " * 2001, {}, 413, "the body must have at most 2,000 bytes, got 2,001"),
    "bomb": (BOMB[:1999], {"Content_Encoding": "gzip"}, 413, "must have at most 2,000 bytes"),
    "no_gzip": (b"{}", {"Content_Encoding": "gzip"}, 400, "the body is not valid gzip"),
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
    """Of four requests, one runs, one waits and two are rejected."""
    with serve(max_waiting=1, max_batch_size=1) as client:
        client.model.gate.clear()
        answers: list[Response] = []

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
    assert answers[0].body == {
        "error": "the queue of the model is full (limit max_waiting); retry later"
    }


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


@pytest.mark.slow
def test_sighup_reads_the_configuration_again(tmp_path: Path) -> None:
    """A model of two versions is replaced under load; a second model is added and removed."""
    source = tmp_path / "served" / "1"
    export(load("rnnsearch_small.dates_en_fr"), source)
    shutil.copytree(source, tmp_path / "more")
    config = tmp_path / "serve.yaml"
    first = {"name": "served", "path": "served"}
    config.write_text(json.dumps({"models": [first]}))
    command = [sys.executable, "-m", "attention_zoo", "serve", "--config", str(config)]
    process = subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        text=True,
    )
    statuses: list[int] = []
    is_done = threading.Event()
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]

        def get(path: str, body: bytes | None = None) -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(f"{url}/v1/models{path}", body, timeout=60) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        def send() -> None:
            body = json.dumps({"instances": ["at 5:04 PM."]}).encode()
            while not is_done.is_set():
                statuses.append(get("/served:predict", body)[0])

        def find_versions() -> dict[str, list[str]]:
            return {one["name"]: one["versions"] for one in get("")[1]["models"]}

        sender = threading.Thread(target=send)
        sender.start()
        shutil.copytree(source, tmp_path / "served" / "2")
        config.write_text(json.dumps({"models": [first, {"name": "more", "path": "more"}]}))
        os.kill(process.pid, signal.SIGHUP)
        wait_for(lambda: find_versions() == {"served": ["2"], "more": ["1"]}, 240, 0.5)
        config.write_text("models: [")
        os.kill(process.pid, signal.SIGHUP)
        config.write_text(json.dumps({"models": [first]}))
        os.kill(process.pid, signal.SIGHUP)
        wait_for(lambda: find_versions() == {"served": ["2"]}, 60, 0.5)
        assert get("/more:predict", b"{}")[0] == 404
        is_done.set()
        sender.join(60)
        assert {*statuses} == {200}
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(40) == 0
    finally:
        is_done.set()
        process.kill()

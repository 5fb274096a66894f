"""The benchmark script of serving: load, percentiles, comparison of responses, and processes."""

from __future__ import annotations

import http.server
import importlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def _scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield


@pytest.fixture(scope="module")
def serving() -> Any:
    return importlib.import_module("serving")


@pytest.fixture(scope="module")
def load() -> Any:
    return importlib.import_module("serving_load")


@pytest.fixture(scope="module")
def equality() -> Any:
    return importlib.import_module("serving_equality")


class Handler(http.server.BaseHTTPRequestHandler):
    """Responds with the text of a request, or with status 503 to "busy"."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        body = self.rfile.read(size)
        if len(body) < size:
            return
        (text,) = json.loads(body)["instances"]
        content = json.dumps({"predictions": [{"text": text, "size": len(text)}]}).encode()
        self.send_response(503 if text == "busy" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("num_clients", [1, 8])
def test_load(num_clients: int, load: Any, port: int) -> None:
    """Responses are in the order of the requests; an error has no values."""
    texts = [f"text {number}" for number in range(20)]
    texts[7] = "busy"
    bodies = [json.dumps({"instances": [text]}) for text in texts]
    seconds, responses = load.run_load(load.Load(port, "/", bodies, ["text"], num_clients))
    assert responses[7].status == 503
    assert responses[7].values == {}
    del texts[7], responses[7]
    assert [one.values for one in responses] == [{"text": text} for text in texts]
    assert {one.status for one in responses} == {200}
    assert 0 < max(one.seconds for one in responses) <= seconds


def test_disconnects(load: Any, port: int) -> None:
    bodies = [json.dumps({"instances": [f"text {number}"]}) for number in range(40)]
    job = load.Load(port, "/", bodies, ["size"], 4, disconnects=0.2)
    chosen = load.choose_disconnects(job)
    assert {*chosen} == {None, "half", "all"}
    _, responses = load.run_load(job)
    assert [one is None for one in responses] == [part is not None for part in chosen]
    assert all(one.values for one in responses if one is not None)


def test_requests_without_a_server_are_lost(load: Any, serving: Any) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_port
    _, responses = load.run_load(load.Load(port, "/", ["{}"], ["text"], 1))
    assert [one.status for one in responses] == [0]
    expected = [{"source_tokens": ["a"], "text": ["b"]}]
    assert serving.count_errors(expected, responses) == (1, 0, 0)


def test_predictions_of_each_server(load: Any) -> None:
    row = {"text": ["a"]}
    for content in ({"predictions": [row]}, [row], row):
        assert load.get_prediction(content) == row


def test_percentiles(serving: Any) -> None:
    values = list(range(100, 0, -1))
    assert [serving.percentile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]
    assert serving.percentile([3.0], 0.99) == 3.0


def test_errors_are_counted(serving: Any, load: Any) -> None:
    """Padding differs between batches; clients that disconnect expect nothing."""
    expected = [{"source_tokens": [word, ""], "text": [word.upper()]} for word in "abcde"]
    rows = [
        {"source_tokens": ["a", "", ""], "text": ["A"]},
        {"source_tokens": ["c"], "text": ["C"]},
        {"source_tokens": ["c"], "text": ["D"]},
        {},
    ]
    responses = [load.Response(200 if row else 504, 0.1, row) for row in rows]
    errors = serving.count_errors(expected, [*responses, None])
    assert errors == (1, 1, 1)
    assert errors._fields == ("lost", "swapped", "different")


def test_predictions_are_compared(equality: Any) -> None:
    predictions = [("a", -1.0), ("b", -math.inf), (["O", "B"], -2.0), ("d", -3.0), ("e", -4.0)]
    expected = [equality.Prediction(*one) for one in predictions]
    assert equality.compare(expected, expected) == (0, 0.0)
    got = [*expected[:2], equality.Prediction(["O", "B"], -2.5), equality.Prediction("x", 0.0)]
    difference = equality.compare(expected, [*got, equality.Prediction(None, math.nan)])
    assert difference == (2, 0.5)


def test_responses_are_read(equality: Any, load: Any) -> None:
    rows = [
        {"text": ["a b"], "scores": [-1.5]},
        {"text": "a class", "scores": -0.5},
        {"text": [""], "scores": [None]},
        {"tags": ["O", "B", ""], "lengths": 2, "scores": -2.0},
    ]
    got = [equality.read_prediction(load.Response(200, 0.1, row)) for row in rows]
    assert got == [("a b", -1.5), ("a class", -0.5), ("", -math.inf), (["O", "B"], -2.0)]
    assert equality.read_prediction(load.Response(500, 0.1, {})).label is None


def test_prompts(equality: Any) -> None:
    assert equality.make_prompt("they arrive on March 3.", False) == "they arrive"
    assert equality.make_prompt("they arrive on March 3.", True) == "they arrive [MASK] March 3."


def test_processes() -> None:
    processes = importlib.import_module("serving_processes")
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = processes.list_processes(os.getpid())
        assert found[child.pid] == processes.read_start(child.pid)
        assert [*processes.list_processes(child.pid)] == [child.pid]
        assert 1 << 20 < processes.read_resident(child.pid) < 1 << 30
        child.kill()
    assert processes.list_processes(child.pid) == {}
    assert processes.read_resident(child.pid) == 0

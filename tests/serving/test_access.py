"""Tokens, host names, request ids, logs and metrics of the server."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from attention_zoo.cli.serve import read_token
from attention_zoo.serving.logs import LOGGER, configure_logs, log
from tests.refusals import refuses
from tests.serving.local_server import Client, serve

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Client]:
    options = {"token": TOKEN, "hosts": {"127.0.0.1", "localhost", "[::1]"}}
    with serve(app_options=options) as client:
        yield client


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}x", 401),
        ("Bearer ", 401),
        (f"Bearer {TOKEN}", 200),
    ],
)
def test_requests_need_the_token(guarded: Client, header: str | None, status: int) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = guarded.predict({"instances": ["a"]}, **headers)
    assert answer.status == status
    if status == 401:
        assert answer.body == {"error": "the header Authorization must have the bearer token"}
        assert answer.headers["www-authenticate"] == "Bearer"
    for path in ("/v1/models/upper", "/metrics", "/openapi.json", "/docs", "/none"):
        assert (guarded.request("GET", path, headers=headers).status == 401) == (status == 401)


def test_probes_need_no_token(guarded: Client) -> None:
    for path in ("/healthz", "/readyz"):
        assert guarded.request("GET", path).status == 200
        assert guarded.request("GET", path + "/x").status == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:80", 200),
        ("LOCALHOST", 200),
        ("[::1]:8501", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_other_hosts_are_rejected(guarded: Client, host: str, status: int) -> None:
    """In a DNS rebinding attack, the header `Host` has the domain of the attacker."""
    answer = guarded.request("GET", "/healthz", headers={"Host": host})
    assert answer.status == status
    if status == 403:
        assert answer.body["error"].startswith(f"unknown host {host.partition(':')[0]!r}")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8501", 200),
        ("http://127.0.0.1", 200),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
def test_pages_of_other_origins_are_rejected(guarded: Client, origin: str, status: int) -> None:
    """A request with the type text/plain needs no permission of the browser."""
    answer = guarded.request("GET", "/healthz", headers={"Origin": origin})
    assert answer.status == status


def test_all_responses_have_an_id_of_their_own(guarded: Client) -> None:
    answers = [guarded.request("GET", path) for path in ("/healthz", "/healthz", "/v1/models")]
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)


@pytest.mark.parametrize(("content", "token"), [(f" {TOKEN}\n", TOKEN), ("a~!" * 10, "a~!" * 10)])
def test_tokens_of_files(content: str, token: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(content)
    assert read_token(str(tmp_path / "token")) == token


def test_tokens_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTENTION_ZOO_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("ATTENTION_ZOO_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    monkeypatch.setenv("ATTENTION_ZOO_TOKEN", "")
    with pytest.raises(ValueError, match="ATTENTION_ZOO_TOKEN: the token must have 16 to"):
        read_token(None)


@refuses(
    ("short", "the token must have 16 to 4,096 printable ASCII characters without spaces, got 5"),
    ("with spaces between", "the token must have 16 to 4,096 printable ASCII"),
    ("nön-ascii-characters", "the token must be ASCII"),
)
def test_invalid_tokens_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(content)
    read_token(str(tmp_path / "token"))


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The stream of the logs."""
    loggers = [LOGGER, logging.getLogger("uvicorn"), logging.getLogger("asyncio")]
    before = [(one, one.handlers[:], one.level, one.propagate) for one in loggers]
    stream = io.StringIO()
    yield stream
    for logger, handlers, level, propagate in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_logs_have_no_texts_of_users(lines: io.StringIO) -> None:
    with serve() as client:
        configure_logs(lines)
        client.predict({"instances": ["private"]})
        client.predict({"instances": ["private", 5]})
        client.predict({"instances": ["broken"]})
        client.request("GET", "/v1/models/private?private\n".strip())
        client.request("GET", "/readyz")
    entries = [json.loads(line) for line in lines.getvalue().splitlines()]
    requests = [entry for entry in entries if entry["message"] == "request"]
    assert [entry["status"] for entry in requests] == [200, 400, 500, 404]
    first = requests[0]
    assert (first["model"], first["version"], first["rows"], first["method"]) == (
        "upper",
        1,
        1,
        "POST",
    )
    assert first["route"] == "/v1/models/{name}:predict"
    (failure,) = [entry for entry in entries if entry["level"] == "error"]
    assert failure["error"] == "RuntimeError"
    assert any("local_server.py" in frame for frame in failure["stack"])
    assert failure["request_id"] == requests[2]["request_id"]
    assert "private" not in lines.getvalue()
    assert "secret" not in lines.getvalue()


def test_log_lines_are_single_lines_of_json(lines: io.StringIO) -> None:
    configure_logs(lines)
    log("a\nb", model='"\n{}')
    (line,) = lines.getvalue().splitlines()
    entry = json.loads(line)
    assert (entry["message"], entry["model"], entry["level"]) == ("a\nb", '"\n{}', "info")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])


def test_metrics_count_the_responses_of_clients() -> None:
    with serve() as client:
        for content in (["a"], ["a", "b", "c"], [5], ["broken"]):
            client.predict({"instances": content})
        client.predict({"instances": ["a"]}, name="unknown")
        answer = client.request("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    metrics = dict(
        line.rsplit(" ", 1)
        for line in answer.body.decode().splitlines()
        if not line.startswith("#")
    )

    def count(status: str, model: str = "upper", version: str = "1") -> float:
        labels = f'model="{model}",status="{status}",version="{version}"'
        return float(metrics.get(f"attention_zoo_requests_total{{{labels}}}", 0))

    assert (count("200"), count("400"), count("500")) == (2, 1, 1)
    assert count("404", "", "") == 1
    labels = '{model="upper",version="1"}'
    assert float(metrics[f"attention_zoo_batch_rows_sum{labels}"]) == 5
    assert float(metrics[f"attention_zoo_batch_rows_count{labels}"]) == 3
    assert float(metrics[f"attention_zoo_request_seconds_count{labels}"]) == 4
    assert float(metrics[f"attention_zoo_waiting_rows{labels}"]) == 0
    assert float(metrics["process_resident_memory_bytes"]) > 0

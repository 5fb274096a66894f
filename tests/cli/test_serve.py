"""`attention-zoo serve`: invalid arguments; tests/serving has the server."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from attention_zoo.cli import main


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the line of an error."""
    assert main(["serve", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_models_need_different_names(capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "a/served", "b/served")
    assert line == "attention-zoo: error: two models have the name 'served'; rename one of them"


def test_ports(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--port must be from 0 to 65535, got 70000" in fails(capsys, "served", "--port", "70000")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "in use" in fails(capsys, "served", "--port", port)


def test_unverified_exports_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    line = fails(capsys, str(tmp_path), "--port", "0")
    assert line.endswith(
        "not an export, manifest.json is missing; `attention-zoo export` writes one"
    )


@pytest.mark.full
def test_unknown_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert "rnnsearch_smal" in fails(capsys, "rnnsearch_smal.dates_en_fr", "--port", "0")

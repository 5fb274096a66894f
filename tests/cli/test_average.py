"""`average` writes a folder that the other commands accept."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_zoo.cli import main
from tests.training.small import small_run

Capture = pytest.CaptureFixture[str]


@pytest.mark.full
def test_other_commands_accept_the_average(tmp_path: Path, capsys: Capture) -> None:
    folder, run = tmp_path / "average", small_run()
    capsys.readouterr()
    assert main(["average", str(run), "--last", "2", "-o", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"  attention-zoo evaluate {folder}"
    assert main(["evaluate", str(folder), "data.split=validation"]) == 0
    assert "exact_match" in capsys.readouterr().out
    assert (folder / "results.json").is_file()
    lines = tmp_path / "lines.txt"
    lines.write_text("it is five\n", encoding="utf-8")
    assert main(["predict", str(folder), str(lines), "--allow-unknown"]) == 0
    assert capsys.readouterr().out.count("\n") == 1

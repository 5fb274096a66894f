"""`average` writes a folder that the other commands take; mistakes leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_zoo.cli import main
from tests.training.small import small_run

Capture = pytest.CaptureFixture[str]


@pytest.mark.full
def test_other_commands_take_the_average(tmp_path: Path, capsys: Capture) -> None:
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


MISTAKES = {
    "no folder": ([], "the following arguments are required: -o/--out"),
    "there": (["-o", "there"], "there: exists already; name a folder that does not"),
    "one": (["--last", "1", "-o", "new"], "last must be at least 2"),
    "many": (["--last", "9", "-o", "new"], "of the 9 checkpoints to average 2 are there"),
    "no number": (["--last", "x", "-o", "new"], "invalid int value: 'x'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_line_and_leave_nothing(
    name: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(small_run().resolve())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    words, message = MISTAKES[name]
    capsys.readouterr()
    assert main(["average", run, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there"]

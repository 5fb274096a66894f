"""The example of bulk inference predicts as the task does, and resumes after an interruption."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.export import export
from tests.export.test_saved_model import SOURCES, translator

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "bulk_inference" / "predict.py"
RAY = ROOT / ".venv-ray" / "bin" / "python"
TEXTS = {"a.txt": SOURCES, "b.txt": [SOURCES[1], "", SOURCES[0]], "c.txt": []}


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("bulk_inference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_texts(folder: Path, texts: dict[str, list[str]]) -> list[str]:
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [str(folder / name) for name in texts]


def read_predictions(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        path.name: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for path in folder.glob("[!.]*")
    }


def run(monkeypatch: pytest.MonkeyPatch, *words: Any) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, words)])
    load_script().main()


def test_files_of_one_name_or_without_a_file_are_refused(tmp_path: Path) -> None:
    script = load_script()
    (tmp_path / "other").mkdir()
    paths = write_texts(tmp_path, {"a.txt": [], "b.txt": []})
    (same,) = write_texts(tmp_path / "other", {"a.txt": []})
    (tmp_path / "b.txt.jsonl").write_text("")
    assert script.list_remaining(tmp_path, paths * 2) == paths[:1]
    with pytest.raises(ValueError, match=f"^{re.escape(same)} and .* have the same name; rename"):
        script.list_remaining(tmp_path, [*paths, same])
    with pytest.raises(ValueError, match=r"none\.txt: no such file$"):
        script.list_remaining(tmp_path, ["none.txt"])


def test_values_are_written_as_json() -> None:
    import numpy as np

    to_json = load_script().to_json
    assert to_json(np.array([[b"a", "é".encode()]])) == [["a", "é"]]
    assert to_json(np.array([1.5, -np.inf], "float32")) == [1.5, None]
    assert to_json(np.bool_(True)) is True


@pytest.mark.full
def test_one_process_predicts_as_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = translator(max_length=5)
    folder, files = export(task, tmp_path / "served"), write_texts(tmp_path, TEXTS)
    words = folder, tmp_path / "out", *files, "--workers", 0, "--batch-size", 2
    run(monkeypatch, *words)
    assert capsys.readouterr().out.splitlines()[1] == f"{files[1]}: 3 lines"
    first = read_predictions(tmp_path / "out")
    assert {*first} == {f"{name}.jsonl" for name in TEXTS}
    for name, texts in TEXTS.items():
        for text, prediction in zip(texts, first[f"{name}.jsonl"], strict=True):
            assert prediction["ok"] is bool(text)
            if not text:
                assert prediction["scores"] == [None]
                assert "empty" in prediction["error"]
                continue
            (expected,) = task.predict([text])
            assert prediction["text"] == [expected.text]
            assert prediction["scores"] == [pytest.approx(expected.score, rel=1e-4)]
    (tmp_path / "out" / "b.txt.jsonl").rename(tmp_path / "out" / ".b.txt.jsonl.1")
    run(monkeypatch, *words)
    assert capsys.readouterr().out == f"{files[1]}: 3 lines\n"
    assert read_predictions(tmp_path / "out") == first
    run(monkeypatch, *words)
    assert capsys.readouterr().out == ""
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    bad = tmp_path / "bad.txt", *files
    with pytest.raises(SystemExit, match=r"^predict\.py: 1 files have no predictions, see above$"):
        run(monkeypatch, folder, tmp_path / "out", *bad, "--workers", 0)
    assert f"{bad[0]}: 'utf-8' codec can't decode byte 0xff" in capsys.readouterr().out
    assert read_predictions(tmp_path / "out") == first
    with pytest.raises(SystemExit):
        run(monkeypatch, *words, "--batch-size", 0)
    assert "--batch-size must be at least 1" in capsys.readouterr().err
    words = folder, tmp_path / "new", *files, "--workers", 0, "--fields", "text,label"
    with pytest.raises(SystemExit, match=r"^predict\.py: .* has no output 'label'; its"):
        run(monkeypatch, *words)


@pytest.mark.soak
def test_two_workers_that_are_interrupted_predict_as_one_process(tmp_path: Path) -> None:
    if not RAY.exists():
        pytest.skip("run `make .venv-ray/ready`")
    folder = export(translator(max_length=5), tmp_path / "served")
    files = write_texts(tmp_path, {f"{n}.txt": SOURCES * 20 for n in range(30)})

    log = tmp_path / "log"

    def start(output: str, workers: int) -> subprocess.Popen[bytes]:
        words = [str(folder), str(tmp_path / output), *files, "--workers", str(workers)]
        with log.open("wb") as file:
            return subprocess.Popen(
                [str(RAY), str(SCRIPT), *words], stdout=file, stderr=file, process_group=0
            )

    assert start("one", 0).wait() == 0, log.read_text()[-2000:]
    interrupted = start("two", 2)
    try:
        while not [*(tmp_path / "two").glob("[!.]*")]:
            assert interrupted.poll() is None, log.read_text()[-2000:]
            time.sleep(0.1)
    finally:
        os.killpg(interrupted.pid, signal.SIGKILL)
        interrupted.wait()
    expected, found = read_predictions(tmp_path / "one"), read_predictions(tmp_path / "two")
    assert len(found) < len(expected), "the interruption came too late"
    assert start("two", 2).wait() == 0, log.read_text()[-2000:]
    found = read_predictions(tmp_path / "two")
    assert {*found} == {*expected}
    for name, predictions in expected.items():
        for one, other in zip(predictions, found[name], strict=True):
            scores = one.pop("scores"), other.pop("scores")
            assert scores[0] == pytest.approx(scores[1], rel=1e-4)
            assert one == other

"""The Python code and the commands of the README run unchanged."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from attention_zoo.cli import main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [line for line in TEXT.splitlines() if ".venv/bin/attention-zoo " in line]
SMALL = ("data.size=200", "training.steps=2", "training.evaluate_every=2")
ENTRY = "rnnsearch_small.dates_en_fr"


def test_examples_exist() -> None:
    assert len(BLOCKS) == 4
    assert f'"{ENTRY}"' in BLOCKS[1]
    names = [shlex.split(line.rpartition("| ")[2])[1] for line in COMMANDS]
    assert names == ["predict", "export", "train", "evaluate"]


@pytest.mark.full
def test_a_layer_in_a_keras_model() -> None:
    names: dict = {}
    exec(BLOCKS[0], names)
    assert names["model"].output_shape == (None, None, 5)


@pytest.mark.full
def test_a_trained_translator_is_loaded_and_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    names: dict = {}
    for block in BLOCKS[1:3]:
        exec(block, names)
        (expected,) = re.findall(r"print\(.*\)  # (.*)", block)
        assert capsys.readouterr().out.strip().endswith(expected)
    assert (tmp_path / "attention.png").stat().st_size > 1000


@pytest.mark.full
def test_transformers() -> None:
    names: dict = {}
    exec(BLOCKS[3], names)
    assert tuple(names["features"].shape) == (1, 6, 128)
    assert names["result"].tokens.shape == (1, 1, 5)


@pytest.mark.full
def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = {}
    for line in COMMANDS:
        text, _, command = line.rpartition("| ")
        lines = "\n".join(shlex.split(text)[1:])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        _, name, *words = shlex.split(command)
        assert main([name, *words, *(SMALL if name == "train" else ())]) == 0
        outputs[name] = capsys.readouterr().out
    assert outputs["predict"] == "le dîner est à 17:04.\n"
    assert (tmp_path / "served" / "saved_model.pb").exists()
    assert "exact_match" in outputs["evaluate"]

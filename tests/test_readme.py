"""The Python code of the README runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
ENTRY = "models/translation/rnnsearch_small.dates_en_fr"


def test_examples_exist() -> None:
    assert len(BLOCKS) == 3
    assert f'"{ENTRY}"' in BLOCKS[1]


@pytest.mark.full
def test_a_layer_in_a_keras_model() -> None:
    names: dict = {}
    exec(BLOCKS[0], names)
    assert names["model"].history.history["loss"]


@pytest.mark.full
def test_a_trained_translator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(BLOCKS[1].replace(ENTRY, (ROOT / ENTRY).as_posix()), {})
    assert capsys.readouterr().out.startswith(
        "ils arrivent le lundi 3 mars 2031 ; le dîner est à 17:04."
    )
    assert (tmp_path / "attention.png").stat().st_size > 1000


@pytest.mark.full
def test_transformers() -> None:
    names: dict = {}
    exec(BLOCKS[2], names)
    assert tuple(names["features"].shape) == (1, 6, 128)
    assert names["result"].tokens.shape == (1, 1, 5)

"""The option `--confusion` of `evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo import inspection
from attention_zoo.cli.evaluate import _plot_confusion
from attention_zoo.tasks.classification.scoring import score_classes
from tests.cli.test_main import Capture, refused, run
from tests.training.small import copy_of_small_run


def make_entry(metrics: dict[str, Any]) -> dict[str, Any]:
    return {"split": "validation", "data": "reviews.tsv", "metrics": metrics}


def test_confusion_matrix_is_written(tmp_path: Path) -> None:
    """Of two texts of class "a", one is predicted as "b"; that of class "b" is correct."""
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    metrics = score_classes(np.log(probabilities), [[0], [0], [1]], ["a", "b"])
    _plot_confusion(make_entry(metrics), "classification", str(tmp_path / "out.png"))
    title = "validation: reviews.tsv"
    inspection.plot_confusion_matrix([[1, 1], [0, 1]], ["a", "b"], tmp_path / "same.png", title)
    assert (tmp_path / "out.png").read_bytes() == (tmp_path / "same.png").read_bytes()


def test_tasks_without_confusion_matrix_are_refused(tmp_path: Path) -> None:
    message = r"^--confusion needs a task with one class per example, got tagging\. Remove the opt"
    with pytest.raises(ValueError, match=message):
        _plot_confusion(make_entry({"f1": 1.0}), "tagging", str(tmp_path / "out.png"))
    assert not [*tmp_path.iterdir()]


def test_unknown_image_format_is_refused(tmp_path: Path, capsys: Capture) -> None:
    error = refused(capsys, "evaluate", tmp_path / "run", "--confusion", "out.docx")
    assert "out.docx: unknown image format .docx" in error


@pytest.mark.full
def test_results_are_written_before_the_option_is_refused(tmp_path: Path, capsys: Capture) -> None:
    folder, path = copy_of_small_run(tmp_path), tmp_path / "out.png"
    code, out, err = run(capsys, "evaluate", folder, "data.test_size=1", "--confusion", path)
    assert code == 2
    assert "bleu" in out
    assert err.startswith("attention-zoo: error: --confusion needs a task with one class per exam")
    assert "got translation. " in err
    assert len(json.loads((folder / "results.json").read_text())["evaluations"]) == 1

"""Every notebook runs from its first cell to its last, on little data, and draws what it says."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbclient
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.py")), ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTEBOOK_FOLDER", str(tmp_path))
    monkeypatch.setenv("NOTEBOOK_STEPS", "25")
    monkeypatch.setenv("NOTEBOOK_SENTENCES", "20")
    notebook = jupytext.read(path)
    nbclient.NotebookClient(
        notebook, timeout=400, resources={"metadata": {"path": str(NOTEBOOKS)}}
    ).execute()
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    drawn = sorted(file.name for file in tmp_path.glob("*.png"))
    assert drawn, "the notebook writes its pictures"
    assert len(pictures) >= len(drawn), "and shows them"

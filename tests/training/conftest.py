from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attention_zoo import training
from attention_zoo.tasks import TASKS
from tests.eager import shared_run
from tests.training.custom_task import Regression
from tests.training.small import RESUME_OVERRIDES, write_recipe

__all__ = ["shared_run"]  # autouse fixture, imported to be active in this folder


@pytest.fixture(scope="session")
def uninterrupted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an uninterrupted run, for comparison with resumed runs."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    return training.fit(write_recipe(folder), [f"run={folder / 'run'}", *RESUME_OVERRIDES]).folder


@pytest.fixture
def custom_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of `tests.training.custom_task`, registered for one test."""
    monkeypatch.setitem(TASKS._factories, "regression", Regression)


@pytest.fixture
def no_run_folder(tmp_path: Path) -> Iterator[None]:
    """Assert after the test that no run folder was created."""
    yield
    assert not (tmp_path / "run").exists()

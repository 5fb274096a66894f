from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attention_zoo import training
from attention_zoo.tasks import TASKS
from tests.eager import shared_run
from tests.training.custom_task import Regression
from tests.training.small import RESUMED, write_recipe

__all__ = ["shared_run"]


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing has stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return training.fit(write_recipe(folder), [f"run={folder / 'run'}", *RESUMED]).folder


@pytest.fixture
def custom_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of `tests.training.custom_task`, registered for one test."""
    monkeypatch.setitem(TASKS._factories, "regression", Regression)


@pytest.fixture
def no_run_folder(tmp_path: Path) -> Iterator[None]:
    yield
    assert not (tmp_path / "run").exists()

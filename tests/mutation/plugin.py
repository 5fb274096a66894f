"""Pytest plugin: run a list of tests in its order; record failures and durations."""

import json
import os
import resource
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(os.environ["MUTATION_FOLDER"])
resource.setrlimit(resource.RLIMIT_DATA, (12 << 30,) * 2)  # a mutant may allocate unlimited memory
failed: list[str] = []
seconds: Counter[str] = Counter()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    names = (FOLDER / "selected.txt").read_text(encoding="utf-8").splitlines()
    if names:
        order = {name: number for number, name in enumerate(names)}
        items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds[report.nodeid] += report.duration
    failed.extend([report.nodeid] if report.failed else [])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        (FOLDER / "tests.tmp").write_text(json.dumps([failed, seconds]), encoding="utf-8")
        (FOLDER / "tests.tmp").replace(FOLDER / "tests.json")

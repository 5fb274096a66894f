"""Pytest plugin that writes what happens to each test as JSON lines, as soon as it happens.

It is copied next to the copy of the repository and loaded by `-p`, so it imports nothing of it.
It also selects and orders tests by node id: unlike on pytest's command line, these may be many and
need not exist. Environment: MUTATION_EVENTS (file to append to), MUTATION_TESTS (file with node
ids, empty for all), MUTATION_PACKAGE (must be imported from the current folder), MUTATION_MEMORY
(limit in bytes; a mutant may allocate without end).
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pytest

PACKAGE = os.environ["MUTATION_PACKAGE"]
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ

if limit := os.environ.get("MUTATION_MEMORY"):
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), resource.RLIM_INFINITY))


def write(kind: str, test: str, **more: object) -> None:
    """Append an event."""
    with open(os.environ["MUTATION_EVENTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": kind, "test": test, **more}) + "\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed and not IS_WORKER:
        write("collection_failed", report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = Path(os.environ["MUTATION_TESTS"]).read_text(encoding="utf-8").splitlines()
    if names:
        order = {name: number for number, name in enumerate(names)}
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in order])
        items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])


def pytest_collection_finish() -> None:
    """Check that the tests have imported the package of the copy."""
    module = sys.modules.get(PACKAGE)
    origin = getattr(module, "__file__", None)
    if origin and not Path(origin).resolve().is_relative_to(Path.cwd().resolve()):
        write("wrong_package", origin)


def pytest_runtest_logstart(nodeid: str) -> None:
    if not IS_WORKER:
        write("started", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed and not IS_WORKER:
        has_timed_out = "from pytest-timeout" in str(report.longrepr)
        write("failed", report.nodeid, timeout=has_timed_out)
    elif report.passed and report.when == "call" and not IS_WORKER:
        write("passed", report.nodeid)

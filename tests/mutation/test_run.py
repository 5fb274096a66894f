"""Whole runs on a tiny package."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mutation import runner
from tests.mutation.execute import Copy
from tests.mutation.project import ROOT, Project, copy_repository
from tests.mutation.run import main
from tests.mutation.state import Result, State

CLAMP_TESTS = [f"tests/test_core.py::test_clamp[{x}]" for x in (1, 1000)]
TINY = {
    ".gitignore": "build/\n",
    "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\nmarkers = full\n slow\n",
    "pkg/__init__.py": "",
    "pkg/core.py": """\
def clamp(x):
    is_large = x > 100
    return 100 if is_large else x


def unused(x):
    return -x


def rarely(x):
    return x * 2
""",
    "tests/test_core.py": """\
import os
import pytest
from pkg.core import clamp, rarely

@pytest.mark.parametrize("x", [1, 1000])
def test_clamp(x):
    assert clamp(x) == min(x, 100)

@pytest.mark.full
def test_rarely():
    assert rarely(3) == 6
""",
    "tests/conftest.py": """\
from tests.cpu_time import CPUTime

def pytest_addoption(parser):
    parser.addoption("--cpu-report")
    parser.addoption("--fail-slow", action="store_true")
    parser.addoption("--full", action="store_true")

def pytest_configure(config):
    config.pluginmanager.register(CPUTime(config), "cpu_time")
    config.option.markexpr = config.option.markexpr or "not full"
""",
}


@pytest.fixture
def tiny(tmp_path: Path) -> Project:
    """A repository whose tests cover two lines of four, one of them badly."""
    for name, text in TINY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "tests" / "cpu_time.py", tmp_path / "tests")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return Project(tmp_path, "pkg")


@pytest.mark.full
def test_run_of_a_tiny_package(tiny: Project, capsys: pytest.CaptureFixture[str]) -> None:
    def results() -> dict[int, Result]:
        rows = State(tiny.root / "build/mutants/state.jsonl").results.values()
        return {int(row.id.split(":")[1]): row for row in rows}

    options = ["--count", "4", "--workers", "1"]
    assert main(options, tiny, minimum=1) == 0
    statuses = {line: result.status for line, result in results().items()}
    assert statuses == {2: "survived", 3: "killed", 7: "uncovered", 11: "uncovered"}
    assert results()[3].killed_by in CLAMP_TESTS
    assert results()[3].is_confirmed
    report = (tiny.root / "tests/mutation/report.md").read_text()
    assert "The fast tier kills 25.0 %" in report
    assert (tiny.root / "pkg/core.py").read_text() == TINY["pkg/core.py"]

    survivor = results()[2]
    entry = {"path": survivor.path, "old": survivor.old, "new": survivor.new, "reason": "a test"}
    (tiny.root / "tests/mutation/equivalent.yaml").write_text(json.dumps([entry]))
    capsys.readouterr()
    assert main([*options, "--full-tier"], tiny, minimum=1) == 0
    printed = capsys.readouterr().out
    assert "4 mutants have a result, 0 to run" in printed
    assert "coverage: test files" not in printed
    assert "| all | 4 | 1 | 1 | 2 | 33.3 % |" in printed
    assert {line: r.status for line, r in results().items()} == {**statuses, 11: "killed_full"}


@pytest.mark.full
def test_pytest_in_a_copy(tiny: Project, tmp_path: Path) -> None:
    root = copy_repository(tiny.root, tmp_path / "copy")
    copy = Copy(Project(root, "pkg"), tmp_path / "scratch")
    names = [*reversed(CLAMP_TESTS), "tests/test_core.py::test_clamp[2]"]
    outcome = copy.pytest([], names)
    assert (outcome.exit_code, outcome.passed) == (0, names[:2])
    assert copy.pytest([], names[2:]).exit_code == 5
    (root / "pkg/core.py").write_text("import time\ntime.sleep(60)\n")
    assert copy.pytest([], names, limit=2.0).exit_code is None
    (root / "pkg/core.py").write_text("x = y\n")
    assert copy.pytest([], names).classify() == ("killed", "collection of tests/test_core.py")


@pytest.mark.full
def test_interrupted_run_leaves_no_result(tiny: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.MutantRunner, "_record", stop)
    assert main(["--count", "4", "--workers", "2"], tiny, minimum=1) == 130
    assert not (tiny.root / "build/mutants/state.jsonl").exists()


@pytest.mark.full
def test_copies_have_uncommitted_files_and_no_ignored_ones(tiny: Project, tmp_path: Path) -> None:
    (tiny.root / "build").mkdir()
    (tiny.root / "build" / "x.py").touch()
    copy = copy_repository(tiny.root, tmp_path / "copy")
    assert (copy / "pkg/core.py").is_file()
    assert not (copy / "build").exists()

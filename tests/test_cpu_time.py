"""The CPU time plugin: measurement, report and limit."""

from __future__ import annotations

import json

import pytest

from tests import cpu_time

pytest_plugins = ["pytester"]

CONFTEST = """
import pytest
from tests.cpu_time import CPUTime

def pytest_addoption(parser):
    parser.addoption("--full", action="store_true")
    parser.addoption("--fail-slow", action="store_true")
    parser.addoption("--cpu-report")

def pytest_configure(config):
    config.pluginmanager.register(CPUTime(config), "cpu_time")
    config.addinivalue_line("markers", "full: full tier")
"""
TESTS = """
import subprocess, sys, time
import pytest

BUSY = "import time\\nwhile time.process_time() < {}: pass"

def use(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

@pytest.fixture(scope="module")
def shared():
    use(0.1)

def test_quick(shared): pass
def test_call(): use(0.1)
def test_child(): subprocess.run([sys.executable, "-S", "-c", BUSY.format(0.1)], check=True)
@pytest.mark.full
def test_full(): use(0.1)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite whose slow tests take 0.1 CPU seconds; the limit is 0.06."""
    monkeypatch.setattr(cpu_time, "REPORT_LIMIT", 0.06)
    monkeypatch.setattr(cpu_time, "FAIL_LIMIT", 0.06)
    pytester.makeini("[pytest]")  # the root folder is that of the suite
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=TESTS)
    return pytester


def test_setup_call_children_and_fixtures_are_measured(suite: pytest.Pytester) -> None:
    result = suite.runpytest_inprocess("--cpu-report", "cpu.json")
    report = json.loads((suite.path / "cpu.json").read_text("utf-8"))
    slow = {name.partition("::")[2] for name, s in report["tests"].items() if s > 0.06}
    assert slow == {"test_call", "test_child", "test_full"}
    assert report["fixtures"]["test_it.py::shared"] > 0.06
    result.stdout.fnmatch_lines(["2 fast tests over 0.06*", "1 shared fixtures over 0.06*"])


def test_a_slow_test_fails_in_the_second_of_two_runs(suite: pytest.Pytester) -> None:
    options = ("--fail-slow", "-k", "test_call or test_full")
    assert suite.runpytest_inprocess(*options).ret == 0
    assert suite.runpytest_inprocess("--full", *options).ret == 0  # no limit with --full
    result = suite.runpytest_inprocess(*options)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_call: over 0.06 CPU seconds in two*"])
    result.stdout.no_fnmatch_line("FAILED test_it.py::test_full*")


def test_a_fast_run_clears_an_earlier_slow_one(suite: pytest.Pytester) -> None:
    options = ("--fail-slow", "-k", "test_call")
    file = suite.path / "test_it.py"
    for limit, status in ((0.1, 0), (0.0, 0), (0.1, 0), (0.1, 1)):
        file.write_text(TESTS.replace("use(0.1)\ndef test_child", f"use({limit})\ndef test_child"))
        assert suite.runpytest_inprocess(*options).ret == status

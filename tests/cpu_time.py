"""Pytest plugin that measures the CPU time of every test and reports slow tests.

CPU time is the user and system time of setup, call and teardown, with finished child processes.
Fixtures of class scope or wider are reported separately. Limits apply to runs of the fast tier
only: with `--full` the same tests have more cases. Tests over `FAIL_LIMIT` are stored in pytest's
cache; with `--fail-slow`, a test that exceeds it in two consecutive runs fails the second one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

JAX = os.environ.get("KERAS_BACKEND") == "jax"  # it compiles every operation on its first use
REPORT_LIMIT = 3.0 if JAX else 1.0
FAIL_LIMIT = 3.9 if JAX else 1.3
FULL_TIER_MARKERS = ("full", "slow", "soak", "zoo")
CACHE_KEY = "attention_zoo/slow_tests_on_jax" if JAX else "attention_zoo/slow_tests"


def read_cpu_seconds() -> float:
    """User and system time of this process and of its finished child processes."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class CPUTime:
    """Plugin that measures in the workers and reports in the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: dict[str, float] = {}
        self.fast: dict[str, float] = {}
        self.fixtures: dict[str, float] = {}
        self._failed: list[str] = []
        self._start = 0.0
        self._shared = 0.0
        self._new_fixtures: list[tuple[str, float]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._start, self._shared, self._new_fixtures = read_cpu_seconds(), 0.0, []
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Subtract the time of shared fixtures from that of the test."""
        if fixturedef.scope == "function":
            return (yield)
        start, outer, self._shared = read_cpu_seconds(), self._shared, 0.0
        try:
            return (yield)
        finally:
            total = read_cpu_seconds() - start
            name = f"{fixturedef.baseid}::{fixturedef.argname}"
            self._new_fixtures.append((name, total - self._shared))
            self._shared = outer + total

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Iterator[None]:
        report = yield
        if call.when == "teardown":
            own = read_cpu_seconds() - self._start - self._shared
            report.user_properties = [
                *report.user_properties,
                ("cpu_seconds", own),
                ("fast", not any(map(item.get_closest_marker, FULL_TIER_MARKERS))),
                ("fixture_cpu_seconds", self._new_fixtures),
            ]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if "cpu_seconds" in properties:
            self.tests[report.nodeid] = properties["cpu_seconds"]
            if properties["fast"] and not self.config.getoption("--full"):
                self.fast[report.nodeid] = properties["cpu_seconds"]
            for name, seconds in properties["fixture_cpu_seconds"]:
                self.fixtures[name] = max(seconds, self.fixtures.get(name, 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        if hasattr(self.config, "workerinput"):
            return result
        cache = getattr(self.config, "cache", None)  # None with `-p no:cacheprovider`
        previous = cache.get(CACHE_KEY, []) if cache else []
        others = [name for name in previous if name not in self.fast]
        over = [name for name, seconds in self.fast.items() if seconds > FAIL_LIMIT]
        if cache:
            cache.set(CACHE_KEY, sorted({*others, *over}))
        self._failed = sorted({*over} & {*previous})
        if self.config.getoption("--fail-slow") and self._failed and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if path := self.config.getoption("--cpu-report"):
            rows = {"tests": self.tests, "fixtures": self.fixtures}
            Path(path).write_text(json.dumps(rows, indent=1, sort_keys=True), encoding="utf-8")
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        shared = sum(self.fixtures.values())
        write(
            f"CPU time: {sum(self.tests.values()):.0f} s in {len(self.tests)} tests, "
            f"{shared:.0f} s in shared fixtures"
        )
        for title, rows in (("fast tests", self.fast), ("shared fixtures", self.fixtures)):
            slow = sorted(((s, n) for n, s in rows.items() if s > REPORT_LIMIT), reverse=True)
            if slow:
                write(f"{len(slow)} {title} over {REPORT_LIMIT} CPU seconds:")
            for seconds, name in slow:
                write(f"  {seconds:6.2f} s  {name}")
        if self.config.getoption("--fail-slow"):
            for name in self._failed:
                write(f"FAILED {name}: over {FAIL_LIMIT} CPU seconds in two consecutive runs")

"""Run pytest in a private copy of the repository."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.project import Project

MEMORY_LIMIT = 12 << 30
REMOVED_VARIABLES = ("COVERAGE_PROCESS_START", "ATTENTION_ZOO_FULL_TESTS", "KERAS_BACKEND")


class Interrupted(Exception):
    """The run was ended from outside, so it has no outcome."""


@dataclass
class Outcome:
    """What a pytest run did.

    Args:
        exit_code: of pytest; negative if a signal ended it; None if it ran past its limit.
        seconds: wall time.
        passed, failed, timed_out: node ids; a test that hit the limit of pytest-timeout is in
            `failed` too.
        uncollected: files and folders that pytest could not collect.
        last: test that started last.
        output: stdout and stderr.
    """

    exit_code: int | None
    seconds: float
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    uncollected: list[str] = field(default_factory=list)
    last: str = ""
    output: str = ""

    def classify(self) -> tuple[str, str]:
        """Status of the mutant and the test that killed it.

        Raises:
            RuntimeError: if pytest could not run for a reason other than the mutant.
        """
        if self.exit_code is None:
            return "timeout", self.last
        if self.failed:
            return "timeout" if self.timed_out else "killed", self.failed[0]
        if self.uncollected or "ImportError while loading conftest" in self.output:
            return "killed", f"collection of {next(iter(self.uncollected), 'conftest.py')}"
        if self.exit_code == 1 and "Timeout" in self.output:
            return "timeout", self.last
        if self.exit_code in (2, 3) or not 0 <= self.exit_code <= 128:
            return "killed", self.last or "the start of pytest"
        if self.exit_code in (0, 5):
            return "survived", ""
        raise RuntimeError(f"pytest ended with {self.exit_code}:\n{self.output[-4000:]}")


def compute_wall_limit(cpu_seconds: float, minimum: float) -> float:
    """Wall time after which a run counts as hanging; longer while other programs run too."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return max(minimum, 4 * cpu_seconds) * max(1.0, load)


class Copy:
    """A private copy of the repository in which one mutant at a time is tested.

    Args:
        project: the copied repository.
        scratch: folder for temporary files, outside the copy.
    """

    def __init__(self, project: Project, scratch: Path) -> None:
        self.project = project
        self.scratch = scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._is_interrupted = False
        (scratch / "plugins").mkdir(parents=True)
        plugin = Path(__file__).with_name("plugin.py")
        shutil.copy(plugin, scratch / "plugins" / "mutation_plugin.py")
        self._check_import()

    def make_environment(self, memory_limit: int = 0) -> dict[str, str]:
        """Environment in which the copy's package is imported, in child processes too."""
        paths = [str(self.project.root), str(self.scratch / "plugins")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "MPLBACKEND": "Agg",
            "MUTATION_EVENTS": str(self.scratch / "events.jsonl"),
            "MUTATION_TESTS": str(self.scratch / "selected.txt"),
            "MUTATION_PACKAGE": self.project.package,
        }
        inherited = [name for name in environment if name.startswith(("PYTEST_", "COV_CORE_"))]
        for name in [*inherited, *REMOVED_VARIABLES]:
            environment.pop(name, None)
        return environment | ({"MUTATION_MEMORY": str(memory_limit)} if memory_limit else {})

    def _check_import(self) -> None:
        """Check that a child process in another folder finds the copy before an installed one."""
        code = f"import importlib.util as u; print(u.find_spec({self.project.package!r}).origin)"
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=self.scratch, env=self.make_environment(), capture_output=True, check=True
        )
        if not Path(done.stdout.decode().strip()).is_relative_to(self.project.root):
            raise RuntimeError(f"{self.project.package} is imported from {done.stdout.decode()}")

    @contextmanager
    def apply_mutant(self, mutant: Mutant) -> Iterator[None]:
        """Apply a mutant to the copy, and restore the module afterwards."""
        path = self.project.root / mutant.path
        source = path.read_bytes()
        path.write_bytes(mutant.apply(source))
        try:
            yield
        finally:
            path.write_bytes(source)

    def interrupt(self) -> None:
        """End the running pytest, which then raises `Interrupted`, and start no other."""
        self._is_interrupted = True
        self._kill()

    def _kill(self) -> None:
        """End the running pytest with its child processes."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def pytest(
        self,
        options: list[str],
        targets: list[str],
        limit: float | None = None,
        memory_limit: int = MEMORY_LIMIT,
    ) -> Outcome:
        """Run pytest.

        Args:
            options: of pytest.
            targets: test files, or node ids, which run in this order; node ids that do not exist
                are dropped.
            limit: wall time after which the run is ended.
            memory_limit: bytes that a process may allocate; 0 for no limit.

        Raises:
            Interrupted: if `interrupt` was called.
        """
        if self._is_interrupted:
            raise Interrupted
        events, output = self.scratch / "events.jsonl", self.scratch / "output.txt"
        arguments, selected = self.scratch / "arguments.txt", self.scratch / "selected.txt"
        events.write_text("")
        files = dict.fromkeys(target.partition("::")[0] for target in targets)
        arguments.write_text("\n".join(files), encoding="utf-8")
        selected.write_text("\n".join(t for t in targets if "::" in t), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutation_plugin", "--tb=line"]
        command += ["--basetemp", str(self.scratch / "tmp"), *options, f"@{arguments}"]
        start = time.monotonic()
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                cwd=self.project.root,
                env=self.make_environment(memory_limit),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if self._is_interrupted:
                self._kill()
            code: int | None = None
            try:
                code = self._process.wait(limit)
            except subprocess.TimeoutExpired:
                pass
            finally:  # after KeyboardInterrupt too
                self._kill()
                self._process.wait()
        if self._is_interrupted:
            raise Interrupted
        outcome = Outcome(code, time.monotonic() - start)
        outcome.output = output.read_text(errors="replace")
        self._read_events(outcome, events)
        return outcome

    def _read_events(self, outcome: Outcome, events: Path) -> None:
        lists = {
            "passed": outcome.passed,
            "failed": outcome.failed,
            "collection_failed": outcome.uncollected,
        }
        for line in events.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["event"] == "wrong_package":
                raise RuntimeError(f"The tests import {event['test']}, not the copy.")
            if event["event"] == "started":
                outcome.last = event["test"]
            else:
                lists[event["event"]].append(event["test"])
            if event.get("timeout"):
                outcome.timed_out.append(event["test"])

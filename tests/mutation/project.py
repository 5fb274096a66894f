"""The tested repository: its modules, its test files, and copies in which pytest runs."""

import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NOT_INHERITED = ("PYTEST_", "COV_", "COVERAGE_", "ATTENTION_ZOO_", "KERAS_BACKEND")


class MutationError(Exception):
    """An invalid option or file, or a failure of pytest that no mutant caused."""


def compute_digest(*parts: str | bytes) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the parts."""
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return hashlib.sha256(b"".join(part + b"\0" for part in encoded)).hexdigest()[:16]


@dataclass(frozen=True)
class Project:
    """A repository with one package. Paths are relative to it; hashed files must not change."""

    root: Path = ROOT
    package: str = "attention_zoo"

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    @functools.cache  # noqa: B019
    def hash(self, path: str) -> str:
        return compute_digest(self.read(path)) if (self.root / path).is_file() else ""

    def find(self, folder: str, pattern: str) -> list[str]:
        paths = (self.root / folder).glob(pattern)
        return sorted(path.relative_to(self.root).as_posix() for path in paths)

    def list_test_files(self, restricted_to: list[str]) -> list[str]:
        """List test files at or below some paths (default: all), except those of this tool."""
        roots = [Path(path) for path in restricted_to or ["tests"]]
        found = [f for f in self.find("tests", "**/test_*.py") if "tests/mutation/" not in f]
        if found := [f for f in found if any(Path(f).is_relative_to(root) for root in roots)]:
            return found
        raise MutationError(f"--tests: no test files in {' or '.join(restricted_to)}.")

    def list_helpers(self, test_file: str) -> list[str]:
        """List modules without tests in the folder of a test file and in `tests/`."""
        folders = {Path(test_file).parent.as_posix(), "tests"}
        return [p for folder in folders for p in self.find(folder, "*.py") if "/test_" not in p]

    def copy(self, target: Path) -> "Project":
        """Copy the files that git tracks or would add, with uncommitted changes."""
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=self.root, check=True, capture_output=True, text=True)
        for name in filter(None, names.stdout.split("\0")):
            if (self.root / name).is_file():  # a tracked file may have been deleted
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, target / name)
        return Project(target.resolve(), self.package)


class Outcome(NamedTuple):
    status: str  # killed if a test failed, broken if pytest did, else timeout or survived
    output: str
    failed: list[str]
    seconds: dict[str, float]  # durations of all tests


class Copy:
    """A private copy of a repository, in a folder; pytest in it ends when `stop` is set."""

    def __init__(self, project: Project, folder: Path, stop: threading.Event) -> None:
        self.folder = folder
        self.stop = stop
        shutil.copytree(project.root, folder / "repository")
        self.project = Project(folder / "repository", project.package)
        shutil.copy(Path(__file__).with_name("plugin.py"), folder / "mutation_plugin.py")

    def pytest(self, options: list[str], targets: list[str], limit: float = 1e9) -> Outcome:
        """Run test files, or tests in the given order, without those that do not exist.

        The limit is in seconds; it is extended in proportion to the system load.
        """
        tests, output = self.folder / "tests.json", self.folder / "output.txt"
        tests.write_text("[[], {}]")
        selected = "\n".join(target for target in targets if "::" in target)
        (self.folder / "selected.txt").write_text(selected, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutation_plugin", "--tb=line"]
        command += ["--basetemp", str(self.folder / "tmp"), *options]
        command += dict.fromkeys(target.partition("::")[0] for target in targets)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        environment["PYTHONPATH"] = os.pathsep.join([str(self.project.root), str(self.folder)])
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "MUTATION_FOLDER": str(self.folder)}
        end = time.monotonic() + limit * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        with output.open("wb") as file:
            where = {"cwd": self.project.root, "env": environment, "start_new_session": True}
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, **where)
        try:
            while (code := process.poll()) is None and time.monotonic() < end:
                if self.stop.wait(0.05):
                    raise KeyboardInterrupt
        finally:
            with suppress(ProcessLookupError):  # with child processes that still run
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        failed, seconds = json.loads(tests.read_text(encoding="utf-8"))
        status = {0: "survived", 5: "survived", None: "timeout"}.get(code, "broken")
        text = output.read_text(errors="replace")
        return Outcome("killed" if failed else status, text, failed, seconds)

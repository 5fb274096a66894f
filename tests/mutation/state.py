"""Results of finished mutants, and the mutants known to be equivalent."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import yaml

from tests.mutation.mutants import Mutant
from tests.mutation.project import UsageError

KILLED = ("killed", "timeout")
SURVIVED = ("survived", "uncovered")


@dataclass(frozen=True)
class Result:
    """Result of one mutant.

    Args:
        id, path, old, new: the mutant and its diff.
        status: `killed`, `timeout` (killed, too), `survived`, `uncovered` (no fast test executes
            it) or `killed_full` (survived the fast tier only).
        killed_by: test that failed.
        seconds: wall time of the runs.
        tests: number of tests selected.
        dropped: number of covering tests beyond the budget.
        source_hash: hash of the module.
        evidence: hash of what the result rests on: the test file that killed the mutant, or the
            tests that it survived.
        full_tier: "" if not tried, else `survived`, `killed`, `no tests` or `time limit`.
        full_evidence: hash of the test files tried in the full tier.
        is_confirmed: whether the killing test passes without the mutant.
    """

    id: str
    path: str
    old: str
    new: str
    status: str
    killed_by: str = ""
    seconds: float = 0.0
    tests: int = 0
    dropped: int = 0
    source_hash: str = ""
    evidence: str = ""
    full_tier: str = ""
    full_evidence: str = ""
    is_confirmed: bool = False

    @property
    def is_killed(self) -> bool:
        """Whether the fast tier kills the mutant."""
        return self.status in KILLED

    def matches(self, mutant: Mutant, source_hash: str) -> bool:
        """Whether this is a result of the mutant in the module as it is."""
        is_same = (self.id, self.old, self.new) == (mutant.id, mutant.old, mutant.new)
        return is_same and self.source_hash == source_hash


class State:
    """Results in a JSON-lines file; the last line of a mutant counts.

    Args:
        path: the file; created when needed. A last line that was truncated is ignored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[str, Result] = {}
        self._lock = threading.Lock()
        names = {f.name for f in fields(Result)}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            self.results[row["id"]] = Result(**{k: v for k, v in row.items() if k in names})

    def add(self, result: Result) -> None:
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(asdict(result), ensure_ascii=False) + "\n"
            is_truncated = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
            with self.path.open("a", encoding="utf-8") as file:
                file.write("\n" + text if is_truncated and self.path.stat().st_size else text)
            self.results[result.id] = result


@dataclass(frozen=True)
class Equivalent:
    """A mutant that no test can kill.

    Args:
        path: the module.
        old, new: the changed line before and after; indentation does not matter.
        reason: why the program behaves the same.
    """

    path: str
    old: str
    new: str
    reason: str

    def matches(self, mutant: Mutant) -> bool:
        return (self.path, _strip_lines(self.old), _strip_lines(self.new)) == (
            mutant.path,
            mutant.old,
            mutant.new,
        )


def _strip_lines(text: str) -> str:
    return "\n".join(filter(None, (line.strip() for line in text.splitlines())))


def read_equivalents(path: Path) -> list[Equivalent]:
    """Read the list of equivalent mutants; an empty list if there is no file.

    Raises:
        UsageError: for an entry without exactly the keys path, old, new and a reason.
    """
    entries = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    names = [f.name for f in fields(Equivalent)]
    for number, entry in enumerate(entries or [], 1):
        if not isinstance(entry, dict) or sorted(entry) != sorted(names):
            raise UsageError(f"{path.name}: entry {number} must have the keys {', '.join(names)}.")
        if not all(isinstance(value, str) for value in entry.values()) or not entry["reason"]:
            raise UsageError(f"{path.name}: entry {number} must have texts and a reason.")
    return [Equivalent(**entry) for entry in entries or []]

"""Choose and order the tests that a mutant is run against."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation.line_coverage import CoverageStore, FileCoverage
from tests.mutation.mutants import Mutant
from tests.mutation.project import Project, compute_digest


@dataclass(frozen=True)
class Selection:
    """Tests for one mutant.

    Args:
        tests: node ids, those most likely to kill the mutant first.
        seconds: expected CPU seconds of all of them.
        longest: expected CPU seconds of the longest.
        dropped: number of tests beyond the budget.
        evidence: hash of the tests and their files; a result holds as long as it is the same.
    """

    tests: tuple[str, ...]
    seconds: float
    longest: float
    dropped: int
    evidence: str


class Selector:
    """Selects tests by line coverage.

    Tests of the mirrored test file come first, then those of test files in the same folder that
    mention the module's public names, then the others; within that, cheap classes first. Tests that
    share cached results or fixtures with a covering test follow, since the coverage of a shared
    result is recorded for one test only.

    Args:
        project: the repository.
        store: line coverage.
        test_files: test files to select from.
        budget: expected CPU seconds at most.

    Attributes:
        unreliable: tests that are not selected, since they may fail without a mutant.
    """

    def __init__(
        self, project: Project, store: CoverageStore, test_files: list[str], budget: float
    ) -> None:
        self.project = project
        self.budget = budget
        self.store = store
        self.files = [store.files[file] for file in test_files if file in store.files]
        self.unreliable = {test for record in self.files for test in record.failed}

    def exclude(self, tests: set[str]) -> None:
        """Select these tests no more, until their files change."""
        for record in self.files:
            if found := sorted(tests & set(record.tests)):
                record.failed += found
                self.store.add(record)
        self.unreliable |= tests

    def _find_covering_tests(self, mutant: Mutant) -> dict[str, list[str]]:
        """Test file -> tests that execute the mutant.

        Code that only an import runs counts as covered by the mirrored tests, if no test executes
        anything else of the class or module.
        """
        found = {f.file: f.get_tests_at(mutant.path, *mutant.covered) for f in self.files}
        covering = {file: tests for file, tests in found.items() if tests}
        if not covering and mutant.at_import:
            covering = {
                f.file: f.tests
                for f in self.files
                if f.tests and self.project.get_mirror_rank(f.file, mutant.path) < 2
            }
        return covering

    def _rank_tests(self, record: FileCoverage, tests: list[str], rank: int) -> list[tuple]:
        """Sortable rows (rank, mean seconds of the class, class, seconds, test)."""
        seconds = dict(zip(record.tests, record.seconds, strict=True))
        names = [test.partition("[")[0].rpartition("::")[0] for test in tests]
        classes: dict[str, list[float]] = {}
        for test, name in zip(tests, names, strict=True):
            classes.setdefault(name, []).append(seconds[test])
        means = {name: sum(values) / len(values) for name, values in classes.items()}
        return [
            (rank, means[name], name, seconds[test], test)
            for test, name in zip(tests, names, strict=True)
        ]

    def select(self, mutant: Mutant) -> Selection | None:
        """The tests for a mutant; None if no test covers it."""
        covering = self._find_covering_tests(mutant)
        if not covering:
            return None
        rows: list[tuple] = []
        for record in (f for f in self.files if f.file in covering):
            rank = self.project.get_mirror_rank(record.file, mutant.path)
            tests = covering[record.file]
            rows += self._rank_tests(record, tests, rank)
            if rank == 0 or self.project.shares_results(record.file):
                others = [test for test in record.tests if test not in set(tests)]
                rows += self._rank_tests(record, others, 3 + rank)
        rows = sorted(row for row in rows if row[-1] not in self.unreliable)
        chosen: list[str] = []
        total = longest = 0.0
        for *_, seconds, test in rows:
            if chosen and total + seconds > self.budget:
                break
            chosen.append(test)
            total, longest = total + seconds, max(longest, seconds)
        files = sorted({test.partition("::")[0] for test in chosen})
        hashes = [self.project.compute_hash(file) for file in files]
        evidence = compute_digest(*sorted(chosen), *hashes)
        if not chosen:
            return None
        return Selection(tuple(chosen), total, longest, len(rows) - len(chosen), evidence)

"""Test mutants in parallel, each in a fresh process: fast tier, check of the kills, full tier."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import TypeVar

from tests.mutation.execute import Copy, Interrupted, compute_wall_limit
from tests.mutation.mutants import Mutant
from tests.mutation.project import Project, compute_digest
from tests.mutation.selection import Selection, Selector
from tests.mutation.state import SURVIVED, Result, State

T = TypeVar("T")
FULL_TIER = ["--full", "-m", "full or slow", "--timeout", "0"]
FULL_LIMIT = 300.0
SHORTEST_LIMIT = 120.0
MAX_ROUNDS = 3


class MutantRunner:
    """Tests mutants and records their results.

    Args:
        project: a copy of the repository that stays unchanged.
        copies: one private copy for each worker.
        state: where results are read and written.
        selector: selects the tests of the fast tier.
        test_files: test files that may be used.
        log: prints a line of progress.
    """

    def __init__(
        self,
        project: Project,
        copies: list[Copy],
        state: State,
        selector: Selector,
        test_files: list[str],
        log: Callable[[str], None] = print,
    ) -> None:
        self.project = project
        self.copies = copies
        self.state = state
        self.selector = selector
        self.test_files = test_files
        self.log = log
        self.errors: list[str] = []

    def _run_parallel(self, jobs: Iterable[T], function: Callable[[Copy, T], None]) -> None:
        """Call `function(copy, job)` for all jobs, with one job at a time in each copy."""
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in self.copies:
            free.put(copy)

        def work(job: T) -> None:
            copy = free.get()
            try:
                function(copy, job)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(len(self.copies)) as pool:
            try:
                for done in as_completed([pool.submit(work, job) for job in jobs]):
                    if not isinstance(done.exception(), Interrupted):
                        done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for copy in self.copies:
                    copy.interrupt()
                raise

    def _record(self, result: Result) -> None:
        self.state.add(result)
        by = f"  by {result.killed_by}" if result.killed_by else ""
        self.log(f"{result.status:<11} {result.seconds:6.1f} s  {result.id}{by}")

    # -------------------------------------------------------------- fast tier

    def _compute_evidence(self, status: str, killed_by: str, selection: Selection | None) -> str:
        if status in SURVIVED or status == "killed_full":
            return selection.evidence if selection else ""
        return self.project.compute_hash(killed_by.partition("::")[0])

    def get_result(self, mutant: Mutant) -> Result | None:
        """The recorded result of a mutant, if neither its module nor its tests have changed."""
        result = self.state.results.get(mutant.id)
        if result is None or not result.matches(mutant, self.project.compute_hash(mutant.path)):
            return None
        if result.killed_by in self.selector.unreliable:
            return None
        selection = None if result.is_killed else self.selector.select(mutant)
        evidence = self._compute_evidence(result.status, result.killed_by, selection)
        if result.evidence != evidence:
            return None
        full_evidence = self._find_full_tier_tests(mutant)[1]
        is_outdated = result.status == "killed_full" and result.full_evidence != full_evidence
        return None if is_outdated else result

    def _test_fast(self, copy: Copy, mutant: Mutant) -> None:
        """Run the selected tests against a mutant."""
        selection = self.selector.select(mutant)
        result = Result(mutant.id, mutant.path, mutant.old, mutant.new, "uncovered")
        result = replace(result, source_hash=self.project.compute_hash(mutant.path))
        if selection is not None:
            limit = compute_wall_limit(selection.seconds, SHORTEST_LIMIT)
            test_limit = int(compute_wall_limit(3 * selection.longest, 60.0))
            with copy.apply_mutant(mutant):
                outcome = copy.pytest(
                    ["-x", "--timeout", str(test_limit)], list(selection.tests), limit
                )
            try:
                status, killed_by = outcome.classify()
            except RuntimeError as error:
                self.errors.append(f"{mutant.id}: {error}")
                self.log(f"error       {mutant.id}: {error}")
                return
            result = replace(
                result,
                status=status,
                killed_by=killed_by,
                seconds=round(outcome.seconds, 1),
                tests=len(selection.tests),
                dropped=selection.dropped,
                evidence=self._compute_evidence(status, killed_by, selection),
            )
        self._record(result)

    def run(self, mutants: list[Mutant]) -> None:
        """Test all mutants without a current result, then check the tests that killed them."""
        for _ in range(MAX_ROUNDS):
            pending = [mutant for mutant in mutants if self.get_result(mutant) is None]
            self.log(f"{len(mutants) - len(pending)} mutants have a result, {len(pending)} to run")
            self._run_parallel(pending, self._test_fast)
            failing = self._confirm(mutants, "killed", [])
            if not failing:
                return
            self.selector.exclude(failing)

    def _confirm(self, mutants: list[Mutant], status: str, options: list[str]) -> set[str]:
        """Run the killing tests without a mutant; return those that fail then too."""
        results = [r for r in map(self.get_result, mutants) if r and r.status == status]
        results = [r for r in results if "::" in r.killed_by and not r.is_confirmed]
        tests = sorted({result.killed_by for result in results})
        if not tests:
            return set()
        self.log(f"running the {len(tests)} killing tests without a mutant")
        parallel = ["-n", str(len(self.copies)), "--dist", "loadfile"]
        outcome = self.copies[0].pytest([*parallel, *options], tests)
        if outcome.exit_code not in (0, 1):
            self.errors.append(f"the killing tests did not run:\n{outcome.output[-4000:]}")
            return set()
        failing = {test for test in tests if test not in outcome.passed}
        for test in sorted(failing):
            self.log(f"not used: {test} fails on its own without a mutant")
        for result in results:
            if result.killed_by not in failing:
                self.state.add(replace(result, is_confirmed=True))
        return failing

    # -------------------------------------------------------------- full tier

    def _find_full_tier_tests(self, mutant: Mutant) -> tuple[list[str], str]:
        """Mirrored test files of a mutant and their hash."""
        files = self.project.list_mirrored_tests(mutant.path, self.test_files)
        return files, compute_digest(*files, *(self.project.compute_hash(file) for file in files))

    def _test_full(self, copy: Copy, mutant: Mutant) -> None:
        """Run the full tier of the mirrored test files against a survivor."""
        files, evidence = self._find_full_tier_tests(mutant)
        result = replace(self.state.results[mutant.id], full_evidence=evidence)
        if not files:
            self._record(replace(result, full_tier="no tests"))
            return
        with copy.apply_mutant(mutant):
            outcome = copy.pytest(["-x", *FULL_TIER], files, compute_wall_limit(0.0, FULL_LIMIT))
        result = replace(result, seconds=round(result.seconds + outcome.seconds, 1))
        try:
            status, killed_by = outcome.classify()
        except RuntimeError as error:
            self.errors.append(f"{mutant.id}: {error}")
            return
        if status == "timeout":
            result = replace(result, full_tier="time limit")
        elif status == "survived":
            result = replace(result, full_tier="survived" if outcome.passed else "no tests")
        else:
            result = replace(result, status="killed_full", killed_by=killed_by, full_tier="killed")
        self._record(result)

    def run_full_tier(self, mutants: list[Mutant]) -> None:
        """Run the survivors that were not tried yet against the full tier."""

        def is_pending(mutant: Mutant) -> bool:
            result = self.get_result(mutant)
            is_survivor = result is not None and result.status in SURVIVED
            return is_survivor and result.full_evidence != self._find_full_tier_tests(mutant)[1]

        self._run_parallel(filter(is_pending, mutants), self._test_full)
        failing = self._confirm(mutants, "killed_full", FULL_TIER)
        for mutant in mutants:
            result = self.state.results.get(mutant.id)
            if result and result.status == "killed_full" and result.killed_by in failing:
                status = "survived" if result.tests else "uncovered"
                self._record(replace(result, status=status, killed_by="", full_tier="survived"))

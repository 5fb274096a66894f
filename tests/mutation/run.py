"""Mutation testing: change the package in small ways and check that a test fails.

Results are kept in `build/mutants/`, so an interrupted run continues.
"""

import argparse
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutation.coverage import Records, select, update_coverage
from tests.mutation.mutants import Mutant, generate
from tests.mutation.project import Copy, MutationError, Project
from tests.mutation.report import Result, State, format_report, read_equivalents

FAST_TIER = ["-x", "--timeout=60"]
FULL_TIER = ["-x", "--full", "-m", "full or slow"]
EQUIVALENTS = Path("tests/mutation/equivalent.yaml")
REPORT = Path("tests/mutation/report.md")


@dataclass
class Runner:
    """Tests mutants in copies of the repository, one for each worker, and records the results."""

    project: Project
    copies: list[Copy]
    records: Records
    state: State
    budget: float
    errors: int = 0

    def run(self, mutants: list[Mutant], full_tier: bool) -> None:
        """Test the mutants without a current result, or the full tier on those that survived."""
        results = [(mutant, self.get_result(mutant)) for mutant in mutants]
        pending = [m for m, r in results if r is None]
        if full_tier:
            pending = [m for m, r in results if r and r.kind == "survived" and not r.full_tier]
        print(f"{len(pending)} of {len(mutants)} mutants to run", flush=True)
        jobs = iter(pending)

        def work(copy: Copy) -> None:
            for mutant in jobs:
                try:
                    self.state.add(done := self._test(copy, mutant, full_tier))
                    print(done.full_tier or done.status, mutant.id, done.killed_by, flush=True)
                except MutationError as error:
                    self.errors += 1
                    print(f"error: {error}", flush=True)

        with ThreadPoolExecutor(len(self.copies)) as pool:
            try:
                list(pool.map(work, self.copies))
            except BaseException:
                self.copies[0].stop.set()
                raise

    def _test(self, copy: Copy, mutant: Mutant, full_tier: bool) -> Result:
        """Run the tests that cover a mutant, or the full tier of test files for its subpackage."""
        tests, covering, files, _ = select(self.project, self.records, mutant, self.budget)
        if full_tier:
            status, killed_by = self._kill(copy, mutant, files, *FULL_TIER)
            return replace(self.state.results[mutant.id], full_tier=status, killed_by=killed_by)
        status, killed_by = self._kill(copy, mutant, tests, *FAST_TIER)
        result = Result(mutant.id, status, killed_by, tests=len(tests), covering=covering)
        return self._stamp(mutant, result)

    def _kill(self, copy: Copy, mutant: Mutant, tests: list[str], *options: str) -> tuple[str, str]:
        """Run tests against a mutant; return its status and the test that killed it, if any.

        A test that fails without the mutant too is not used; any other such failure is an error.
        """
        if not tests:
            return "no tests", ""
        is_full = "--full" in options
        limit = 300.0 if is_full else 60.0 + 4 * self.budget
        module = copy.project.root / mutant.path
        source = module.read_bytes()
        module.write_bytes(mutant.apply(source))
        try:
            outcome = copy.pytest([*options], tests, limit)
        finally:
            module.write_bytes(source)
        if outcome.status == "survived" or (outcome.status == "timeout" and is_full):
            return outcome.status, ""
        killed_by = outcome.failed[0] if outcome.failed else ""
        original = copy.pytest([*options], [killed_by] if killed_by else tests, limit)
        if original.status == "survived":
            return outcome.status.replace("broken", "killed"), killed_by
        if original.status == "killed" and killed_by:
            return self._kill(copy, mutant, tests, *options, f"--deselect={killed_by}")
        raise MutationError(f"pytest fails without {mutant.id} too:\n{original.output[-4000:]}")

    def get_result(self, mutant: Mutant) -> Result | None:
        """Return the recorded result of a mutant if its module and its tests are unchanged."""
        result = self.state.results.get(mutant.id)
        return result if result and result == self._stamp(mutant, result) else None

    def _stamp(self, mutant: Mutant, result: Result) -> Result:
        """Add the edit and hashes of the module and the tests to a result."""
        if result.kind == "killed" and result.killed_by:
            evidence = self.project.hash(result.killed_by.partition("::")[0])
        else:
            evidence = select(self.project, self.records, mutant, self.budget).evidence
        source_hash = self.project.hash(mutant.path)
        return replace(result, new=mutant.new, source_hash=source_hash, evidence=evidence)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description="mutants")
    add = parser.add_argument
    add("--seed", type=int, default=1, help="chooses the mutants (default 1)")
    add("--count", type=int, default=160, help="number of mutants (default 160)")
    add("--list", action="store_true", help="print the mutants and run nothing")
    add("--only", metavar="ID-PREFIX", nargs="+", default=[], help="run mutants with these ids")
    add("--tests", metavar="PATH", nargs="+", default=[], help="use tests in these paths only")
    add("--full-tier", action="store_true", help="run the full tier on survivors")
    add("--budget", type=float, default=240.0, help="seconds of tests a mutant (default 240)")
    add("--workers", type=int, default=2, help="mutants at a time (default 2)")
    add("--state", type=Path, default=Path("build/mutants"), help="folder of results and coverage")
    add("--report", type=Path, help=f"default {REPORT}; report.md in --state if restricted")
    return parser.parse_args(argv)


def run(arguments: argparse.Namespace, project: Project, folder: Path) -> int:
    """List the mutants, or run them in copies below a temporary folder; return the exit status."""
    pristine = project.copy(folder / "pristine")
    sample = generate(pristine, arguments.seed, arguments.count)
    mutants = [m for m in sample if m.id.startswith(tuple(arguments.only or [""]))]
    if not mutants:
        raise MutationError(f"--only: no id of a mutant starts with {' or '.join(arguments.only)}.")
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.id}\n  - {mutant.old}\n  + {mutant.new}".replace("\n\n", "\n"))
        return 0
    equivalents = read_equivalents(pristine.root / EQUIVALENTS)
    test_files = pristine.list_test_files(arguments.tests)
    stop = threading.Event()
    copies = [Copy(pristine, folder / f"copy{n}", stop) for n in range(arguments.workers)]
    state = project.root / arguments.state
    records = update_coverage(state / "coverage", copies[0], test_files, arguments.workers)
    runner = Runner(pristine, copies, records, State(state / "state.jsonl"), arguments.budget)
    runner.run(mutants, full_tier=False)
    if arguments.full_tier:
        runner.run([m for m in mutants if m.key not in equivalents], full_tier=True)
    results = {mutant: runner.get_result(mutant) for mutant in mutants}
    paths = " ".join(arguments.tests) or "tests"
    title = f"Seed {arguments.seed}, {len(mutants)} of {len(sample)} mutants, tests in {paths}."
    text = format_report(title, results, equivalents, sample)
    default = state / "report.md" if arguments.only or arguments.tests else REPORT
    target = project.root / (arguments.report or default)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(text.partition("## Mutants")[0] + f"The mutants that survived are in {target}")
    return 1 if runner.errors else 0


def main(argv: list[str] | None = None, project: Project | None = None) -> int:
    """Run the command line; defaults are the arguments of the process and this repository."""
    arguments = parse_arguments(argv)
    try:
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
            return run(arguments, project or Project(), Path(folder).resolve())
    except (MutationError, KeyboardInterrupt) as error:
        print(f"error: {str(error) or 'interrupted; run the command again'}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())

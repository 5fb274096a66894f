"""Mutation testing: change the package in small ways and check that a test fails.

    python -m tests.mutation.run                    # run what has no result yet, write the report
    python -m tests.mutation.run --list             # print the mutants
    python -m tests.mutation.run --only attention_zoo/ops --tests tests/ops

Results are kept in `build/mutants/`, so an interrupted run continues.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.mutation.execute import Copy
from tests.mutation.line_coverage import CoverageStore, update_coverage
from tests.mutation.mutants import MINIMUM, Mutant, generate
from tests.mutation.project import Project, UsageError, copy_repository
from tests.mutation.report import format_report, make_rows
from tests.mutation.runner import MutantRunner
from tests.mutation.selection import Selector
from tests.mutation.state import State, read_equivalents

EQUIVALENTS = "tests/mutation/equivalent.yaml"
REPORT = "tests/mutation/report.md"


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description="mutants")
    add = parser.add_argument
    add("--seed", type=int, default=1, help="chooses the mutants (default 1)")
    add("--count", type=int, default=160, help="number of mutants (default 160)")
    add("--list", action="store_true", help="print the mutants and run nothing")
    add("--only", metavar="ID-PREFIX", nargs="+", default=[], help="run mutants with these ids")
    add("--tests", metavar="PATH", nargs="+", default=[], help="use tests in these paths only")
    add("--coverage", action="store_true", help="record the line coverage of all tests again")
    add("--full-tier", action="store_true", help="try the full tier on survivors")
    add("--budget", type=float, default=240.0, help="CPU seconds of tests a mutant (default 240)")
    add("--workers", type=int, default=2, help="mutants at a time (default 2)")
    add("--state", type=Path, default=Path("build/mutants"), help="folder of results and coverage")
    add("--report", type=Path, help=f"default {REPORT}; report.md in --state if restricted")
    return parser.parse_args(argv)


def print_line(text: str) -> None:
    print(text, flush=True)


def print_mutants(mutants: list[Mutant]) -> None:
    for mutant in mutants:
        print_line(f"{mutant.id}\n  - {mutant.old}\n  + {mutant.new}".replace("\n\n", "\n"))


def filter_by_id(mutants: list[Mutant], prefixes: list[str]) -> list[Mutant]:
    """Mutants with an id that starts with one of the prefixes; all without prefixes.

    Raises:
        UsageError: if there are none.
    """
    found = [m for m in mutants if not prefixes or m.id.startswith(tuple(prefixes))]
    if not found:
        raise UsageError(f"--only: no mutant has an id that starts with {' or '.join(prefixes)}.")
    return found


def make_copies(pristine: Project, folder: Path, workers: int) -> list[Copy]:
    """Copy the repository once for each worker."""
    copies = []
    for number in range(workers):
        root = Path(shutil.copytree(pristine.root, folder / f"copy{number}"))
        copies.append(Copy(Project(root, pristine.package), folder / f"scratch{number}"))
    return copies


def run(
    arguments: argparse.Namespace,
    project: Project,
    folder: Path,
    minimum: int,
    log: Callable[[str], None],
) -> int:
    """Run the mutants in copies below a temporary folder; return the exit status."""
    pristine = Project(copy_repository(project.root, folder / "pristine"), project.package)
    mutants = filter_by_id(
        generate(pristine, arguments.seed, arguments.count, minimum), arguments.only
    )
    equivalents = read_equivalents(pristine.root / EQUIVALENTS)
    test_files = pristine.list_test_files(tuple(arguments.tests))
    copies = make_copies(pristine, folder, arguments.workers)
    kept = project.root / arguments.state
    store = CoverageStore(kept / "coverage")
    stale = test_files if arguments.coverage else store.find_stale(pristine, test_files)
    update_coverage(store, copies[0], stale, arguments.workers, log)
    selector = Selector(pristine, store, test_files, arguments.budget)
    state = State(kept / "state.jsonl")
    runner = MutantRunner(pristine, copies, state, selector, test_files, log)
    runner.run(mutants)
    if arguments.full_tier:
        runner.run_full_tier(mutants)
    rows = make_rows(mutants, [runner.get_result(m) for m in mutants], equivalents)
    options = {"--only": arguments.only, "--tests": arguments.tests}
    restriction = "".join(f" {name} {' '.join(v)}" for name, v in options.items() if v)
    text = format_report(pristine, rows, arguments.seed, arguments.count, restriction)
    target = project.root / (arguments.report or (kept / "report.md" if restriction else REPORT))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    log(text.partition("## Survivors")[0].rstrip())
    log(f"{target} has the survivors")
    for error in runner.errors:
        log(f"ERROR {error}")
    return 1 if runner.errors else 0


def main(
    argv: list[str] | None = None, project: Project | None = None, minimum: int = MINIMUM
) -> int:
    """Command line.

    Args:
        argv: arguments; those of the process for None.
        project: repository; this one for None.
        minimum: mutants of a subpackage at least.
    """
    arguments = parse_arguments(argv)
    project = project or Project()
    try:
        if arguments.list:
            mutants = generate(project, arguments.seed, arguments.count, minimum)
            print_mutants(filter_by_id(mutants, arguments.only))
            return 0
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
            return run(arguments, project, Path(folder).resolve(), minimum, print_line)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; run the same command again to continue.", file=sys.stderr)
        return 130


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())

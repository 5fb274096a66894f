"""Tests that cover a mutant: line coverage of the fast tier, a record for each test file."""

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from coverage import CoverageData

from tests.mutation.mutants import Mutant
from tests.mutation.project import Copy, MutationError, Project, compute_digest

CHUNK = 40  # test files that are recorded together


@dataclass
class FileCoverage:
    file: str
    file_hash: str
    tests: list[str] = field(default_factory=list)  # those that pass
    seconds: list[float] = field(default_factory=list)  # their durations
    failed: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)  # hashes of executed modules and helpers
    lines: dict[str, dict[str, str]] = field(default_factory=dict)  # module, line -> mask of tests

    def is_fresh(self, project: Project) -> bool:
        hashes = self.sources | {self.file: self.file_hash}
        return all(project.hash(path) == known for path, known in hashes.items())

    def find_tests(self, path: str, first: int, last: int) -> set[str]:
        """Return tests that execute a line of a module between two lines, inclusive."""
        lines = self.lines.get(path, {})
        masks = [int(tests, 16) for line, tests in lines.items() if first <= int(line) <= last]
        return {t for i, t in enumerate(self.tests) if any(mask >> i & 1 for mask in masks)}


Records = dict[str, FileCoverage]  # by test file


def record_coverage(copy: Copy, files: list[str], workers: int) -> Records:
    """Run test files under coverage and return their records."""
    project = copy.project
    options = ["-n", str(workers), "--dist", "loadfile"]
    options += [f"--cov={project.package}", "--cov-context=test", "--cov-report="]
    outcome = copy.pytest(options, files)
    if outcome.status not in ("survived", "killed"):
        raise MutationError(f"no coverage of {files[0]} and later:\n{outcome.output[-4000:]}")
    records = {}
    for file in files:
        helpers = {path: project.hash(path) for path in project.list_helpers(file)}
        records[file] = FileCoverage(file, project.hash(file), sources=helpers)
    bits: defaultdict[str, int] = defaultdict(int)
    for test, seconds in sorted(outcome.seconds.items()):
        record = records[test.partition("::")[0]]
        if test in outcome.failed:
            record.failed.append(test)
        else:
            bits[test] = 1 << len(record.tests)
            record.tests.append(test)
            record.seconds.append(round(seconds, 3))
    data = CoverageData(str(project.root / ".coverage"))
    data.read()
    for source in data.measured_files():
        path = Path(source).relative_to(project.root).as_posix()
        for line, contexts in data.contexts_by_lineno(source).items():
            masks: defaultdict[str, int] = defaultdict(int)
            for test in (context.rpartition("|")[0] for context in contexts if context):
                masks[test.partition("::")[0]] |= bits[test]
            for file, mask in masks.items():
                records[file].sources[path] = project.hash(path)
                records[file].lines.setdefault(path, {})[str(line)] = f"{mask:x}"
    return records


def update_coverage(folder: Path, copy: Copy, files: list[str], workers: int) -> Records:
    """Return the records of test files, in a folder; record again those whose input has changed."""
    saved = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    records = {record["file"]: FileCoverage(**record) for record in saved}
    stale = [f for f in files if f not in records or not records[f].is_fresh(copy.project)]
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(stale), CHUNK):
        print(f"coverage: {start} of {len(stale)} test files are done", flush=True)
        for file, record in record_coverage(copy, stale[start : start + CHUNK], workers).items():
            records[file] = record
            name = file.replace("/", ".").removesuffix(".py") + ".json"
            (folder / name).write_text(json.dumps(asdict(record)), encoding="utf-8")
            for test in record.failed:
                print(f"coverage: {test} fails without a mutant and is not used")
    return {file: records[file] for file in files}


INTERFACE = "tests/test_interface.py"


class Selection(NamedTuple):
    """Tests for a mutant."""

    tests: list[str]  # those most likely to kill it first, within the budget
    covering: int  # number of tests that execute it
    files: list[str]  # test files for its subpackage, whose full tier is run if it survives
    evidence: str  # hash of the tests, their files and helpers


def select(project: Project, records: Records, mutant: Mutant, budget: float) -> Selection:
    """Select the tests that cover a mutant.

    Those in the test file named after its module come first, then those in other files for its
    subpackage, then the rest; cheap files precede expensive ones. The other tests of files for the
    subpackage follow: where several tests share a result, only the first of them has coverage.
    Code that only an import runs has no coverage: files that import its module cover it, and the
    test of the public interface covers everything.
    """
    *folders, name = mutant.path.split("/")
    imports = f"from {mutant.path.removesuffix('.py').replace('/', '.')} import"
    rows, files, inputs, covering = [], [], set(), 0
    for file, record in records.items():
        tests = record.find_tests(mutant.path, *mutant.covered)
        is_import = mutant.path not in record.sources and imports.encode() in project.read(file)
        if is_import or file == INTERFACE:
            tests = {*record.tests}
        is_near = file.split("/")[1:-1][:1] == folders[1:2]
        rank = 2 - is_near - (is_near and file.endswith(f"/test_{name}"))
        mean = fmean(record.seconds or [60.0])  # none: all tests of the file are in the full tier
        if tests or rank == 0 or (is_near and not record.tests):
            covering += len(tests)
            inputs |= {file, *record.sources}
            files += [(rank, mean, file)] if is_near else []
            for seconds, test in zip(record.seconds, record.tests, strict=True):
                if is_near or test in tests:
                    group = test.rpartition("::")[0]
                    rows.append((rank if test in tests else 3, mean, group, seconds, test))
    rows.sort()
    totals = accumulate(seconds for *_, seconds, _ in rows)
    chosen = [row[-1] for row, total in zip(rows, totals, strict=True) if total <= budget]
    hashes = [project.hash(path) for path in sorted(inputs) if path.startswith("tests/")]
    evidence = compute_digest(*chosen, *hashes)
    return Selection(chosen, covering, [file for *_, file in sorted(files)], evidence)

"""Which tests execute which lines: coverage of the fast tier, one record for each test file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.mutation.execute import Copy
from tests.mutation.project import Project

CHUNK = 40
"""Test files of one pytest process: TensorFlow keeps what it compiled until the process ends."""


@dataclass
class FileCoverage:
    """Coverage of one test file.

    Args:
        file: the test file.
        file_hash: its hash.
        tests: node ids of the tests that passed when they were recorded.
        seconds: CPU seconds of each test.
        failed: node ids of the tests that do not always pass without a mutant; they are not used.
        sources: hashes of the modules that the tests execute, failed ones included.
        lines: module -> line -> bit mask of test indices, as hexadecimal digits.
    """

    file: str
    file_hash: str
    tests: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    lines: dict[str, dict[str, str]] = field(default_factory=dict)

    def is_fresh(self, project: Project) -> bool:
        """Whether the test file and the modules that it executes are unchanged."""
        hashes = {self.file: self.file_hash, **self.sources}
        return all(project.compute_hash(path) == known for path, known in hashes.items())

    def get_tests_at(self, path: str, first: int, last: int) -> list[str]:
        """Tests that execute a line of a module between two lines, inclusive."""
        mask = 0
        for line, tests in self.lines.get(path, {}).items():
            if first <= int(line) <= last:
                mask |= int(tests, 16)
        return [test for index, test in enumerate(self.tests) if mask >> index & 1]


class CoverageStore:
    """The records of all test files, each in a JSON file.

    Args:
        folder: where they are kept; created when needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, FileCoverage] = {}
        for path in sorted(folder.glob("*.json")):
            record = FileCoverage(**json.loads(path.read_text(encoding="utf-8")))
            self.files[record.file] = record

    def add(self, record: FileCoverage) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = record.file.replace("/", ".").removesuffix(".py") + ".json"
        (self.folder / name).write_text(json.dumps(asdict(record)), encoding="utf-8")
        self.files[record.file] = record

    def find_stale(self, project: Project, test_files: Iterable[str]) -> list[str]:
        """Test files without a record or with an outdated one."""
        return [
            file
            for file in test_files
            if file not in self.files or not self.files[file].is_fresh(project)
        ]


def _read_contexts(copy: Copy, data_file: Path) -> dict[str, dict[int, list[str]]]:
    """Module -> line -> node ids, from a data file of coverage.py."""
    import coverage

    data = coverage.CoverageData(str(data_file))
    data.read()
    found: dict[str, dict[int, list[str]]] = {}
    for measured in data.measured_files():
        path = (copy.project.root / measured).relative_to(copy.project.root).as_posix()
        lines = data.contexts_by_lineno(measured)
        found[path] = {
            line: [context.rpartition("|")[0] for context in contexts if context]
            for line, contexts in lines.items()
        }
    return found


def _split_records(
    copy: Copy,
    files: list[str],
    seconds: dict[str, float],
    failed: set[str],
    contexts: dict[str, dict[int, list[str]]],
) -> list[FileCoverage]:
    """Split the coverage of a run by test file."""
    records = {file: FileCoverage(file, copy.project.compute_hash(file)) for file in files}
    for test in sorted(seconds):
        record = records[test.partition("::")[0]]
        if test in failed:
            record.failed.append(test)
        else:
            record.tests.append(test)
            record.seconds.append(round(seconds[test], 3))
    bits = {
        test: (record, 1 << index)
        for record in records.values()
        for index, test in enumerate(record.tests)
    }
    for path, lines in contexts.items():
        for test in {test for tests in lines.values() for test in tests}:
            if record := records.get(test.partition("::")[0]):
                record.sources[path] = copy.project.compute_hash(path)
        for line, tests in lines.items():
            masks: defaultdict[str, int] = defaultdict(int)
            for record, bit in (bits[test] for test in tests if test in bits):
                masks[record.file] |= bit
            for file, mask in masks.items():
                records[file].lines.setdefault(path, {})[str(line)] = f"{mask:x}"
    return list(records.values())


def record_coverage(copy: Copy, files: list[str], workers: int) -> list[FileCoverage]:
    """Run test files under coverage and return their records.

    Raises:
        RuntimeError: if pytest could not run.
    """
    scratch = copy.scratch
    configuration, data_file = scratch / "coveragerc", scratch / "coverage.data"
    report = scratch / "cpu.json"
    configuration.write_text(f"[run]\ndata_file = {data_file}\nrelative_files = true\n")
    report.unlink(missing_ok=True)
    data_file.unlink(missing_ok=True)
    options = ["-n", str(workers), "--dist", "loadfile", "--continue-on-collection-errors"]
    options += [f"--cov={copy.project.package}", "--cov-context=test", "--cov-report="]
    options += [f"--cov-config={configuration}", f"--cpu-report={report}"]
    outcome = copy.pytest(options, files, memory_limit=0)
    if not report.exists() or outcome.exit_code not in (0, 1, 2, 5):
        raise RuntimeError(f"No coverage of {files[0]} and later:\n{outcome.output[-4000:]}")
    seconds = json.loads(report.read_text(encoding="utf-8"))["tests"]
    contexts = _read_contexts(copy, data_file) if data_file.exists() else {}
    failed = {*outcome.failed, *(test for test in seconds if test not in outcome.passed)}
    collected = [file for file in files if file not in outcome.uncollected]
    return _split_records(copy, collected, seconds, failed, contexts)


def update_coverage(
    store: CoverageStore,
    copy: Copy,
    files: list[str],
    workers: int,
    log: Callable[[str], None],
) -> None:
    """Record the coverage of test files, in chunks; what is done stays done if interrupted."""
    for start in range(0, len(files), CHUNK):
        chunk = files[start : start + CHUNK]
        log(f"coverage: test files {start + 1} to {start + len(chunk)} of {len(files)}")
        records = record_coverage(copy, chunk, workers)
        for record in records:
            store.add(record)
            for test in record.failed:
                log(f"coverage: {test} does not pass without a mutant and is not used")
        for file in sorted({*chunk} - {record.file for record in records}):
            log(f"coverage: {file} cannot be collected and is not used")

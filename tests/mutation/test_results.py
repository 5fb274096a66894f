"""Choice of tests, results on disk, and the report."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.execute import Outcome
from tests.mutation.line_coverage import CoverageStore, FileCoverage
from tests.mutation.mutants import Mutant
from tests.mutation.project import ROOT, Project, UsageError
from tests.mutation.report import format_report, make_rows
from tests.mutation.selection import Selector
from tests.mutation.state import Equivalent, Result, State, read_equivalents

MUTANT = Mutant(
    "pkg/sub/core.py", 2, 4, "comparison", 0, (2, 2), False, ((0, 1, "y"),), "a < b", "a <= b"
)
RESULT = Result(MUTANT.id, MUTANT.path, MUTANT.old, MUTANT.new, "killed", source_hash="1")


# ------------------------------------------------------------------ outcomes of pytest


@pytest.mark.parametrize(
    ("outcome", "status", "killed_by"),
    [
        (Outcome(0, 1.0), "survived", ""),
        (Outcome(5, 1.0), "survived", ""),
        (Outcome(1, 1.0, failed=["a::b"]), "killed", "a::b"),
        (Outcome(1, 1.0, failed=["a::b"], timed_out=["a::b"]), "timeout", "a::b"),
        (Outcome(1, 1.0, last="a::b", output="+++ Timeout +++"), "timeout", "a::b"),
        (Outcome(None, 1.0, last="a::b"), "timeout", "a::b"),
        (Outcome(-11, 1.0, last="a::b"), "killed", "a::b"),
        (Outcome(4, 1.0, uncollected=["a.py"]), "killed", "collection of a.py"),
        (
            Outcome(4, 1.0, output="ImportError while loading conftest '...'"),
            "killed",
            "collection of conftest.py",
        ),
    ],
)
def test_verdict(outcome: Outcome, status: str, killed_by: str) -> None:
    assert outcome.classify() == (status, killed_by)


def test_a_pytest_that_cannot_run_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"^pytest ended with 4:\nno such option"):
        Outcome(4, 1.0, output="no such option").classify()


# ------------------------------------------------------------------ choice of tests


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository with a module, a mirrored test file, and three others."""
    files = {
        "pkg/sub/core.py": "def clamp(): pass\n",
        "tests/sub/test_core.py": "",
        "tests/sub/test_uses.py": "clamp()",
        "tests/sub/test_other.py": "",
        "tests/test_core.py": "import functools\n@functools.cache\ndef f(): clamp()",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Project(tmp_path, "pkg")


def covered_store(project: Project, folder: Path) -> CoverageStore:
    """Each file has tests a (2 s) and b (1 s) on line 2, and c that covers nothing."""
    store = CoverageStore(folder)
    for file in project.list_test_files():
        tests = [f"{file}::{name}" for name in "abc"]
        record = FileCoverage(file, project.compute_hash(file), tests, [2.0, 1.0, 0.1])
        record.lines = {"pkg/sub/core.py": {"2": "3"}}
        record.sources = {"pkg/sub/core.py": project.compute_hash("pkg/sub/core.py")}
        store.add(record)
    return store


def test_tests_most_likely_to_kill_come_first(project: Project, tmp_path: Path) -> None:
    store = covered_store(project, tmp_path / "coverage")
    files = project.list_test_files()
    selection = Selector(project, store, files, budget=100).select(MUTANT)
    assert selection is not None
    names = [test.removeprefix("tests/").replace(".py::", " ") for test in selection.tests]
    assert names == [
        *("sub/test_core b", "sub/test_core a", "sub/test_uses b", "sub/test_uses a"),
        *("sub/test_other b", "sub/test_other a", "test_core b", "test_core a"),
        *("sub/test_core c", "test_core c"),
    ]
    assert (round(selection.seconds, 1), selection.longest, selection.dropped) == (12.2, 2.0, 0)
    short = Selector(project, store, files, budget=4).select(MUTANT)
    assert short is not None
    assert (short.tests, short.dropped) == (selection.tests[:3], 7)
    assert short.evidence != selection.evidence


def test_excluded_tests_stay_excluded(project: Project, tmp_path: Path) -> None:
    store = covered_store(project, tmp_path / "coverage")
    selector = Selector(project, store, project.list_test_files(), budget=100)
    selector.exclude({"tests/sub/test_core.py::b"})
    again = Selector(project, CoverageStore(store.folder), project.list_test_files(), budget=100)
    for one in (selector, again):
        selection = one.select(MUTANT)
        assert selection is not None
        assert selection.tests[0] == "tests/sub/test_core.py::a"
        assert "tests/sub/test_core.py::b" not in selection.tests


def test_a_line_without_tests_is_uncovered(project: Project, tmp_path: Path) -> None:
    store = covered_store(project, tmp_path / "coverage")
    selector = Selector(project, store, project.list_test_files(), budget=100)
    elsewhere = replace(MUTANT, covered=(3, 3))
    assert selector.select(elsewhere) is None
    at_import = selector.select(replace(elsewhere, at_import=True))
    assert at_import is not None
    assert {test.partition("::")[0] for test in at_import.tests} == {
        "tests/sub/test_core.py",
        "tests/sub/test_uses.py",
    }


def test_coverage_is_kept_until_a_file_changes(project: Project, tmp_path: Path) -> None:
    covered_store(project, tmp_path / "coverage")
    store, files = CoverageStore(tmp_path / "coverage"), project.list_test_files()
    assert store.find_stale(project, files) == []
    assert store.files["tests/test_core.py"].get_tests_at("pkg/sub/core.py", 1, 2) == [
        "tests/test_core.py::a",
        "tests/test_core.py::b",
    ]
    for changed, stale in (("tests/test_core.py", ["tests/test_core.py"]), (MUTANT.path, files)):
        copy = Path(shutil.copytree(project.root, tmp_path / f"copy{len(stale)}"))
        (copy / changed).write_text("x = 1\n")
        assert store.find_stale(Project(copy, "pkg"), files) == stale


def test_restricted_test_files(project: Project) -> None:
    assert project.list_test_files(("tests/sub/test_core.py", "tests/test_core.py")) == [
        "tests/sub/test_core.py",
        "tests/test_core.py",
    ]
    with pytest.raises(UsageError, match=r"^--tests: no such file or folder: tests/none$"):
        project.list_test_files(("tests/none",))


# ------------------------------------------------------------------ results and equivalents


def test_results_resume_after_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state.jsonl"
    State(path).add(RESULT)
    State(path).add(replace(RESULT, status="survived"))
    path.write_text(path.read_text() + '{"id": "cut sho')
    state = State(path)
    assert state.results == {RESULT.id: replace(RESULT, status="survived")}
    state.add(replace(RESULT, id="other"))
    assert set(State(path).results) == {RESULT.id, "other"}


def test_a_result_holds_for_the_same_mutant_and_source() -> None:
    assert RESULT.matches(MUTANT, "1")
    assert not RESULT.matches(MUTANT, "2")
    assert not RESULT.matches(replace(MUTANT, new="a > b"), "1")


def test_equivalents_match_without_indentation(tmp_path: Path) -> None:
    path = tmp_path / "equivalent.yaml"
    assert read_equivalents(path) == []
    entry = {"path": MUTANT.path, "old": "  a < b", "new": "a <= b ", "reason": "never equal"}
    path.write_text(json.dumps([entry]))
    [equivalent] = read_equivalents(path)
    assert equivalent.matches(MUTANT)
    assert equivalent.matches(replace(MUTANT, line=9))
    assert not equivalent.matches(replace(MUTANT, path="pkg/other.py"))
    assert not equivalent.matches(replace(MUTANT, new="a > b"))
    path.write_text(json.dumps([{**entry, "reason": ""}]))
    with pytest.raises(UsageError, match=r"^equivalent\.yaml: entry 1 must have texts"):
        read_equivalents(path)


def test_the_committed_list_of_equivalents_is_valid() -> None:
    read_equivalents(ROOT / "tests/mutation/equivalent.yaml")


def test_report_counts_and_lists(project: Project) -> None:
    mutants = [replace(MUTANT, line=line) for line in range(1, 5)]
    survived = replace(RESULT, status="survived", tests=3, dropped=2)
    results = [RESULT, survived, None, replace(RESULT, status="timeout")]
    entry = Equivalent(MUTANT.path, "a < b", "a <= b", "never equal")
    text = format_report(project, make_rows(mutants, results, []), 1, 4)
    assert "4 mutants (`--seed 1 --count 4`). The fast tier kills 66.7 % of" in text
    assert "1 mutants have not been run" in text
    assert "| `sub` | 4 | 2 | 0 | 1 | 66.7 % |" in text
    assert "3 tests pass; 2 more covering tests are over the budget." in text
    assert "```diff\n- a < b\n+ a <= b\n```" in text
    text = format_report(project, make_rows(mutants[1:2], [survived], [entry]), 1, 4)
    assert "| all | 1 | 0 | 1 | 0 | - |" in text
    assert f"`{mutants[1].id}`: never equal" in text
    text = format_report(project, make_rows(mutants[:1], [RESULT], [entry]), 1, 4)
    assert "## Wrong entries of equivalent.yaml" in text

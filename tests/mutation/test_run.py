"""Selection of tests, outcomes of pytest, and whole runs on a tiny package."""

import json
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.coverage import INTERFACE, FileCoverage, select
from tests.mutation.mutants import Mutant
from tests.mutation.project import ROOT, Copy, MutationError, Outcome, Project, compute_digest
from tests.mutation.report import read_equivalents
from tests.mutation.run import EQUIVALENTS, REPORT, main

FILE, CORE, CONFTEST = "tests/test_core.py", "pkg/core.py", "tests/conftest.py"
TEST, OTHER = f"{FILE}::test_core", f"{FILE}::test_equal"
FILES = {
    "pytest.ini": "[pytest]\naddopts = --import-mode=importlib -p no:hypothesispytest -p no:anyio",
    CONFTEST: "",
    CORE: "def core(a, b):\n    c = a < b\n    d = a * b\n    e = a is b\n    f = a in {}\n"
    "    g = b == a\n    return c, d, e, f, g\n",
    FILE: "from pkg.core import core\ndef test_core(): assert core(1, 2)[:4] == (1, 2, 0, 0)\n"
    "def test_equal(): assert core(2, 2)[0] is False\n",
}
PASSED, FAILED = Outcome("survived", "", [], {}), Outcome("killed", "", [TEST], {})
BROKEN, HANGING = Outcome("broken", "", [], {}), Outcome("timeout", "", [], {})
OUTCOMES = {  # of pytest with a mutant, and after that without it
    "a <= b": (FAILED, PASSED),
    "a / b": (HANGING, PASSED),
    "a is not b": (BROKEN, BROKEN),
    "a not in {}": (BROKEN, PASSED),
    "b != a": (FAILED, FAILED),
    "return None": (PASSED, PASSED),
}
RUN = ["--count", "6", "--workers", "1"]


@pytest.fixture
def tiny(tmp_path: Path) -> Project:
    root = tmp_path / "tiny"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return Project(root, "pkg")


def save_coverage(project: Project) -> None:
    """Record that `TEST` covers all lines."""
    hashes = [compute_digest(project.read(path)) for path in (FILE, CONFTEST)]
    record = FileCoverage(FILE, hashes[0], [TEST], [1.0], sources={CONFTEST: hashes[1]})
    record.lines = {CORE: {str(line): "1" for line in range(1, 8)}}
    (project.root / "build/mutants/coverage").mkdir(parents=True, exist_ok=True)
    (project.root / "build/mutants/coverage/record.json").write_text(json.dumps(vars(record)))


@pytest.fixture
def runs(tiny: Project, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace pytest by `OUTCOMES`; list the mutants that run."""
    save_coverage(tiny)
    done: list[str] = []

    def run_pytest(copy: Copy, options: list[str], targets: list[str], limit: float) -> Outcome:
        mutated = [text for text in OUTCOMES if text in copy.project.read(CORE).decode()]
        done.extend(mutated)
        if "--full" in options:
            return FAILED if mutated else PASSED
        return PASSED if f"--deselect={TEST}" in options else OUTCOMES[done[-1]][not mutated]

    monkeypatch.setattr(Copy, "pytest", run_pytest)
    return done


def test_run(tiny: Project, runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Hangs and crashes are kills, failures without the mutant are not; a second run resumes."""
    assert main(RUN, tiny) == 1
    assert f"error: pytest fails without {CORE}:4:8:comparison:0 too" in capsys.readouterr().out
    assert runs == sorted([*OUTCOMES, "b != a"], key=[*OUTCOMES].index)
    report = (tiny.root / REPORT).read_text()
    assert "| pkg/*.py | 6 | 0 | 2 | 60.0 % | 60.0 % |" in report
    assert f"- {CORE}:4:8:comparison:0: not run" in report
    assert "1 fast tests pass, 1 cover it; full tier: not run" in report
    assert "```diff\n- g = b == a\n+ g = b != a\n```" in report
    assert (tiny.root / CORE).read_text() == FILES[CORE]

    runs.clear()
    entries = [("g = b == a", "g = b != a"), (" c = a < b", "c = a <= b"), ("x", "y")]
    entries = [{"path": CORE, "old": a, "new": b, "reason": "r."} for a, b in entries]
    (tiny.root / EQUIVALENTS).write_text(json.dumps(entries))
    with (tiny.root / "build/mutants/state.jsonl").open("a") as file:
        file.write('{"id": "trunca')
    assert main([*RUN, "--full-tier"], tiny) == 1
    assert runs == ["a is not b", "return None"]
    report = (tiny.root / REPORT).read_text()
    assert "| all | 6 | 1 | 0 | 75.0 % | 100.0 % |" in report
    assert f"full tier: killed {TEST}" in report
    assert f"`{CORE}:6:8:comparison:0`: r.." in report
    assert f"- equivalent.yaml: no mutant is {(CORE, 'x', 'y')}" in report
    assert f"- {CORE}:2:8:comparison:0: killed, but in equivalent.yaml" in report


def test_changed_files_invalidate_results(tiny: Project, runs: list[str]) -> None:
    main(RUN, tiny)
    for path, rerun in ((CONFTEST, [*OUTCOMES][1:]), (FILE, [*OUTCOMES]), (CORE, [*OUTCOMES])):
        runs.clear()
        (tiny.root / path).write_text(FILES[path] + "\n")
        save_coverage(tiny)
        main(RUN, tiny)
        assert [*dict.fromkeys(runs)] == rerun


def test_list_and_usage_errors(tiny: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--list", "--only", f"{CORE}:2"], tiny) == 0
    assert capsys.readouterr().out == f"{CORE}:2:8:comparison:0\n  - c = a < b\n  + c = a <= b\n"
    assert [main([*RUN, option, "none"], tiny) for option in ("--only", "--tests")] == [2, 2]
    assert "--tests: no test files in none" in capsys.readouterr().err


def test_equivalents_need_a_reason(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text("- {path: a.py, old: x, new: y, reason: ''}")
    with pytest.raises(MutationError, match=r"^e\.yaml: expected path, old, new and reason, got"):
        read_equivalents(tmp_path / "e.yaml")
    read_equivalents(ROOT / EQUIVALENTS)


def test_selection(tmp_path: Path) -> None:
    """Each file has tests a (2 s) and b (1 s) that cover line 2, and c (0.1 s) that does not."""
    mutant = Mutant("pkg/sub/core.py", 2, 4, "comparison", 0, (1, 2), (0, 1, "y"))
    records = {}
    for file in ("tests/sub/test_x.py", "tests/test_core.py", "tests/sub/test_core.py"):
        records[file] = FileCoverage(file, "", [f"{file}::{x}" for x in "abc"], [2.0, 1.0, 0.1])
        records[file].lines = {"pkg/sub/core.py": {"2": "3"}}
        records[file].sources = {"pkg/sub/core.py": "hash"}
    found = select(Project(tmp_path, "pkg"), records, mutant, budget=100)
    names = [test.removeprefix("tests/").replace(".py::", " ") for test in found.tests]
    assert names[:4] == ["sub/test_core b", "sub/test_core a", "sub/test_x b", "sub/test_x a"]
    assert names[4:] == ["test_core b", "test_core a", "sub/test_core c", "sub/test_x c"]
    assert found[1:3] == (6, ["tests/sub/test_core.py", "tests/sub/test_x.py"])
    assert select(Project(tmp_path, "pkg"), records, mutant, budget=4).tests == found.tests[:3]
    uncovered = select(Project(tmp_path), records, replace(mutant, covered=(3, 9)), budget=100)
    assert uncovered.tests == [f"tests/sub/test_core.py::{x}" for x in "cba"]
    (tmp_path / "tests/sub").mkdir(parents=True)
    (tmp_path / "tests/sub/test_x.py").write_text("from pkg.sub.core import constant")
    records["tests/sub/test_x.py"].sources = {}
    records[INTERFACE] = FileCoverage(INTERFACE, "", ["i"], [0.1], sources={"pkg/sub/core.py": ""})
    at_import = select(Project(tmp_path), records, replace(mutant, covered=(5, 9)), budget=100)
    assert at_import.covering == 4
    assert {"i", *(f"tests/sub/test_x.py::{x}" for x in "abc")} <= {*at_import.tests}


def test_pytest_in_a_copy(tiny: Project, tmp_path: Path) -> None:
    copy = Copy(tiny, tmp_path / "copy", threading.Event())
    outcome = copy.pytest([], [OTHER, f"{FILE}::missing", TEST])
    assert (outcome.status, list(outcome.seconds)) == ("survived", [OTHER, TEST])
    (copy.project.root / CORE).write_text("def core(a, b): return [1, 2, 0, 0]")
    assert copy.pytest(["-x"], [OTHER, TEST]).failed == [OTHER]


def test_pytest_that_crashes_hangs_or_is_stopped(tiny: Project, tmp_path: Path) -> None:
    copy = Copy(tiny, tmp_path / "copy", threading.Event())
    (copy.project.root / CORE).write_text("x = y\n")
    assert copy.pytest([], [TEST]).status == "broken"
    assert copy.pytest([], [TEST], limit=0.0).status == "timeout"
    copy.stop.set()
    with pytest.raises(KeyboardInterrupt):
        copy.pytest([], [TEST])


def test_interruption(tiny: Project, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copy, "pytest", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(RUN, tiny) == 2
    assert not (tiny.root / "build/mutants/state.jsonl").exists()


@pytest.mark.full
def test_run_with_processes(tiny: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN, tiny) == main(RUN, tiny) == 0
    assert capsys.readouterr().out.count("coverage:") == 1
    assert "| all | 6 | 0 | 1 | 83.3 % | 83.3 % |" in (tiny.root / REPORT).read_text()
    state = (tiny.root / "build/mutants/state.jsonl").read_text().split("\n")
    results = map(json.loads, filter(None, state))
    assert [row["killed_by"] for row in results][:5] == [OTHER, TEST, TEST, TEST, ""]

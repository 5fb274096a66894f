"""Mutation operators and the choice of mutants."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant, compute_quotas, find_candidates, generate, validate
from tests.mutation.operators import OPERATORS, Source, find_edits
from tests.mutation.project import Project, UsageError
from tests.mutation.run import main
from tests.mutation.statements import find_sites

GROUPS = {
    *("attention_zoo/*.py", "cli", "data", "decoding", "export", "inspection", "layers", "losses"),
    *("metrics", "models", "ops", "tasks", "training"),
}


def mutate(code: str) -> dict[str, list[str]]:
    """Operator -> mutated sources."""
    source = Source(code.encode())
    found: dict[str, list[str]] = {}
    for mutant in find_candidates("m.py", source, seed=1):
        result = mutant.apply(source.data).decode()
        assert result.count("\n") == code.count("\n")
        found.setdefault(mutant.operator, []).append(result)
    return found


CASES = [
    ("arithmetic", "x = (a + b) * c", ["x = (a + b) / c", "x = (a - b) * c"]),
    ("arithmetic", "x = a // b % c", ["x = a // b * c", "x = a * b % c"]),
    ("arithmetic", "x = (a  # +\n+ b) ** c", ["x = (a  # +\n+ b) * c", "x = (a  # +\n- b) ** c"]),
    ("arithmetic", "x -= y", ["x += y"]),
    ("operand_order", "x = a - b - c", ["x = (c) - (a - b)", "x = (b) - (a) - c"]),
    ("operand_order", "x = (é + b) / (c)", ["x = ((c)) / ((é + b))"]),
    ("comparison", "x = a < b <= c", ["x = a <= b <= c", "x = a < b < c"]),
    ("comparison", "x = a > b", ["x = a >= b"]),
    ("comparison", "x = a >= (b)", ["x = a > (b)"]),
    ("comparison", "x = (a == b) != c", ["x = (a == b) == c", "x = (a != b) != c"]),
    ("comparison", "x = a is b", ["x = a is not b"]),
    ("comparison", "x = a is  not b", ["x = a is b"]),
    ("comparison", "x = a in b", ["x = a not in b"]),
    ("comparison", "x = a not in b", ["x = a in b"]),
    ("boolean", "x = a and b and c or d", ["x = a and b and c and d", "x = a or b or c or d"]),
    ("dropped_not", "x = not(a or b)", ["x = (a or b)"]),
    ("negated_condition", "if a < b:\n    f()", ["if not (a < b):\n    f()"]),
    ("negated_condition", "x = a if b else c", ["x = a if not (b) else c"]),
    ("integer", "x = f(-1)[0]", ["x = f(-2)[0]", "x = f(-1)[1]"]),
    ("floating_point", "x = 0.5, 1e-6, 1e9", ["1.5, 1e-6, 1e9", "0.5, 1.000001, 1e9", None]),
    ("flag", "x = {'a': True}", ["x = {'a': False}"]),
    ("default_argument", "def f(a=(1, -2), *, b=False, c='x', d=None): pass", 3),
    ("deleted_statement", "def f(self):\n    self.x = g(\n        1)\n    x = 2", 1),
    ("deleted_statement", "f(\n    1,\n)", ["pass\n\n"]),
    ("deleted_statement", "x += 1", ["pass"]),
    ("deleted_statement", "if a:\n    raise E(f'{a + 1}')", ["if a:\n    pass"]),
    ("return_none", "def f(x):\n    return (\n  x)", ["def f(x):\n    return None\n"]),
    ("dropped_keyword", "f(a, b=(1), **c)", ["f(a,  **c)"]),
    ("dropped_keyword", "f(a, b=[\n1\n], c=2,)", ["f(a, \n\n c=2,)", "f(a, b=[\n1\n], )"]),
    ("dropped_entry", "def f():\n    return {**a, 'b': (1), 'c': 2}", 2),
    ("slice_bound", "x = y[n:-1, ::2]", ["x = y[n + 1:-1, ::2]", "x = y[n:, ::2]"]),
]


@pytest.mark.parametrize(("operator", "code", "expected"), CASES)
def test_operator_edits(operator: str, code: str, expected: list[str | None] | int) -> None:
    """A list gives the mutated sources or their ends; a number says how many there are."""
    results = mutate(code)[operator]
    if isinstance(expected, int):
        assert len(results) == expected
    else:
        assert len(results) == len(expected)
        assert all(r.endswith(e) for r, e in zip(results, expected, strict=True) if e)
    for result in results:
        ast.parse(result)
        assert result != code


def test_exact_edits() -> None:
    code = "def f():\n    return {**a, 'b': (1), 'c': 2}"
    assert mutate(code)["dropped_entry"] == [
        "def f():\n    return {**a,  'c': 2}",
        "def f():\n    return {**a, 'b': (1), }",
    ]
    code = "def f(a=(1, -2), b=False): return a"
    assert mutate(code)["default_argument"] == [
        "def f(a=(2, -2), b=False): return a",
        "def f(a=(1, -3), b=False): return a",
        "def f(a=(1, -2), b=True): return a",
    ]


def test_every_operator_has_a_case() -> None:
    names = {function.__name__ for functions in OPERATORS.values() for function in functions}
    assert names == {case[0] for case in CASES}


@pytest.mark.parametrize(
    "code",
    [
        '"""Docstring."""',
        "def f(x: int = None, *, y: Literal[1] = 'a') -> Literal[2]:\n    'Doc.'",
        "x: tuple[Literal[1], ...]",
        "__all__ = ['a'] + f(1)",
        "from a import b",
        "if TYPE_CHECKING:\n    x = 1",
        "if __name__ == '__main__':\n    x = f(1)",
        "x = f'{a + 1}'",
        "x = 'a' + b",
        "x = [a] + b",
        "assert a < 1",
        "x = TypeVar('x', bound=1)",
        "x = open(y, encoding='utf-8')",
        "x = zip(y, z, strict=True)",
        "def f():\n    return None",
    ],
)
def test_not_mutated(code: str) -> None:
    assert mutate(code) == {}


@pytest.mark.parametrize("code", ["raise E(a + 1)", "print(a + 1, end='')", "warnings.warn(f(1))"])
def test_arguments_of_messages_are_not_mutated(code: str) -> None:
    assert mutate(code) == {"deleted_statement": ["pass"]}


def test_covered_lines() -> None:
    code = (
        "A = 1\nclass B:\n    c = 2\n    def f(self, d=3):\n"
        "        if (self.c >\n                4):\n            return 5\n"
    )
    source = Source(code.encode())
    found = {
        source.text(source.start(node), source.end(node)): (site.covered, site.at_import)
        for site in find_sites(source)
        for _, node, _ in find_edits(source, site)
        if isinstance(node, ast.Constant)
    }
    assert found == {
        "1": ((1, 8), True),
        "2": ((2, 7), True),
        "3": ((5, 7), False),
        "4": ((5, 6), False),
        "5": ((7, 7), False),
    }


def test_mutants_that_do_not_compile_or_change_nothing_are_dropped() -> None:
    source = Source(b"x = 1\n")
    [one] = find_candidates("m.py", source, seed=1)
    done = validate(one, source)
    assert done is not None
    assert (done.old, done.new, done.id) == ("x = 1", "x = 2", "m.py:1:4:integer:0")
    for text in (")", "0x1", " 1"):
        assert validate(Mutant(**{**vars(one), "parts": ((4, 5, text),)}), source) is None


# ------------------------------------------------------------------ the sample


def test_quotas() -> None:
    assert compute_quotas({"a": 90, "b": 9, "c": 1}, 20) == {"a": 12, "b": 4, "c": 4}
    assert compute_quotas({"a": 2, "b": 1}, 10, minimum=1) == {"a": 7, "b": 3}
    assert sum(compute_quotas({str(n): n for n in range(1, 14)}, 160).values()) == 160
    with pytest.raises(UsageError, match=r"^--count must be at least 8, got 7\.$"):
        compute_quotas({"a": 1, "b": 1}, 7)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A repository with two modules of every subpackage."""
    root, package = tmp_path_factory.mktemp("sample"), Project()
    for group in GROUPS:
        members = [path for path in package.list_sources() if package.get_group(path) == group]
        members.sort(key=lambda path: abs(len(package.read(path)) - 4000))
        for path in members[:2]:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(package.read(path))
    return Project(root)


def test_all_subpackages_are_known() -> None:
    assert {Project().get_group(path) for path in Project().list_sources()} == GROUPS


def test_sample_is_deterministic_and_spread(sample: Project) -> None:
    mutants = generate(sample, seed=1, count=52)
    assert mutants == generate(sample, seed=1, count=52)
    assert len({mutant.id for mutant in mutants}) == len(mutants) == 52
    counts = Counter(sample.get_group(mutant.path) for mutant in mutants)
    assert counts == dict.fromkeys(GROUPS, 4)
    assert len({(mutant.path, mutant.line) for mutant in mutants}) == 52
    assert len({mutant.operator for mutant in mutants}) >= 10


def test_sampled_mutants_compile_and_differ(sample: Project) -> None:
    for mutant in generate(sample, seed=2, count=52):
        source = sample.read(mutant.path)
        compile(mutant.apply(source), mutant.path, "exec")
        assert mutant.old != mutant.new
        assert mutant.apply(source).count(b"\n") == source.count(b"\n")


def test_the_seed_changes_the_sample(sample: Project) -> None:
    first, second = (generate(sample, seed, 52) for seed in (1, 2))
    assert len({m.id for m in first} & {m.id for m in second}) < 26


def test_an_edit_elsewhere_keeps_most_mutants(sample: Project, tmp_path: Path) -> None:
    changed = Project(tmp_path)
    for path in sample.list_sources():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"# One more line.\n" + sample.read(path))
    before, after = (
        [(m.path, m.operator, m.old, m.new) for m in generate(project, 1, 52)]
        for project in (sample, changed)
    )
    assert before == after


def test_list_prints_the_chosen_mutants(
    sample: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--list", "--count", "52"]
    assert main([*arguments, "--only", "attention_zoo/ops"], sample) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if line.startswith("attention_zoo/ops/")]) == 4
    assert main([*arguments, "--only", "attention_zoo/none"], sample) == 2
    assert "no mutant has an id that starts with attention_zoo/none" in capsys.readouterr().err


@pytest.mark.full
def test_the_default_sample_of_the_package() -> None:
    project = Project()
    mutants = generate(project, seed=1, count=160)
    assert len({mutant.id for mutant in mutants}) == 160
    counts = Counter(project.get_group(mutant.path) for mutant in mutants)
    assert set(counts) == GROUPS
    assert min(counts.values()) >= 4
    assert {mutant.operator for mutant in mutants} == {case[0] for case in CASES}

"""Mutation operators and sampling of mutants."""

import ast
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.mutants import Source, compute_quotas, find_candidates, generate, validate
from tests.mutation.project import MutationError, Project

CASES = [  # operator, source, and all its mutants or parts of them
    ("arithmetic", "x = (a  # +\n+ b) ** c", ["x = (a  # +\n+ b) * c", "x = (a  # +\n- b) ** c"]),
    ("arithmetic", "x -= a // b % c * d", ["x +=", "b % c / d", "b * c * d", "a * b % c * d"]),
    ("operand_order", "x = a - b - c", ["x = (c) - (a - b)", "x = (b) - (a) - c"]),
    ("operand_order", "x = (é + b) / (c)", ["x = ((c)) / ((é + b))"]),
    ("comparison", "x = a < b <= c > d", ["a <= b <= c > d", "a < b < c > d", "b <= c >= d"]),
    ("comparison", "x = (a == b) >= c != d", ["> c != d", ">= c == d", "(a != b)"]),
    ("comparison", "x = a is b is  not c", ["x = a is not b is  not c", "x = a is b is c"]),
    ("comparison", "x = a in b not in c", ["x = a not in b not in c", "x = a in b in c"]),
    ("boolean", "x = a and b and c or d", ["x = a and b and c and d", "x = a or b or c or d"]),
    ("dropped_not", "x = not(a or b)", ["x = (a or b)"]),
    ("negated_condition", "if a < b: x = a if b else c", ["if not (a < b):", "if not (b) else"]),
    ("integer", "x = f(-1)[0]", ["x = f(-2)[0]", "x = f(-1)[1]"]),
    ("floating_point", "x = 0.5, 1e9", ["x = 1.5, 1e9", "x = 0.5, 1.0"]),
    ("flag", "x = {'a': True}", ["x = {'a': False}"]),
    ("default_argument", "def f(a=-2, *, b='x', c=True): pass", ["a=-3", "c=False"]),
    ("deleted_statement", "def f(self):\n    self.x = g(\n        1)\n    x = 2", ["    pass\n\n"]),
    ("deleted_statement", "f(\n 1,\n)\nx += 1; raise E", ["pass\n\n\nx", "pass; raise", "; pass"]),
    ("return_none", "def f(x):\n    return (\n  x)", ["def f(x):\n    return None\n"]),
    ("dropped_keyword", "f(a, b=[\n1\n], c=(2),)", ["f(a, \n\n c=(2),)", "f(a, b=[\n1\n], )"]),
    ("dropped_entry", "def f(): return {**a, 'b': (1), 'c': 2}", ["{**a,  'c': 2}", "(1), }"]),
    ("slice_bound", "x = y[n:-1, ::2]", ["x = y[n + 1:-1, ::2]", "x = y[n:, ::2]"]),
]
NOT_MUTATED = """'Text.' | x = f'{a + 1}' | x = 'a' + b | x = [a] + b | assert a < 1 | x = a @ b
    | def f(x: int = None, *, y: Literal[1] = 'a') -> Literal[2]: return None | from a import b
    | x: tuple[Literal[1], ...] | __all__ = ['a'] + f(1) | if TYPE_CHECKING: x = 1
    | if __name__ == '__main__': f(1) | x = zip(y, strict=True) | x = TypeVar('x', bound=1)"""


def mutate(code: str) -> dict[str, list[str]]:
    """Operator -> mutated sources."""
    found: dict[str, list[str]] = {}
    for mutant in find_candidates("m.py", Source(code.encode()), seed=1):
        result = mutant.apply(code.encode()).decode()
        assert result.count("\n") == code.count("\n")
        found.setdefault(mutant.operator, []).append(result)
    return found


@pytest.mark.parametrize(("operator", "code", "expected"), CASES)
def test_operators(operator: str, code: str, expected: list[str]) -> None:
    for result, part in zip(mutate(code)[operator], expected, strict=True):
        assert ast.dump(ast.parse(result)) != ast.dump(ast.parse(code))
        assert part in result
        assert part not in code


def test_not_mutated() -> None:
    assert [mutate(code.strip()) for code in NOT_MUTATED.split("|")] == [{}] * 14
    for code in ("raise E(a + 1)", "print(a + 1, end='')", "warnings.warn(f(1))"):
        assert mutate(code) == {"deleted_statement": ["pass"]}


def test_covered_lines() -> None:
    code = "A = 1\nclass B:\n    c = 2\n    def f(self, d=3):\n        if (c >\n          4):\n"
    mutants = find_candidates("m.py", Source(f"{code}            return 5\n".encode()), seed=1)
    found = {mutant.line: mutant.covered for mutant in mutants if mutant.edit[2].isdigit()}
    assert found == {1: (1, 8), 3: (2, 7), 4: (5, 7), 6: (5, 6), 7: (7, 7)}


def test_mutants_that_do_not_compile_or_change_nothing_are_dropped() -> None:
    source = Source(b"x = 1\n")
    [mutant] = find_candidates("m.py", source, seed=1)
    valid = validate(mutant, source)
    assert (valid.old, valid.new, valid.id) == ("x = 1", "x = 2", "m.py:1:4:integer:0")
    for text in (")", "0x1", " 1"):
        assert validate(replace(mutant, edit=(4, 5, text)), source) is None


def test_quotas() -> None:
    assert compute_quotas({"a": 90, "b": 9, "c": 1}, 20) == {"a": 12, "b": 4, "c": 4}
    assert compute_quotas({"a": 2, "b": 1}, 13) == {"a": 9, "b": 4}
    assert sum(compute_quotas({str(n): n for n in range(1, 14)}, 160).values()) == 160
    with pytest.raises(MutationError, match=r"^--count must be at least 8, got 7\.$"):
        compute_quotas({"a": 1, "b": 1}, 7)


def test_sample(tmp_path: Path) -> None:
    """The sample is reproducible and spread over subpackages, operators and lines."""
    code = "\n".join(code for _, code, _ in CASES)
    (tmp_path / "pkg/sub").mkdir(parents=True)
    samples = []
    for seed, comment in ((1, ""), (1, ""), (1, "# One more line.\n"), (2, "")):
        for name in ("x.py", "sub/x.py", "sub/y.py"):
            (tmp_path / "pkg" / name).write_text(comment + code)
        samples.append(generate(Project(tmp_path, "pkg"), seed, 30))
    keys = [[mutant.key for mutant in mutants] for mutants in samples]
    assert keys[0] == keys[1] == keys[2]
    assert len({*keys[0]} & {*keys[3]}) < 15
    assert Counter(mutant.path.split("/")[1] for mutant in samples[0]) == {"x.py": 10, "sub": 20}
    assert len({(m.path, m.line) for m in samples[0]}) == 30
    assert len({m.operator for m in samples[0]}) >= 12

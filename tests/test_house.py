"""The budgets and manners of the house, each with a bad sample that its check must catch."""

from __future__ import annotations

import ast
import configparser
import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import yaml

import attention_zoo
from tests.test_readme import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "attention_zoo"
Check = Callable[[ast.Module], list[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(folder: str) -> list[Path]:
    """Python files under a folder of the repository; never none."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths, f"no Python under {folder}/"
    return paths


def make_files(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def statements(function: Function) -> list[ast.stmt]:
    """The body without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def body_lines(function: Function) -> int:
    body = statements(function)
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def long_functions(tree: ast.Module) -> list[str]:
    return [
        f"{f.lineno} {f.name}: body of {body_lines(f)} lines (60 at most)"
        for f in functions(tree)
        if body_lines(f) > 60
    ]


def wide_constructors(tree: ast.Module) -> list[str]:
    problems = []
    for function in functions(tree):
        given = function.args
        count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
        if function.name == "__init__" and count > 10:
            problems.append(f"{function.lineno} constructor with {count} arguments (10 at most)")
    return problems


def compared_names(function: Function) -> Iterator[tuple[str, str]]:
    """(expression, string literal) wherever the function branches on `expression == "literal"`."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp):
            for test in ast.walk(node.test):
                if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
                    right = test.comparators[0]
                    if isinstance(right, ast.Constant) and isinstance(right.value, str):
                        yield ast.unparse(test.left), right.value
        if isinstance(node, ast.Match):
            for pattern in (part for case in node.cases for part in ast.walk(case.pattern)):
                if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
                    yield ast.unparse(node.subject), str(pattern.value.value)


def ladders(tree: ast.Module) -> list[str]:
    """Functions that choose among three or more names by comparing: the work of a Registry."""
    problems = []
    for function in functions(tree):
        names = defaultdict(set)
        for expression, literal in compared_names(function):
            names[expression].add(literal)
        problems += [
            f"{function.lineno} {function.name}: a ladder on {expression} ({sorted(literals)})"
            for expression, literals in names.items()
            if len(literals) >= 3
        ]
    return problems


def idle(function: Function) -> bool:
    """A body of nothing; a docstring is enough of one where None is what is promised."""
    promised = function.returns and ast.unparse(function.returns)
    if ast.get_docstring(function) is not None and promised == "None":
        return False
    return all(
        isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in statements(function)
    )


def unfinished(tree: ast.Module) -> list[str]:
    """Functions that say they are not written, and bodies of nothing outside a Protocol."""
    raised = [
        f"{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and "NotImplemented" in ast.unparse(node)
    ]
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    protocols = [c for c in classes if "Protocol" in {ast.unparse(base) for base in c.bases}]
    declared = {f for protocol in protocols for f in functions(protocol)}
    declared |= {
        f
        for f in functions(tree)
        for d in f.decorator_list
        if ast.unparse(d) in ("abstractmethod", "overload")
    }
    empty = [f for f in functions(tree) if idle(f) and f not in declared]
    return raised + [f"{f.lineno} {f.name}: an empty body" for f in empty]


def thin_docstrings(tree: ast.Module) -> list[str]:
    """Public layers whose docstring lacks one of the sections that a reader looks for."""
    problems = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        if not {"call", "score", "align", "attend"} & {f.name for f in functions(node)}:
            continue
        text = ast.get_docstring(node) or ""
        lacking = [s for s in ("Args", "Returns", "Masking", "Reference") if f"{s}:" not in text]
        if lacking:
            problems.append(f"{node.lineno} {node.name}: docstring without {', '.join(lacking)}")
    return problems


def other_random_numbers(tree: ast.Module) -> list[str]:
    """Calls whose random numbers differ with and without XLA, unlike those of `ops.random`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [(call.lineno, ast.unparse(call.func)) for call in calls]
    other = r"keras\.random\.(?!SeedGenerator).*|(keras\.)?layers\.\w*Dropout\w*"
    return [
        f"{line} {name}: use attention_zoo.ops.random, or Dropout of attention_zoo"
        for line, name in names
        if re.fullmatch(other, name)
    ]


@pytest.fixture(scope="module", autouse=True)
def _parsed_once() -> None:
    for path in sources("attention_zoo"):
        parsed(path)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def checked(check: Check, paths: Iterable[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{problem}" for path in paths for problem in check(parsed(path))
    ]


MODULE_CHECKS: dict[Check, str] = {
    long_functions: "attention_zoo",
    wide_constructors: "attention_zoo",
    ladders: "attention_zoo",
    unfinished: "attention_zoo",
    thin_docstrings: "attention_zoo/layers",
    other_random_numbers: "attention_zoo",
}

BAD_MODULES: list[tuple[Check, str]] = [
    (long_functions, "def f():\n" + "    x = 1\n" * 61),
    (long_functions, "async def f():\n    '''Doc.'''\n" + "    x = 1\n" * 61),
    (wide_constructors, f"class A:\n def __init__(self, {', '.join('abcdefghijk')}): self.a = a"),
    (wide_constructors, f"class A:\n def __init__(self, *, {'=1, '.join('abcdefghijk')}=1): x = 1"),
    (ladders, "def f(n):\n if n == 'a': x()\n elif n == 'b': y()\n elif n == 'c': z()"),
    (ladders, "def f(n):\n if n == 'a': return 1\n if n == 'b': return 2\n if n == 'c': return 3"),
    (
        ladders,
        "def f(o):\n return 1 if o.n == 'a' else 2 if o.n == 'b' else 3 if o.n == 'c' else 4",
    ),
    (ladders, "def f(n):\n match n:\n  case 'a': x()\n  case 'b' | 'c': y()"),
    (unfinished, "def f():\n raise NotImplementedError"),
    (unfinished, "def f():\n raise NotImplementedError('later')"),
    (unfinished, "def f():\n    '''Only a docstring.'''"),
    (unfinished, "class A:\n def f(self) -> None: ..."),
    (thin_docstrings, "class A:\n '''Args: Returns: Masking:'''\n def call(self, x): return x"),
    (thin_docstrings, "class A:\n def score(self, x): return x"),
    (other_random_numbers, "noise = keras.random.normal((2, 3), seed=seed)"),
    (other_random_numbers, "drop = layers.Dropout(0.1)"),
]

GOOD_MODULES: list[tuple[Check, str]] = [
    (long_functions, "def f():\n    '''Doc." + "\n" * 70 + "'''\n" + "    x = 1\n" * 60),
    (wide_constructors, f"class A:\n def __init__(self, {', '.join('abcdefghij')}, **k): x = 1"),
    (ladders, "def f(n):\n if n == 'a': x()\n elif n == 'b': y()\n elif n == 3: z()"),
    (ladders, "def f(n):\n if n in ('a', 'b', 'c'): x()"),
    (unfinished, "def f(parser) -> None:\n 'It takes none.'"),
    (unfinished, "class A(Protocol):\n def f(self): ..."),
    (thin_docstrings, "class A:\n '''Args: Returns: Masking: Reference:'''\n def call(self): x()"),
    (thin_docstrings, "class _A:\n def call(self): x()"),
    (other_random_numbers, "seed = keras.random.SeedGenerator(1)\ndrop = Dropout(0.1)"),
]


@pytest.mark.parametrize("check", MODULE_CHECKS, ids=lambda c: c.__name__)
def test_modules_follow_the_rules(check: Check) -> None:
    assert checked(check, sources(MODULE_CHECKS[check])) == []


@pytest.mark.parametrize(("check", "code"), BAD_MODULES)
def test_bad_module_is_detected(check: Check, code: str) -> None:
    assert check(ast.parse(code))


@pytest.mark.parametrize(("check", "code"), GOOD_MODULES)
def test_good_module_passes(check: Check, code: str) -> None:
    assert check(ast.parse(code)) == []


def test_every_module_check_has_a_bad_sample() -> None:
    assert {check for check, _ in BAD_MODULES} == set(MODULE_CHECKS)


def ninetieth(values: Iterable[int]) -> int:
    """The smallest value that at least 90 % of the values do not exceed."""
    ordered = sorted(values)
    return ordered[math.ceil(0.9 * len(ordered)) - 1]


def test_nine_functions_in_ten_fit_in_30_lines() -> None:
    assert ninetieth([*range(1, 10), 100]) == 9
    assert ninetieth([1] * 8 + [50, 60]) == 50
    trees = map(parsed, sources("attention_zoo"))
    assert ninetieth(body_lines(f) for tree in trees for f in functions(tree)) <= 30


def over_length(paths: Iterable[Path], budget: int = 400) -> list[str]:
    return [str(path) for path in paths if path.read_text("utf-8").count("\n") > budget]


def test_modules_are_short(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * 401)
    (tmp_path / "short.py").write_text("x = 1\n" * 400)
    assert over_length(tmp_path.iterdir()) == [str(tmp_path / "long.py")]
    assert over_length(sources("attention_zoo")) == []


def untested(package: Path, tests: Path) -> list[str]:
    """Sub-packages and modules at the top without a test file in their mirror."""
    parts = [
        p for p in sorted(package.iterdir()) if p.suffix == ".py" or (p / "__init__.py").exists()
    ]
    trivial = {"__init__", "__main__", "version"}
    return [
        part.name
        for part in parts
        if part.stem not in trivial
        and not any((tests / part.stem).rglob("test_*.py"))
        and not (tests / f"test_{part.stem}.py").exists()
    ]


def test_tests_mirror_the_package(tmp_path: Path) -> None:
    make_files(
        tmp_path,
        ["a/__init__.py", "b/__init__.py", "c.py", "d.py", "tests/a/test_x.py", "tests/test_c.py"],
    )
    assert untested(tmp_path, tmp_path / "tests") == ["b", "d.py"]
    assert untested(PACKAGE, ROOT / "tests") == []


UNDONE = "TO" + "DO"
MARKS = re.compile(rf"\b({UNDONE}|FIX{'ME'}|X{'XX'})\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|tmp|root|farm|home|opt|Users)/")
WRITTEN = {".py", ".md", ".yaml", ".yml", ".cfg", ".toml", ".cff", ".json"}


def leftovers(text: str) -> list[str]:
    """Lines with a mark of unfinished work or a path of one machine."""
    return [
        f"{number} {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        if MARKS.search(line) or MACHINE_PATH.search(line)
    ]


def written_files() -> list[Path]:
    """What the repository holds: not what hidden folders, runs and build folders do."""
    top = [
        p for p in ROOT.iterdir() if p.name[0] != "." and p.name not in {"runs", "build", "dist"}
    ]
    files = [f for p in top for f in ([p] if p.is_file() else p.rglob("*"))]
    return sorted(f for f in files if f.suffix in WRITTEN or f.name == "Makefile")


def test_no_leftovers() -> None:
    assert leftovers(f"x = 1  # {UNDONE}: y") == [f"1 x = 1  # {UNDONE}: y"]
    assert leftovers(f"fine\npath = '{'/root'}/data'") == [f"2 path = '{'/root'}/data'"]
    assert leftovers("https://example.org/work/x, ./tmp/x, methodology") == []
    files = written_files()
    assert ROOT / "setup.cfg" in files
    problems = {f.name: leftovers(f.read_text(encoding="utf-8")) for f in files}
    assert {name: lines for name, lines in problems.items() if lines} == {}


DIALECT = re.compile(
    r"\b(looks?(?! up\b)|looked(?! up\b)|looking|told|tells|amiss|heed|consult|remembers|nobody)\b"
)
"""Words for which the field has terms of its own."""
EARLIER_NAMES = re.compile(r'"(data|model)", "(told|look)"|{"look": "attention"}')
"""Entries in the tables of renamed keys and arguments of earlier files."""


def test_texts_use_the_terms_of_the_field() -> None:
    """Sentences of a generated corpus and `EARLIER_NAMES` are the exceptions."""
    assert DIALECT.findall("ids are looked up; the head looks there") == ["looks"]
    files = [*sources("attention_zoo"), ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = {
        f.name: EARLIER_NAMES.sub("", f.read_text("utf-8")) for f in files if f.name != "events.py"
    }
    assert {name: words for name in texts if (words := DIALECT.findall(texts[name]))} == {}


def strange_files(root: Path) -> list[str]:
    """Code in the two folders that hold none."""
    code = [
        p
        for top in ("models", "training")
        for p in (root / top).rglob("*")
        if p.suffix in {".py", ".ipynb"}
    ]
    return sorted(str(p.relative_to(root)) for p in code)


def misnamed(root: Path, presets: Iterable[str]) -> list[str]:
    """Recipes named after no preset or checkpoint; zoo folders without recipe, card or results."""
    known = set(presets)
    recipes = {
        p.relative_to(root / "training").with_suffix(""): p.read_text("utf-8")
        for p in (root / "training").rglob("*.yaml")
        if p.parent.name != "cluster"
    }
    entries = [p for p in (root / "models").glob("*/*") if p.is_dir()]
    problems = [
        f"training/{r}.yaml: no preset {name!r}"
        for r, text in recipes.items()
        if (name := r.name.split(".")[0]) not in known and f"\ninit: data/{name}\n" not in text
    ]
    for entry in entries:
        name = entry.relative_to(root / "models")
        if name not in recipes:
            problems.append(f"models/{name}: no recipe training/{name}.yaml")
        problems += [
            f"models/{name}: no {f}"
            for f in ("README.md", "results.json")
            if not (entry / f).exists()
        ]
    return sorted(problems)


def figures(text: str) -> list[str]:
    """Decimal numbers of a text as printed: `98.4`, `1,234.5`; not versions such as `3.15.1`."""
    return re.findall(r"(?<![\w.,/:-])-?\d+(?:,\d{3})*\.\d+(?![\w/]|\.\d)", text)


def numbers(node: object) -> Iterator[float]:
    """All numbers in a JSON value, those within its strings too."""
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from numbers(child)
    elif isinstance(node, str):
        yield from (float(figure.replace(",", "")) for figure in figures(node))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield float(node)


def unfounded(card: str, *results: object) -> list[str]:
    """Figures of a card to which no number of the results rounds, nor a hundredfold (per cent)."""
    known = [n for result in results for n in numbers(result)]
    problems = []
    for figure in figures(card):
        value, half = float(figure.replace(",", "")), 0.5 * 10 ** -len(figure.split(".")[1])
        close = half * (1 + 1e-6) + 1e-12
        if not any(abs(value - scale * n) <= close for n in known for scale in (1, 100)):
            problems.append(figure)
    return problems


def test_models_and_training_hold_no_code(tmp_path: Path) -> None:
    make_files(tmp_path, ["models/a/x.py", "training/y.py", "training/y.yaml"])
    assert strange_files(tmp_path) == ["models/a/x.py", "training/y.py"]
    assert strange_files(ROOT) == []


def test_recipes_cards_and_presets_agree_in_name(tmp_path: Path) -> None:
    make_files(tmp_path / "training/translation", ["small.dates.yaml", "smal.dates.yaml"])
    make_files(tmp_path / "models/translation/small.dates", ["README.md", "results.json"])
    make_files(tmp_path / "models/translation/small.other", ["README.md"])
    assert misnamed(tmp_path, ["small"]) == [
        "models/translation/small.other: no recipe training/translation/small.other.yaml",
        "models/translation/small.other: no results.json",
        "training/translation/smal.dates.yaml: no preset 'smal'",
    ]
    assert misnamed(ROOT, attention_zoo.list_presets()) == []


def test_figures_are_read_as_printed() -> None:
    text = "BLEU 31.24, 98.4 % of 1,234.5 (Keras 3.15.1, `units=256`); loss -0.5. Figure 2. v1.2"
    assert figures(text) == ["31.24", "98.4", "1,234.5", "-0.5"]
    assert sorted(numbers({"a": [1, {"b": 0.25}], "c": "about 7.5", "d": True})) == [0.25, 1, 7.5]


def test_figures_of_cards_stand_in_their_results() -> None:
    result = {"bleu": 31.236, "exact_match": 0.9843}
    assert unfounded("BLEU 31.24 or 31.2, exact match 98.4 %", result) == []
    assert unfounded("BLEU 31.25, exact match 98.5 %", result) == ["31.25", "98.5"]
    results = {
        path.parent: json.loads(path.read_text())
        for path in (ROOT / "models").rglob("results.json")
    }
    cards = {folder: (folder / "README.md").read_text(encoding="utf-8") for folder in results}
    problems = {folder.name: unfounded(card, results[folder]) for folder, card in cards.items()}
    assert {name: figures for name, figures in problems.items() if figures} == {}
    table = ROOT / "models" / "README.md"
    assert table.exists() == bool(results)
    assert (
        not table.exists() or unfounded(table.read_text(encoding="utf-8"), *results.values()) == []
    )


def loaded(code: str, backend: str) -> set[str]:
    """Names of the modules that are loaded after the code ran in a fresh process."""
    code += "\nimport sys, json; print('\\n' + json.dumps(sorted(sys.modules)))"
    environment = os.environ | {"KERAS_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def backends(modules: Iterable[str]) -> set[str]:
    """The modules among these that belong to a backend of Keras."""
    return {m for m in modules if m.split(".")[0] in {"tensorflow", "jax", "jaxlib", "torch"}}


def test_backends_are_recognised() -> None:
    assert backends(["keras.src", "tensorflow.lite", "jax", "tensorflowless"]) == {
        "tensorflow.lite",
        "jax",
    }
    assert "wave" in loaded("import wave", "tensorflow") - loaded("", "tensorflow")


@pytest.mark.full
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_importing_loads_no_backend_beyond_what_keras_loads(backend: str) -> None:
    ours = loaded("import keras, attention_zoo", backend)
    assert "attention_zoo.layers" in ours
    assert backends(ours - loaded("import keras", backend)) == set()


def contract_breaks(folder: Path, statements: dict[str, str]) -> list[str]:
    """Which contracts of setup.cfg a package breaks that has our parts, with a statement each."""
    shutil.copy(ROOT / "setup.cfg", folder)
    for part in ("", *(p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists())):
        (folder / "attention_zoo" / part).mkdir()
        (folder / "attention_zoo" / part / "__init__.py").write_text(statements.get(part, ""))
    for module in PACKAGE.glob("*.py"):
        if module.name != "__init__.py":
            (folder / "attention_zoo" / module.name).touch()
    lint = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(lint, cwd=folder, capture_output=True, text=True)
    broken = re.findall(r"^(.+) BROKEN", done.stdout, re.M)
    assert bool(broken) == bool(done.returncode), done.stdout + done.stderr
    return [name.split()[0] for name in broken]


@pytest.mark.parametrize(
    ("statements", "broken"),
    [
        ({"models": "import attention_zoo.layers", "data": "import tensorflow"}, []),
        ({"ops": "import attention_zoo.models"}, ["Imports"]),
        ({"losses": "def f():\n    from attention_zoo import decoding"}, ["Imports"]),
        ({"tasks": "def f():\n    import tensorflow"}, ["Only"]),
        ({"layers": "from jax import numpy"}, ["Only"]),
    ],
)
def test_import_contracts_catch(
    tmp_path: Path, statements: dict[str, str], broken: list[str]
) -> None:
    assert contract_breaks(tmp_path, statements) == broken


def test_the_version_is_one() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == attention_zoo.__version__
    assert f"## [{attention_zoo.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_licence_is_the_one_that_the_metadata_names() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    assert metadata["metadata"]["license_expression"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def shell_commands(markdown: str) -> list[str]:
    """Commands in ```sh blocks: comments off, continued lines joined."""
    blocks = re.findall(r"^```(?:sh|bash|console|shell)\n(.*?)^```", markdown, re.M | re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines)
    return [" ".join(line.removeprefix("$ ").split()) for line in bare if line]


def commands_of(line: str) -> list[str]:
    """The commands of a line, without the folder of the environment and the pipe between them."""
    return [" ".join(part.split()).removeprefix(".venv/bin/") for part in re.split(r"[|&;]+", line)]


def unrun(commands: Iterable[str], targets: Iterable[str], run: str) -> list[str]:
    """Commands that are neither fetching, nor a make target, nor among the lines that make runs."""
    known = {f"make {target}" for target in targets}
    known |= {c for line in run.replace("\\\n", " ").splitlines() for c in commands_of(line)}
    parts = [part for command in commands for part in commands_of(command)]
    return [p for p in parts if p not in known and not re.fullmatch(r"(git clone|cd) \S+", p)]


def test_unrun_commands_are_detected() -> None:
    text = "```sh\n$ make test  # all\nmake tset\na b | \\\n  zoo x\n```\n```python\nx\n```\n"
    assert shell_commands(text) == ["make test", "make tset", "a b | zoo x"]
    assert unrun(shell_commands(text), ["test"], "a b | .venv/bin/zoo  x") == ["make tset"]
    assert unrun(["zoo", "git clone x", "cd x"], ["test"], ".venv/bin/zoo x") == ["zoo"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_of_the_pages_are_run_by_make(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", makefile, re.M)
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", "quickstart", "test", "test-full", "bench"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    # tests/test_readme.py runs the other commands of the README.
    run = "\n".join([done.stdout, *COMMANDS])
    commands = shell_commands((ROOT / page).read_text(encoding="utf-8"))
    assert unrun(commands, targets, run) == []

"""The package contains no call that executes code of a file, and no reader without a limit."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "attention_zoo"
MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve", "tarfile"}
CALLS = {"__import__", "compile", "eval", "exec"}
NAMES = {
    "enable_unsafe_deserialization",
    "extractall",
    "from_npy",
    "full_load",
    "mktemp",
    "unpack_archive",
    "unsafe_load",
    "UnsafeLoader",
}
METHODS = {"os.system", "os.popen", "yaml.load", "np.fromfile", "keras.models.load_model"}
"""Calls by their whole name; `yaml.load` needs no loader that is safe."""
KEYWORDS = {"allow_pickle": True, "safe_mode": False, "shell": True, "trust_remote_code": True}
"""Values of arguments that switch a protection off."""
REQUIRED = {"torch.load": "weights_only", "np.load": "mmap_mode"}
"""Functions that need an argument: `np.load` only maps files of the cache into memory."""
LOADS_SAVED_MODELS = {"serving/exports.py", "serving/served_model.py"}
"""Modules that load SavedModels, which are programs; they verify the export first."""


def find_unsafe(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of the unsafe parts of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from ((node.lineno, x) for x in names if x.split(".")[0] in MODULES)
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            yield from ((node.lineno, name) for _ in range(name in NAMES))
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, name) for name in find_unsafe_call(node))


def find_unsafe_call(node: ast.Call) -> Iterator[str]:
    """Yield the reasons why a call is unsafe."""
    name, keywords = get_name(node.func), {x.arg: x.value for x in node.keywords}
    if name in CALLS or name in METHODS:
        yield name
    if name in REQUIRED and REQUIRED[name] not in keywords:
        yield f"{name} without {REQUIRED[name]}"
    for keyword, value in KEYWORDS.items():
        given = keywords.get(keyword)
        if given is not None and not (isinstance(given, ast.Constant) and given.value is not value):
            yield f"{keyword}={ast.unparse(given)}"


def get_name(node: ast.AST) -> str:
    """Return a name with dots, or "" for another expression."""
    if isinstance(node, ast.Attribute):
        return f"{get_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@functools.cache
def parse_package() -> dict[str, ast.Module]:
    """Return all modules of the package, by path."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@functools.cache
def list_calls() -> frozenset[tuple[str, str]]:
    """Return each module with the functions that it calls."""
    return frozenset(
        (module, get_name(node.func))
        for module, tree in parse_package().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )


@pytest.fixture(scope="module", autouse=True)
def _parsed_package() -> None:
    """Parse the package once for all tests."""
    parse_package()


def test_package_has_no_unsafe_calls() -> None:
    modules = parse_package()
    assert len(modules) > 200
    unsafe = [(name, *found) for name, tree in modules.items() for found in find_unsafe(tree)]
    assert unsafe == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from marshal import loads",
        "import joblib.numpy_pickle",
        "eval(x)",
        "exec(x)",
        "__import__(x)",
        "np.load(path)",
        "np.load(path, allow_pickle=True, mmap_mode='r')",
        "np.load(path, allow_pickle=flag, mmap_mode='r')",
        "torch.load(path)",
        "keras.saving.load_model(path, safe_mode=False)",
        "keras.config.enable_unsafe_deserialization()",
        "keras.models.load_model(path)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "yaml.load(text, Loader=yaml.UnsafeLoader)",
        "archive.extractall()",
        "shutil.unpack_archive(path)",
        "os.system(command)",
        "subprocess.run(command, shell=True)",
    ],
)
def test_unsafe_code_is_found(code: str) -> None:
    assert [*find_unsafe(ast.parse(code))]


def test_safe_code_is_not_found() -> None:
    code = """
import json, numpy as np, yaml
yaml.safe_load(text)
np.load(path, mmap_mode="r")
np.load(path, allow_pickle=False, mmap_mode="r")
torch.load(path, weights_only=True)
model.compile(loss)
re.compile(pattern)
"""
    assert [*find_unsafe(ast.parse(code))] == []


def list_callers(function: str) -> set[str]:
    """Return the modules that call a function."""
    return {module for module, name in list_calls() if name == function}


def test_saved_models_are_loaded_only_after_verification() -> None:
    assert list_callers("tf.saved_model.load") <= LOADS_SAVED_MODELS


OWN_FILES = {
    "data/synthetic/clause_templates.py",
    "data/synthetic/events.py",
    "data/synthetic/orders.py",
    "data/synthetic/reviews.py",
    "data/synthetic/worlds.py",
    "zoo.py",
}
"""Modules that read JSON files of this package itself."""
OTHER_SOURCES = {
    "data/reading.py",
    "export_description.py",
    "json_files.py",
    "training/hosts.py",
    "training/run_folder.py",
}
"""Modules that limit the size of JSON themselves, or read it from an environment variable or a log
of the run."""


def test_json_of_files_is_read_with_limits() -> None:
    users = {
        name
        for name in list_callers("json.loads") | list_callers("json.load")
        if not name.startswith(("serving/", "export/"))  # requests, and own files
    }
    assert users <= OWN_FILES | OTHER_SOURCES

"""Paths of the tested repository: package sources, test files, and which tests mirror a module."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN_TESTS = "tests/mutation/"
SHARED_RESULTS = re.compile(r"\b(?:lru_cache|functools\.cache|scope=\"(?:class|module|session)\")")


class UsageError(ValueError):
    """An option or a committed file has a wrong value."""


def compute_digest(*parts: str | bytes) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the parts."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part.encode() if isinstance(part, str) else part)
        hashed.update(b"\0")
    return hashed.hexdigest()[:16]


@dataclass(frozen=True)
class Project:
    """A repository with one Python package and its `tests/` folder.

    All paths that it returns and accepts are POSIX paths relative to `root`.

    Args:
        root: folder of the repository, or of a copy of it.
        package: name of the package whose sources are mutated.
    """

    root: Path = ROOT
    package: str = "attention_zoo"

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    @functools.cache  # noqa: B019
    def compute_hash(self, path: str) -> str:
        """Hash of a file as it was at the first call; "" if there is no such file."""
        return compute_digest(self.read(path)) if (self.root / path).is_file() else ""

    def _python_files(self, folder: str, pattern: str = "*.py") -> list[str]:
        paths = (self.root / folder).rglob(pattern)
        return sorted(path.relative_to(self.root).as_posix() for path in paths)

    def list_sources(self) -> list[str]:
        """Modules of the package."""
        return self._python_files(self.package)

    def list_test_files(self, restricted_to: tuple[str, ...] = ()) -> list[str]:
        """Test files, all of them or those at or below the given paths, without our own."""
        found = [f for f in self._python_files("tests", "test_*.py") if OWN_TESTS not in f]
        if not restricted_to:
            return found
        roots = [path.rstrip("/") for path in restricted_to]
        for root in roots:
            if not (self.root / root).exists():
                raise UsageError(f"--tests: no such file or folder: {root}")
        return [f for f in found if any(f == r or f.startswith(f"{r}/") for r in roots)]

    def get_group(self, path: str) -> str:
        """Subpackage of a module; modules directly in the package form one group."""
        parts = Path(path).parts
        return parts[1] if len(parts) > 2 else f"{self.package}/*.py"

    # -------------------------------------------------------------- mirrored tests

    @functools.cache  # noqa: B019
    def _text(self, path: str) -> str:
        return self.read(path).decode()

    @functools.cache  # noqa: B019
    def get_public_names(self, path: str) -> frozenset[str]:
        """Public functions and classes that a module defines."""
        return frozenset(
            node.name
            for node in ast.parse(self._text(path)).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        )

    def has_mirrored_name(self, test_file: str, path: str) -> bool:
        """Whether a test file is named after a module: tests/a/test_b.py after package/a/b.py."""
        test, module = Path(test_file), Path(path)
        in_folder = module.parts[1:-1][:1] == test.parts[1:-1][:1]
        return in_folder and test.stem == f"test_{module.stem}"

    @functools.cache  # noqa: B019
    def get_mirror_rank(self, test_file: str, path: str) -> int:
        """0: named after the module; 1: in its folder and mentions its public names; else 2."""
        if self.has_mirrored_name(test_file, path):
            return 0
        folders = Path(path).parts[1:-1][:1]
        if folders and Path(test_file).parts[1:-1][:1] == folders:
            words = set(re.findall(r"\w+", self._text(test_file)))
            return 1 if words & self.get_public_names(path) else 2
        return 2

    def list_mirrored_tests(self, path: str, test_files: list[str]) -> list[str]:
        """Test files of rank 0 and 1, in this order."""
        ranked = [(self.get_mirror_rank(f, path), f) for f in test_files]
        return [f for rank, f in sorted(ranked) if rank < 2]

    @functools.cache  # noqa: B019
    def shares_results(self, test_file: str) -> bool:
        """Whether tests of a file share cached results or fixtures of a wider scope.

        Line coverage then names only the first test that computed the shared result.
        """
        text = self._text(test_file)
        helpers = [
            helper.relative_to(self.root).as_posix()
            for helper in (self.root / test_file).parent.glob("*.py")
            if not helper.name.startswith("test_")
            and (helper.stem == "conftest" or re.search(rf"\b{helper.stem}\b", text))
        ]
        return any(SHARED_RESULTS.search(self._text(path)) for path in [test_file, *helpers])


def copy_repository(root: Path, target: Path) -> Path:
    """Copy the files that git tracks or would add, with uncommitted changes; return the copy."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():  # a tracked file may have been deleted
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    return target.resolve()

"""The script that counts code lines of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "count_code_lines.py"
SOURCE = '''"""Docstring
of two lines."""

from a import (
    b,
)

# A comment.
X = """a string,
not a docstring"""


def f(x):  # a comment behind code
    """Docstring."""
    import c

    return (
        x  # here too
    )
'''


def test_code_lines_are_counted_by_sub_package(tmp_path: Path) -> None:
    for name in ("one.py", "sub/two.py", "sub/deeper/three.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [line.split() for line in output.splitlines()] == [
        ["sub", "12"],
        [".", "6"],
        ["total", "18"],
    ]

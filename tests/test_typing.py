"""Type aliases."""

from __future__ import annotations

import re
from pathlib import Path

import attention_zoo.typing


def test_type_aliases_are_defined_once() -> None:
    package = Path(attention_zoo.typing.__file__).parent
    pattern = re.compile(r"^(Tensor|Shape) = ", re.MULTILINE)
    defining = [path.name for path in package.rglob("*.py") if pattern.search(path.read_text())]
    assert defining == ["typing.py"]

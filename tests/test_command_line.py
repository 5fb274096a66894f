"""The command line imports layers on demand; other programs register them with Keras."""

from __future__ import annotations

import sys

import pytest

import attention_zoo


@pytest.mark.parametrize(
    ("argv", "options", "expected"),
    [
        (["/bin/attention-zoo", "train"], [], True),
        (["-m", "train", "-m"], ["-m", "attention_zoo"], True),
        (["-m", "train"], ["-W", "ignore", "-m", "attention_zoo.cli"], True),
        (["-m"], ["-mattention_zoo"], True),
        (["-m", "attention_zoo"], ["-m", "pkg.module"], False),
        (["-m"], ["-m", "attention_zoo_extra"], False),
        (["-m"], [], False),
        (["-c"], ["-c", "import attention_zoo"], False),
        (["train.py", "-m", "attention_zoo"], [], False),
        ([""], [], False),
        ([], [], False),
    ],
)
def test_programs(
    argv: list[str], options: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", ["python", *options, *argv[bool(options) :]])
    assert attention_zoo._is_command_line() is expected

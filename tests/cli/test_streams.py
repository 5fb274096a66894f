"""The program as a process: quick starts, closed and full streams, other locales."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.training.small import small_run

ENVIRONMENT: dict[str, str | None] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
NO_UTF8 = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
QUIET = {"TF_CPP_MIN_LOG_LEVEL": None}  # the default: TensorFlow logs nothing
USAGE = ("--help", "--version", "train --help")


def run(
    words: str, redirections: str = "", environment: Mapping[str, str | None] | None = None
) -> tuple[int, str, str]:
    """Run the program in a shell; return exit code, standard output and standard error.

    A variable of the environment that is None is not set.
    """
    variables = ENVIRONMENT | dict(environment or {})
    command = f"exec {sys.executable} -m attention_zoo {words} {redirections}"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        encoding="utf-8",
        env={name: value for name, value in variables.items() if value is not None},
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [*USAGE, "trian"])
def test_usage_imports_nothing_slow(words: str) -> None:
    program = (
        f"import sys; sys.argv = ['attention-zoo', *{words.split()}]\n"
        "from attention_zoo.cli import main\n"
        "main()\n"
        "print(sorted({'keras', 'tensorflow', 'numpy', 'yaml'} & {*sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stderr.count("\n") == (words == "trian")


@pytest.mark.parametrize("words", USAGE)
@pytest.mark.parametrize(
    ("redirections", "message"),
    [
        ("> /dev/full", "standard output: No space left on device"),
        (">&-", "standard output is closed; redirect it to a file, or to /dev/null"),
        ("1< /dev/null", "standard output: Bad file descriptor"),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_line(
    words: str, redirections: str, message: str, unbuffered: str
) -> None:
    answer = run(words, redirections, {"PYTHONUNBUFFERED": unbuffered})
    assert answer == (2, "", f"attention-zoo: error: {message}\n")


def test_closed_streams_that_are_not_needed() -> None:
    assert run("--version", "<&- 2>&-") == run("--version")
    assert run("trian", "2>&-") == (2, "", "")
    assert run("--version", "<&- >&- 2>&-") == (2, "", "")


READ_INPUT = """
import sys
from attention_zoo.cli import main, train
def run(arguments):
    with open({path!r}) as file:
        assert file.fileno() > 2
    {read}
train.run = run
sys.argv = ["attention-zoo", "train", "x"]
sys.modules["keras"] = None  # is not imported
sys.exit(main())
"""


@pytest.mark.parametrize("read", ["sys.stdin.buffer.read()", "next(sys.stdin)", "input()"])
def test_closed_input_is_one_line(read: str) -> None:
    program = READ_INPUT.format(path=__file__, read=read)
    streams: dict[str, Any] = {"capture_output": True, "text": True, "env": ENVIRONMENT}
    program = f"import sys; sys.argv = ['attention-zoo']\n{program}"
    command = ["sh", "-c", f'exec {sys.executable} -c "$0" <&-', program]
    done = subprocess.run(command, **streams, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("attention-zoo: error: standard input is closed; name an input file\n")


@pytest.mark.parametrize("environment", [NO_UTF8, {"PYTHONIOENCODING": "ascii"}])
def test_messages_are_utf8_in_every_locale(environment: dict[str, str]) -> None:
    assert run("prédict", "", environment) == run("prédict")
    assert "prédict" in run("prédict", "", environment)[2]


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "redirections", "message"),
    [
        ("train nowhere.yaml", "", "nowhere.yaml: no such recipe"),
        ("train --help-keys", "> /dev/full", "standard output: No space left on device"),
        ("predict {run} --allow-unknown", "<&-", "standard input is closed; name an input file"),
        (
            "predict {run} --allow-unknown",
            "< {lines} > /dev/full",
            "standard output: No space left",
        ),
    ],
)
def test_errors_are_one_line_without_logs(
    words: str, redirections: str, message: str, tmp_path: Path
) -> None:
    names = {"run": small_run(), "lines": tmp_path / "lines.txt"}
    names["lines"].write_text("it is five\n")
    code, out, err = run(words.format(**names), redirections.format(**names), QUIET)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"attention-zoo: error: {message}")


@pytest.mark.full
def test_predictions_are_utf8_in_every_locale(tmp_path: Path) -> None:
    path = tmp_path / "é.txt"
    path.write_text("it is five\nnoël 5\n", encoding="utf-8")
    words = f"predict {small_run()} {path} --allow-unknown"
    expected = run(words, "", QUIET)
    assert expected[0] == 0
    assert run(words, "", NO_UTF8 | QUIET) == expected

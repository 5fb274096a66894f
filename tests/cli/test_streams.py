"""The program as a process: quick starts, closed and full streams, other locales."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.cli.streams import select_messages
from tests.training.small import small_run

ENVIRONMENT: dict[str, str | None] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
NO_UTF8 = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
QUIET = {"TF_CPP_MIN_LOG_LEVEL": None}  # the default
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


HEADER = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
ABSL = "{}0000 00:00:1795713495.780876    9478 {}\n"
INFORMATION = ABSL.format("I", "port.cc:153] oneDNN custom operations are on.")
FEATURES = ABSL.format("I", "cpu_feature_guard.cc:227] This TensorFlow binary is optimized.")
FEATURES += "To enable the following instructions: AVX2, rebuild TensorFlow.\n"
OLD = "2024-06-28 00:03:52.491725: {} tensorflow/core/util/port.cc:110] oneDNN is on.\n"
NO_DRIVER = ABSL.format("I", "cudart_stub.cc:31] Could not find cuda drivers on your machine.")
NO_DEVICE = ABSL.format("E", "cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)")
NO_LIBRARY = ABSL.format("W", "gpu_device.cc:2341] Cannot dlopen some GPU libraries.")
WARNING, ERROR, FATAL = (
    ABSL.format(letter, "cuda_dnn.cc:8] Text: I port.cc:1] ") for letter in "WEF"
)
LOG_LEVEL = "log(os.environ['TF_CPP_MIN_LOG_LEVEL'] + '\\n')"
PYTHON = """\
/site-packages/h5py/__init__.py:36: UserWarning: h5py is running against HDF5 1.14.
  _warn(("h5py is running against HDF5 {0}"
I am not a line of the log.
I0000 nor port.cc:153] this one
Traceback (most recent call last):
ImportError: libstdc++.so.6: version `GLIBCXX_3.4.29' not found"""


@pytest.mark.parametrize(
    ("text", "severities", "has_gpu", "expected"),
    [
        (HEADER + INFORMATION + NO_DRIVER + FEATURES + OLD.format("I"), "WEF", False, ""),
        (NO_DRIVER + NO_DEVICE + NO_LIBRARY, "WEF", False, ""),
        (NO_DRIVER + NO_DEVICE + NO_LIBRARY, "WEF", True, NO_DRIVER + NO_DEVICE + NO_LIBRARY),
        (NO_DRIVER + NO_DEVICE + NO_LIBRARY, "EF", True, NO_DEVICE),
        (HEADER + INFORMATION + FEATURES, "WEF", True, ""),
        (INFORMATION + WARNING + ERROR + FATAL, "WEF", False, WARNING + ERROR + FATAL),
        (WARNING + ERROR + FATAL, "F", False, FATAL),
        (OLD.format("W") + OLD.format("E"), "EF", False, OLD.format("E")),
        (INFORMATION + PYTHON, "WEF", False, PYTHON),
        (PYTHON, "F", False, PYTHON),
        ("", "WEF", False, ""),
    ],
)
def test_start_up_messages(text: str, severities: str, has_gpu: bool, expected: str) -> None:
    assert select_messages(text, severities, has_gpu) == expected


def import_fake_keras(
    folder: Path, code: str, environment: Mapping[str, str | None] = QUIET
) -> tuple[int, str, str]:
    """Import a module `keras` of this code as the program does, then print OUT and ERR.

    The machine has an NVIDIA GPU if the file `driver` exists.
    """
    prelude = "import os, subprocess, sys\nlog = sys.stderr.write\n"
    (folder / "keras.py").write_text(prelude + code)
    program = (
        "import os, signal, sys; os.setpgrp(); sys.argv = ['attention-zoo']\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a job may ignore it\n"
        "from attention_zoo.cli import streams\n"
        f"streams.NVIDIA_DRIVER = ({str(folder / 'driver')!r},)\n"
        "streams.import_keras_quietly()\n"
        "import keras\n"
        "print('OUT'); print('ERR', file=sys.stderr)\n"
    )
    path = os.pathsep.join([str(folder), *sys.path])
    variables = ENVIRONMENT | {"PYTHONPATH": path} | dict(environment)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        env={name: value for name, value in variables.items() if value is not None},
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"log({INFORMATION + WARNING!r})", (0, "OUT\n", f"{WARNING}ERR\n")),
        (f"os.write(2, {FEATURES + ERROR!r}.encode())", (0, "OUT\n", f"{ERROR}ERR\n")),
        (f"log({INFORMATION!r} * 3000 + 'x' * 200_000)", (0, "OUT\n", f"{'x' * 200_000}ERR\n")),
        ("os.write(2, b'caf\\xe9\\n')", (0, "OUT\n", "caf\\xe9\nERR\n")),
        (f"log({INFORMATION + FATAL!r}); os.abort()", (-6, "", FATAL)),
        (f"log({INFORMATION + FATAL!r}); os.kill(os.getpid(), 9)", (-9, "", FATAL)),
        (f"log({INFORMATION + ERROR!r}); os._exit(3)", (3, "", ERROR)),
        (f"log({WARNING!r}); raise SystemExit(3)", (3, "", WARNING)),
        # A program that keeps standard error open until this process ends.
        (
            "cat = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)",
            (0, "OUT\n", "ERR\n"),
        ),
    ],
)
def test_warnings_and_errors_of_the_import_are_printed(
    code: str, expected: tuple[int, str, str], tmp_path: Path
) -> None:
    code, out, err = import_fake_keras(tmp_path, code)
    assert (code, out, err) == expected


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("import tensorflaw", 1, "ModuleNotFoundError: No module named 'tensorflaw'"),
        ("os.killpg(0, 2)", -2, "KeyboardInterrupt"),  # Ctrl-C
    ],
)
def test_a_failed_import_prints_its_log_and_traceback(
    code: str, status: int, error: str, tmp_path: Path
) -> None:
    answer = import_fake_keras(tmp_path, f"log({INFORMATION + ERROR!r}); {code}")
    assert answer[:2] == (status, "")
    assert answer[2].startswith(f"{ERROR}Traceback ")
    assert answer[2].endswith(f"{error}\n")


@pytest.mark.parametrize(
    ("level", "expected", "level_after"),
    [
        (None, WARNING + ERROR + FATAL, "3"),
        ("0", HEADER + WARNING + ERROR + FATAL, "0"),
        ("1", WARNING + ERROR + FATAL, "1"),
        ("2", ERROR + FATAL, "2"),
        ("3", FATAL, "3"),
        ("4", "", "4"),
    ],
)
def test_log_level_of_the_environment(
    level: str | None, expected: str, level_after: str, tmp_path: Path
) -> None:
    code = f"log({HEADER + WARNING + ERROR + FATAL!r}); {LOG_LEVEL}"
    answer = import_fake_keras(tmp_path, code, {"TF_CPP_MIN_LOG_LEVEL": level})
    assert answer == (0, "OUT\n", f"{expected}{level_after}\nERR\n")


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, f"{NO_DRIVER}1\n"), ("0", f"{NO_DRIVER}1\n"), ("-1", "3\n")]
)
def test_messages_about_a_gpu_that_cannot_be_used_are_printed(
    visible: str | None, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "driver").touch()
    environment = QUIET | {"CUDA_VISIBLE_DEVICES": visible}
    answer = import_fake_keras(tmp_path, f"log({NO_DRIVER!r}); {LOG_LEVEL}", environment)
    assert answer == (0, "OUT\n", f"{expected}ERR\n")


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "level"), [("list", None), ("train --help-keys", None), ("train --help-keys", "3")]
)
def test_start_up_prints_nothing(words: str, level: str | None) -> None:
    code, out, err = run(words, "", {"TF_CPP_MIN_LOG_LEVEL": level})
    assert (code, err) == (0, "")
    assert out


def cpu_seconds(*words: str) -> float:
    """User and system time of a Python process; the least of three runs."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, env=ENVIRONMENT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(seconds)


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "limit"), [("--help", 4), ("--version", 4), ("train --help", 4), ("list", 8)]
)
def test_start_up_time(words: str, limit: float) -> None:
    program = ["-m", "attention_zoo", *words.split()]
    assert cpu_seconds(*program) <= limit * cpu_seconds("-c", "import numpy")

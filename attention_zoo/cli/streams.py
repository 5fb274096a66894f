"""Standard streams of the program: UTF-8, and errors for streams that are closed or full."""

from __future__ import annotations

import glob
import importlib
import io
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

# "I0000 00:00:1764172800.123456    1234 port.cc:153] ..." and, of older versions of TensorFlow,
# "2026-11-26 16:00:00.123456: I tensorflow/core/util/port.cc:153] ..."
LOG_PREFIX = re.compile(
    r"(?:([IWEF])\d{4} [\d:.]+ +\d+|\d{4}-\d\d-\d\d [\d:.]+: ([IWEF])) \S+:\d+\] "
)
# Lines of TensorFlow's log that have no prefix.
LOG_INFORMATION = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "To enable the following instructions:",
)
NO_GPU = (
    "Could not find cuda drivers",
    "failed call to cuInit",
    "Cannot dlopen some GPU libraries",
)
NVIDIA_DRIVER = ("/dev/nvidia[0-9]*", "/usr/lib/wsl/lib/libcuda.so*")  # the latter in WSL


class StandardOutput(io.TextIOWrapper):
    """Standard output as UTF-8; an OSError of a failed write names it."""

    def write(self, text: str) -> int:
        with _name_standard_output():
            return super().write(text)

    def flush(self) -> None:
        with _name_standard_output():
            super().flush()


@contextmanager
def _name_standard_output() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def use_utf8_mode() -> None:
    """Restart Python in UTF-8 mode if the locale has another encoding for file names."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def prepare_streams() -> None:
    """Make the standard streams UTF-8, and replace closed ones.

    The next opened file would get the descriptor of a closed stream, and with it the output of
    libraries. Reading the replacement of standard input raises `io.UnsupportedOperation`.

    Raises:
        ValueError: standard output is closed.
    """
    is_closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if is_closed:
        raise ValueError("standard output is closed; redirect it to a file, or to /dev/null")
    output: Any = sys.stdout
    errors: Any = sys.stderr
    sys.stdout = StandardOutput(
        output.buffer,
        encoding="utf-8",
        errors="surrogateescape",
        line_buffering=output.line_buffering,
        write_through=output.write_through,
    )
    errors.reconfigure(encoding="utf-8", errors="backslashreplace")


def import_keras_quietly() -> None:
    """Import Keras, and print only warnings and errors of TensorFlow's log.

    TensorFlow ignores TF_CPP_MIN_LOG_LEVEL for its first messages; here it applies to them too. If
    it is not set, it becomes 1 (warnings and errors) on a machine with an NVIDIA GPU, and otherwise
    3 (fatal errors only), for the messages after the import.
    """
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1")
    severities = "IWEF"[int(level) :] if level.isdigit() else "IWEF"
    if "keras" in sys.modules or "I" in severities or not hasattr(os, "fork"):
        return
    hides_gpus = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    has_gpu = not hides_gpus and any(map(glob.glob, NVIDIA_DRIVER))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1" if has_gpu else "3")
    notice = "starting TensorFlow ..." if sys.stderr.isatty() else ""
    print(notice, end="\r" if notice else "", file=sys.stderr, flush=True)
    erase = " " * len(notice) + "\r" if notice else ""
    with _filter_stderr(lambda text: erase + select_messages(text, severities, has_gpu)):
        importlib.import_module("keras")


def select_messages(text: str, severities: str, has_gpu: bool) -> str:
    """Return the lines of TensorFlow's log of some severities, and all other lines.

    Args:
        text: what was written to standard error.
        severities: some of the letters "I" (information), "W", "E" and "F" (fatal error).
        has_gpu: the machine has an NVIDIA GPU. Otherwise it is information that none is found.
    """
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if _get_severity(line, has_gpu) in ("", *severities))


def _get_severity(line: str, has_gpu: bool) -> str:
    """Return the severity of a line of TensorFlow's log, or "" for another line."""
    if line.startswith(LOG_INFORMATION):
        return "I"
    match = LOG_PREFIX.match(line)
    if match is None:
        return ""
    severity = match[1] or match[2]
    if any(message in line for message in NO_GPU):
        return severity.replace("I", "W") if has_gpu else "I"
    return severity


@contextmanager
def _filter_stderr(select_text: Callable[[str], str]) -> Iterator[None]:
    """Collect what is written to descriptor 2, and print the selected part at the end.

    A child process does both. So nothing is lost if this process is killed, as it is by a fatal
    error of TensorFlow.
    """
    log, log_end = os.pipe()
    done, done_end = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # for good in the child process
    if not (collector := os.fork()):
        os.close(log_end)
        os.close(done_end)
        _print_selected(log, done, select_text)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    stderr = os.dup(2)
    os.dup2(log_end, 2)
    for descriptor in (log, log_end, done):
        os.close(descriptor)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(done_end)
        with suppress(ChildProcessError):  # a parent process may ignore SIGCHLD
            os.waitpid(collector, 0)


def _print_selected(log: int, done: int, select_text: Callable[[str], str]) -> NoReturn:
    """Read `log` until the other end of `done` is closed, print the selected text, and exit.

    The end of `log` itself may come later: programs that the import starts inherit descriptor 2.
    """
    try:
        data = b""
        while log in select.select([log, done], [], [])[0] and (part := os.read(log, 2**16)):
            data += part
        text = select_text(data.decode(errors="surrogateescape"))
        with open(2, "wb", closefd=False) as stderr:
            stderr.write(text.encode(errors="surrogateescape"))
    finally:
        os._exit(0)


def discard_unwritten_output() -> None:
    """Flush standard output; if that fails, discard the rest.

    Python would fail again when it flushes the rest at exit.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

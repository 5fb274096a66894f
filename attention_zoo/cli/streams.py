"""Standard streams of the program: UTF-8, and errors for streams that are closed or full."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
    """Import Keras without the lines that TensorFlow logs while it starts.

    No log level turns them off. With TF_CPP_MIN_LOG_LEVEL set, they are printed.
    """
    if "keras" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    notice = "starting TensorFlow ..." if sys.stderr.isatty() else ""
    print(notice, end="\r" if notice else "", file=sys.stderr, flush=True)
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        importlib.import_module("keras")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
        print(" " * len(notice), end="\r" if notice else "", file=sys.stderr, flush=True)


def discard_unwritten_output() -> None:
    """Flush standard output; if that fails, discard the rest.

    Python would fail again when it flushes the rest at exit.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

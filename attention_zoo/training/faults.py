"""When the system refuses to write: what is said, and that nothing saved before is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def explain_io_errors(folder: Path) -> Iterator[None]:
    """An error of the system inside says where it came about and how the run goes on.

    Raises:
        OSError: in place of that error.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        reason = error.strerror or os.strerror(error.errno)
        advice = "what was saved before is whole: mend this, and the same command goes on"
        raise OSError(error.errno, f"{reason}; {advice}", str(error.filename or folder)) from error

"""Error messages for failed I/O during training."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def explain_io_errors(folder: Path) -> Iterator[None]:
    """Add the path, and advice on how to resume, to an OSError raised inside this context.

    Raises:
        OSError: in place of the original error.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        reason = error.strerror or os.strerror(error.errno)
        advice = "earlier checkpoints are intact; fix this, and run the same command to resume"
        raise OSError(error.errno, f"{reason}; {advice}", str(error.filename or folder)) from error

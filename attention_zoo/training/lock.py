"""Run lock: at most one trainer per run folder."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

LOCK = "lock"


@contextmanager
def hold_run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder; the system releases it however this process ends.

    A missing folder is created, and removed again if the run has written nothing.

    Raises:
        ValueError: another process holds it.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with _taken(folder) as file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        try:
            yield
        finally:
            with suppress(OSError):  # parent folders with other content stay
                if [path.name for path in folder.iterdir()] == [LOCK]:
                    (folder / LOCK).unlink()
                    for path in missing:
                        path.rmdir()


def _taken(folder: Path) -> TextIO:
    """Acquire the lock and return its file; retry if its last holder removes it meanwhile."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / LOCK).open("a+", encoding="utf-8")
        except FileNotFoundError:  # the folder was removed meanwhile
            continue
        except FileExistsError:
            if os.path.lexists(folder) and not folder.is_dir():
                raise
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(folder / LOCK), os.fstat(file.fileno())):
                return file
        except BlockingIOError:
            with file:
                file.seek(0)
                holder = file.read().strip() or "another process"
            raise ValueError(
                f"{folder}: is being trained by {holder};"
                " wait for it, stop it, or use another run=FOLDER"
            ) from None
        except FileNotFoundError:  # the lock or its folder was removed
            pass
        file.close()

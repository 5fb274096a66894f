"""One trainer a run folder."""

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
    """Holds a run folder; the system lets go of it when this process ends, however it ends.

    The folder is made if it is not there; what was made is gone again if nothing came of the run.

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
            with suppress(OSError):  # what else is in a folder above stays
                if [path.name for path in folder.iterdir()] == [LOCK]:
                    (folder / LOCK).unlink()
                    for path in missing:
                        path.rmdir()


def _taken(folder: Path) -> TextIO:
    """The folder's lock, held. One that its holder removes while it is being taken is none."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / LOCK).open("a+", encoding="utf-8")
        except FileNotFoundError:  # the folder is gone again
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
                " wait for it, end it, or give another run=FOLDER"
            ) from None
        except FileNotFoundError:  # the lock is gone, or its folder
            pass
        file.close()

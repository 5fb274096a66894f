"""One trainer a run folder."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = "lock"


@contextmanager
def only_trainer(folder: Path) -> Iterator[None]:
    """Holds a run folder; the system lets go of it when this process ends, however it ends.

    The folder is made if it is not there; what was made is gone again if nothing came of the run.

    Raises:
        ValueError: another process holds it.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ValueError(
                f"{folder}: is being trained by {file.read().strip() or 'another process'};"
                " wait for it, end it, or give another run=FOLDER"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        try:
            yield
        finally:
            if [path.name for path in folder.iterdir()] == [LOCK]:
                with suppress(OSError):  # what else is in a folder above stays
                    (folder / LOCK).unlink()
                    for path in missing:
                        path.rmdir()

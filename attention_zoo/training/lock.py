"""Run lock: at most one trainer per run folder."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from pathlib import Path

from filelock import FileLock, Timeout

from attention_zoo.files import check_can_create, read_mode

LOCK = "lock"
ATTEMPTS = 100


@contextmanager
def hold_run_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder; the system releases it however this process ends.

    A missing folder is created, and removed again if the run has written nothing.

    Raises:
        ValueError: another process holds it.
        OSError: the folder cannot be written, or its file system has no locks.
    """
    check_can_create(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with _acquire(folder / LOCK):
        (folder / LOCK).write_text(f"process {os.getpid()} on {socket.gethostname()}\n", "utf-8")
        try:
            yield
        finally:
            with suppress(OSError):  # parent folders with other content stay
                if [path.name for path in folder.iterdir()] == [LOCK]:
                    (folder / LOCK).unlink()
                    for path in missing:
                        path.rmdir()


def _acquire(path: Path) -> AbstractContextManager[object]:
    """Acquire the lock of a file; retry if its last holder removes it meanwhile."""
    # A soft lock, which filelock can fall back to, outlives a process that is killed.
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            return lock.acquire()
        except Timeout:
            with suppress(FileNotFoundError):  # the lock was removed
                holder = path.read_text("utf-8").strip() or "another process"
                raise ValueError(
                    f"{path.parent}: is being trained by {holder};"
                    " wait for it, stop it, or use another run=FOLDER"
                ) from None
        except (FileNotFoundError, FileExistsError):  # the folder was removed, or is a file
            mode = read_mode(path.parent)
            is_file = path.parent.is_symlink() if mode is None else not stat.S_ISDIR(mode)
            if is_file or not attempts_left:
                raise
        except OSError as error:
            if error.errno not in (ENOSYS, ENOLCK, EOPNOTSUPP):
                raise
            reason = "the file system has no locks; use a run=FOLDER on another one"
            raise OSError(error.errno, reason, str(path)) from None
        time.sleep(0.01)
    raise ValueError(f"{path}: other processes create and remove it; use another run=FOLDER")

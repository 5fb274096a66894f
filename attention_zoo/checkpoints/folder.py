"""Checkpoints of a run: written atomically, with detection of damaged files.

checkpoints/step-00000300/
    manifest.json    size and SHA-256 of every other file
    training.json    progress of the run; "best_step" is the step of the best checkpoint
    ...              other files that the caller of `CheckpointFolder.save` writes
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attention_zoo.files import (
    MANIFEST,
    Entry,
    explain_outdated,
    find_damage,
    flush_to_disk,
    read_json,
    write_manifest,
)

STATE = "training.json"
STATE_VERSION = 1
CHECKPOINT_NAME = re.compile(r"step-(\d{8,})|\.step-(\d{8,})\.old")


class CheckpointFolder:
    """The `checkpoints` folder of a run.

    Args:
        folder: path of the folder; it need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get_path(self, step: int) -> Path:
        """Return the path of a step's checkpoint.

        If the process was killed while it replaced the checkpoint, this is the path of the backup.
        """
        final, backup = self.folder / f"step-{step:08d}", self.folder / f".step-{step:08d}.old"
        return backup if backup.is_dir() and not final.is_dir() else final

    def list_steps(self) -> list[int]:
        """Return the steps that have a checkpoint, intact or damaged, newest first."""
        names = (path.name for path in self.folder.iterdir()) if self.folder.is_dir() else ()
        matches = filter(None, map(CHECKPOINT_NAME.fullmatch, names))
        return sorted({int(match[1] or match[2]) for match in matches}, reverse=True)

    def find_newest(self) -> Path | None:
        """Return the newest intact checkpoint, or None if there is no checkpoint.

        Warns for each damaged checkpoint that it skips.

        Raises:
            ValueError: all checkpoints are damaged.
        """
        return next(iter(self.list_intact(limit=1)), None)

    def list_intact(self, limit: int | None = None, retries: int = 100) -> list[Path]:
        """Return the intact checkpoints, newest first, limited to `limit` if given.

        Warns for each damaged checkpoint that it skips.

        Args:
            limit: maximum number of checkpoints.
            retries: how many times to restart if a running trainer replaces checkpoints meanwhile.

        Raises:
            ValueError: all checkpoints are damaged.
        """
        steps = self.list_steps()
        intact: list[Path] = []
        for step in steps:
            if len(intact) == limit:
                break
            path = self.get_path(step)
            damage = find_damage(path)
            if damage is None:
                intact.append(path)
            elif retries and self.list_steps() != steps:
                return self.list_intact(limit, retries - 1)
            elif step == steps[-1] and not intact:
                raise ValueError(f"{path}: {damage}, and no other checkpoint is intact")
            else:
                message = f"{path}: {damage}; skipped, other checkpoints are used"
                warnings.warn(message, stacklevel=2)
        return intact

    def find_best(self) -> Path | None:
        """Return the best checkpoint according to the newest intact one.

        If the best checkpoint is missing or damaged, return the newest intact one. If there is no
        checkpoint, return None.
        """
        newest = self.find_newest()
        if newest is None:
            return None
        state = read_json(newest / STATE, STATE_VERSION, "use another checkpoint")
        with explain_outdated(newest / STATE):
            best = self.get_path(state["best_step"])
        damage = find_damage(best)
        if damage is None:
            return best
        if best.is_dir():
            warnings.warn(f"{best}: {damage}; using the newest checkpoint instead", stacklevel=2)
        return newest

    def save(self, step: int, write: Callable[[Path], Mapping[str, Entry] | None]) -> Path:
        """Write the checkpoint of a step atomically and return its path.

        A process killed at any moment leaves a complete checkpoint or none.

        Args:
            step: number of updates done.
            write: function that writes the checkpoint's files into the folder it is given. It may
                return the manifest entries of files that it wrote as `HashedFile`.
        """
        final = self.folder / f"step-{step:08d}"
        temporary, backup = (self.folder / f".{final.name}.{suffix}" for suffix in ("new", "old"))
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            known_entries = write(temporary)
            with ThreadPoolExecutor(2) as disk:
                flushed = disk.map(flush_to_disk, list(temporary.rglob("*")))
                write_manifest(temporary, known=known_entries)
                list(flushed)  # raises the errors
            flush_to_disk(temporary / MANIFEST)
            flush_to_disk(temporary)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        if final.is_dir():
            shutil.rmtree(backup, ignore_errors=True)
            os.rename(final, backup)
        os.rename(temporary, final)
        flush_to_disk(self.folder)
        shutil.rmtree(backup, ignore_errors=True)
        return final

    def keep(self, steps: Iterable[int]) -> None:
        """Delete all checkpoints except those of the given steps."""
        for step in {*self.list_steps()} - {*steps}:
            for name in (f".step-{step:08d}.old", f"step-{step:08d}"):
                # Without its manifest, a partly deleted checkpoint is detected as damaged.
                (self.folder / name / MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def delete_after(self, step: int) -> None:
        """Delete the checkpoints after `step` and the remains of interrupted saves."""
        self.keep(other_step for other_step in self.list_steps() if other_step <= step)
        for other_step in self.list_steps():
            os.rename(self.get_path(other_step), self.folder / f"step-{other_step:08d}")
        for leftover in self.folder.glob(".step-*"):
            shutil.rmtree(leftover, ignore_errors=True)


def find_task_folder(folder: Path) -> Path:
    """Return the folder with the `task.json` that `folder` refers to.

    For a run folder, this is the best checkpoint according to the newest intact one. Damaged
    checkpoints are skipped with a warning. Raises ValueError if there is no such folder.
    """
    if (folder / "task.json").is_file():
        # A partly deleted checkpoint has no manifest, but it has the name of a checkpoint.
        has_manifest = (folder / MANIFEST).is_file() or CHECKPOINT_NAME.fullmatch(folder.name)
        damage = find_damage(folder) if has_manifest else None
        if damage:
            raise ValueError(f"{folder}: {damage}; use another checkpoint")
        return folder
    best = CheckpointFolder(folder / "checkpoints").find_best()
    if best is not None:
        return best
    if (folder / "checkpoints" / "best" / "task.json").is_file():  # of an outdated run
        return folder / "checkpoints" / "best"
    if not folder.exists():
        problem = "no such folder; train a model with `attention-zoo train RECIPE`"
    elif (folder / "results.json").is_file() and (folder / "README.md").is_file():
        problem = "contains a model card but no weights; train with the card's command"
    elif (folder / "recipe.yaml").is_file():
        problem = "this run has no checkpoint yet; start its training again"
    else:
        problem = (
            "not a run folder (contains neither task.json nor checkpoints);"
            " pass one that `attention-zoo train` created"
        )
    raise ValueError(f"{folder}: {problem}")

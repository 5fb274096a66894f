"""Checkpoints of a run: written atomically, with detection of damaged files.

checkpoints/step-00000300/
    manifest.json    size and SHA-256 of every other file
    training.json    progress of the run; "best_step" is the step of the best checkpoint
    ...              other files that the caller of `CheckpointFolder.save` writes
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attention_zoo.files import MANIFEST, Entry, damage, seal, to_disk

STATE = "training.json"
NAME = re.compile(r"step-(\d{8,})|\.step-(\d{8,})\.old")


class CheckpointFolder:
    """The `checkpoints` folder of a run.

    Args:
        folder: path of the folder; it need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def at(self, step: int) -> Path:
        """Return the path of a step's checkpoint.

        If the process was killed while it replaced the checkpoint, this is the path of the backup.
        """
        place, aside = self.folder / f"step-{step:08d}", self.folder / f".step-{step:08d}.old"
        return aside if aside.is_dir() and not place.is_dir() else place

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, intact or damaged, newest first."""
        names = (path.name for path in self.folder.iterdir()) if self.folder.is_dir() else ()
        found = {int(one[1] or one[2]) for one in map(NAME.fullmatch, names) if one}
        return sorted(found, reverse=True)

    def newest(self) -> Path | None:
        """Return the newest intact checkpoint, or None if there is no checkpoint.

        Warns for each damaged checkpoint that it skips.

        Raises:
            ValueError: all checkpoints are damaged.
        """
        steps = self.steps()
        for step in steps:
            wrong = damage(self.at(step))
            if wrong is None:
                return self.at(step)
            if self.steps() != steps:  # changed by a running trainer: retry
                return self.newest()
            if step == steps[-1]:
                raise ValueError(f"{self.at(step)}: {wrong}, and no other checkpoint is intact")
            warnings.warn(f"{self.at(step)}: {wrong}; using the previous checkpoint", stacklevel=2)
        return None

    def whole(self, most: int | None = None) -> list[Path]:
        """Return the intact checkpoints, newest first, limited to `most` if given.

        Warns for each damaged checkpoint that it skips.
        """
        steps = self.steps()
        found: list[Path] = []
        for step in steps:
            if len(found) == most:
                break
            wrong = damage(self.at(step))
            if wrong is None:
                found.append(self.at(step))
            elif self.steps() != steps:  # changed by a running trainer: retry
                return self.whole(most)
            else:
                warnings.warn(f"{self.at(step)}: {wrong}; skipped", stacklevel=2)
        return found

    def best(self) -> Path | None:
        """Return the best checkpoint according to the newest intact one.

        If the best checkpoint is missing or damaged, return the newest intact one. If there is no
        checkpoint, return None.
        """
        newest = self.newest()
        if newest is None:
            return None
        best = self.at(json.loads((newest / STATE).read_text("utf-8"))["best_step"])
        wrong = damage(best)
        if wrong is None:
            return best
        if best.is_dir():
            warnings.warn(f"{best}: {wrong}; using the newest checkpoint instead", stacklevel=2)
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
        fresh, aside = (self.folder / f".{final.name}.{end}" for end in ("new", "old"))
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            known = write(fresh)
            written = list(fresh.rglob("*"))
            names = [path.relative_to(fresh).as_posix() for path in written if path.is_file()]
            with ThreadPoolExecutor(2) as disk:
                waiting = [disk.submit(to_disk, path) for path in written]
                seal(fresh, names, known)
                for one in waiting:
                    one.result()
            for path in (fresh / MANIFEST, fresh):
                to_disk(path)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        if final.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(final, aside)
        os.rename(fresh, final)
        to_disk(self.folder)
        shutil.rmtree(aside, ignore_errors=True)
        return final

    def keep(self, steps: Iterable[int]) -> None:
        """Delete all checkpoints except those of the given steps."""
        for step in {*self.steps()} - {*steps}:
            for name in (f".step-{step:08d}.old", f"step-{step:08d}"):
                # Without its manifest, a partly deleted checkpoint is detected as damaged.
                (self.folder / name / MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def cut_back(self, step: int) -> None:
        """Delete the checkpoints after `step` and the remains of interrupted saves."""
        self.keep(other for other in self.steps() if other <= step)
        for other in self.steps():
            os.rename(self.at(other), self.folder / f"step-{other:08d}")
        for unfinished in self.folder.glob(".step-*"):
            shutil.rmtree(unfinished, ignore_errors=True)


def task_folder(folder: Path) -> Path:
    """Return the folder with the `task.json` that `folder` refers to.

    For a run folder, this is the best checkpoint according to the newest intact one. Damaged
    checkpoints are skipped with a warning. Raises ValueError if there is no such folder.
    """
    if (folder / "task.json").is_file():
        # A partly deleted checkpoint has no manifest, but it has the name of a checkpoint.
        sealed = (folder / MANIFEST).is_file() or NAME.fullmatch(folder.name)
        wrong = damage(folder) if sealed else None
        if wrong:
            raise ValueError(f"{folder}: {wrong}; use another checkpoint")
        return folder
    best = CheckpointFolder(folder / "checkpoints").best()
    if best is not None:
        return best
    if not folder.exists():
        raise ValueError(
            f"{folder}: no such folder; train a model with `attention-zoo train RECIPE`"
        )
    if (folder / "results.json").is_file() and (folder / "README.md").is_file():
        raise ValueError(
            f"{folder}: contains a model card but no weights; train with the card's command"
        )
    if (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder}: this run has no checkpoint yet; start its training again")
    raise ValueError(
        f"{folder}: not a run folder (contains neither task.json nor checkpoints);"
        " pass one that `attention-zoo train` created"
    )

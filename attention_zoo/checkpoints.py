"""The checkpoints of a run: each is there whole or not at all, and its damage is seen.

checkpoints/step-00000300/
    manifest.json    size and SHA-256 of every other file
    training.json    how far the run was; its "best_step" names the best checkpoint
    ...              what the writer puts there
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
    """The folder `checkpoints` of a run.

    Args:
        folder: where the checkpoints lie; it need not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def at(self, step: int) -> Path:
        """Where the checkpoint of a step lies: aside if a kill came while it was replaced."""
        place, aside = self.folder / f"step-{step:08d}", self.folder / f".step-{step:08d}.old"
        return aside if aside.is_dir() and not place.is_dir() else place

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, damaged ones too, the newest first."""
        names = (path.name for path in self.folder.iterdir()) if self.folder.is_dir() else ()
        found = {int(one[1] or one[2]) for one in map(NAME.fullmatch, names) if one}
        return sorted(found, reverse=True)

    def newest(self) -> Path | None:
        """The newest checkpoint that is whole, with a warning for each newer one; None without.

        Raises:
            ValueError: there are checkpoints, and all are damaged.
        """
        steps = self.steps()
        for step in steps:
            wrong = damage(self.at(step))
            if wrong is None:
                return self.at(step)
            if self.steps() != steps:  # a trainer works here: look again
                return self.newest()
            if step == steps[-1]:
                raise ValueError(f"{self.at(step)}: {wrong}, and no other checkpoint is whole")
            warnings.warn(f"{self.at(step)}: {wrong}; the one before is used", stacklevel=2)
        return None

    def whole(self, most: int | None = None) -> list[Path]:
        """The checkpoints that are whole, the newest first, at most so many of them.

        There is a warning for each that is damaged and newer than the last of them.
        """
        steps = self.steps()
        found: list[Path] = []
        for step in steps:
            if len(found) == most:
                break
            wrong = damage(self.at(step))
            if wrong is None:
                found.append(self.at(step))
            elif self.steps() != steps:  # a trainer works here: look again
                return self.whole(most)
            else:
                warnings.warn(f"{self.at(step)}: {wrong}; it is left out", stacklevel=2)
        return found

    def best(self) -> Path | None:
        """The checkpoint that the newest whole one calls best; the newest if that is damaged."""
        newest = self.newest()
        if newest is None:
            return None
        best = self.at(json.loads((newest / STATE).read_text("utf-8"))["best_step"])
        wrong = damage(best)
        if wrong is None:
            return best
        if best.is_dir():
            warnings.warn(f"{best}: {wrong}; the newest is used instead", stacklevel=2)
        return newest

    def save(self, step: int, write: Callable[[Path], Mapping[str, Entry] | None]) -> Path:
        """Writes the checkpoint of a step; killed at any moment, it is there whole or not at all.

        Args:
            step: updates done.
            write: puts its files into the folder it is given; may return the entries of those
                that were written as `HashedFile`.
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
        """Removes all checkpoints but those of these steps."""
        for step in {*self.steps()} - {*steps}:
            for name in (f".step-{step:08d}.old", f"step-{step:08d}"):
                (self.folder / name / MANIFEST).unlink(missing_ok=True)  # half removed is damaged
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def cut_back(self, step: int) -> None:
        """Removes what stands after a step, and what a kill left unfinished."""
        self.keep(other for other in self.steps() if other <= step)
        for other in self.steps():
            os.rename(self.at(other), self.folder / f"step-{other:08d}")
        for unfinished in self.folder.glob(".step-*"):
            shutil.rmtree(unfinished, ignore_errors=True)


def task_folder(folder: Path) -> Path:
    """The folder with the `task.json` that stands for `folder`; ValueError when there is none.

    Of a run it is the best checkpoint, as the newest has it; damaged ones are passed over with a
    warning.
    """
    if (folder / "task.json").is_file():
        sealed = (folder / MANIFEST).is_file() or NAME.fullmatch(folder.name)
        wrong = damage(folder) if sealed else None  # a checkpoint half removed has no manifest
        if wrong:
            raise ValueError(f"{folder}: {wrong}; use another checkpoint")
        return folder
    best = CheckpointFolder(folder / "checkpoints").best()
    if best is not None:
        return best
    if not folder.exists():
        raise ValueError(f"{folder}: no such folder; train one with `attention-zoo train RECIPE`")
    if (folder / "results.json").is_file() and (folder / "README.md").is_file():
        raise ValueError(f"{folder}: holds a card but no weights; train it with the card's command")
    if (folder / "recipe.yaml").is_file():
        raise ValueError(f"{folder}: this run has no checkpoint yet; start its training again")
    raise ValueError(
        f"{folder}: is no run folder (neither task.json nor checkpoints in it);"
        " give the folder that `attention-zoo train` names"
    )

"""Registry of task classes."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from attention_zoo.registry import Registry

ENTRY_POINTS = "attention_zoo.tasks"


class TaskRegistry(Registry):
    """Task classes by name. Installed packages register theirs through entry points."""

    _loaded = False

    def get(self, name: str) -> Any:  # Any: task classes differ in their constructors
        return super().get(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.names()

    def names(self) -> list[str]:
        self._load_entry_points()
        return super().names()

    def _load_entry_points(self) -> None:
        """Import all entry points once; their modules register tasks."""
        if self._loaded:
            return
        errors = []
        for point in entry_points(group=ENTRY_POINTS):
            try:
                point.load()
            except Exception as error:
                errors.append(f"{point.name} = {point.value}: {error}")
        if errors:
            raise ValueError(
                f"failed to import entry points of group {ENTRY_POINTS}: {'; '.join(errors)}. Fix"
                " or uninstall these packages."
            )
        self._loaded = True


TASKS = TaskRegistry("task")

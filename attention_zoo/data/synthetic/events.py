"""Events of the generated corpus `reports`: templates of reports, distractors and summaries."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import NamedTuple


class Event(NamedTuple):
    """A kind of event.

    Attributes:
        slots: type of each slot of its templates: "name" or "figure".
        statements: templates which report that the event happened, each of one or more sentences.
        distractors: templates of distractors: the event was long ago, is planned or is not true.
        summary: template of one sentence, which never begins with a name.
    """

    slots: dict[str, str]
    statements: list[list[str]]
    distractors: list[list[str]]
    summary: str


_CONTENT = json.loads((files(__package__) / "events.json").read_text("utf-8"))
EVENTS = [Event(**event) for event in _CONTENT]

"""Clause templates of the generated corpus `dates`, in four languages.

A template has the same meaning in all languages, with its slot where the language requires it. No
two templates have the same meaning.

In the file, `{0}` is the slot, and `{1:school}` marks a word with the number of its concept, the
same in all languages of a row. Words of one concept have a sure link, or only a possible link if
one of the two numbers has an underscore. `{2,3_:born}` has two concepts: it may be aligned to an
auxiliary verb, `{3:est}`, but corresponds to a participle, `{2,3_:née}`. Words without a number are
function words.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

from attention_zoo.data.synthetic.slots import Date, Quantity, RelativeTime, Slot, Time

# The separator of clauses, and the end of the sentence.
PUNCTUATION = {"en": ("; ", "."), "fr": (" ; ", "."), "de": ("; ", "."), "zh": ("；", "。")}

SLOTS: dict[str, Slot] = {
    "date": Date(),
    "time": Time(),
    "distance": Quantity(("length-kilometer", "length-mile")),
    "length": Quantity(("length-meter", "length-centimeter")),
    "mass": Quantity(("mass-kilogram", "mass-gram")),
    "volume": Quantity(("volume-liter",)),
    "short_duration": Quantity(("duration-hour", "duration-minute")),
    "long_duration": Quantity(
        tuple(f"duration-{unit}" for unit in ("day", "week", "month", "year"))
    ),
    "temperature": Quantity(("temperature-celsius",)),
    "future": RelativeTime(is_future=True),
    "past": RelativeTime(is_future=False),
}
"""Slots by their names in `clause_templates.tsv`."""


class ClauseTemplate(NamedTuple):
    """A clause with a slot: `{0}` in a text is replaced by the slot's text in that language.

    Attributes:
        slot: type of its value.
        texts: the text in each language.
        marked_texts: the same texts with numbered concepts.
    """

    slot: Slot
    texts: dict[str, str]
    marked_texts: dict[str, str]


def _read_templates() -> tuple[ClauseTemplate, ...]:
    table = (files(__package__) / "clause_templates.tsv").read_text("utf-8")
    (_, *languages), *rows = [line.split("\t") for line in table.splitlines()]
    templates = []
    for slot, *texts in rows:
        marked = dict(zip(languages, texts, strict=True))
        plain = {name: re.sub(r"\{[\w,]+:(.+?)\}", r"\1", text) for name, text in marked.items()}
        templates.append(ClauseTemplate(SLOTS[slot], plain, marked))
    return tuple(templates)


CLAUSE_TEMPLATES = _read_templates()

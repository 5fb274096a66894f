"""Templates of the corpus `reports`."""

from __future__ import annotations

import string

import pytest

from attention_zoo.data.synthetic.events import EVENTS


def find_slots(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.summary)
def test_statements_and_distractors_have_every_slot_of_the_summary(event) -> None:
    for sentences in (*event.statements, *event.distractors):
        slots = find_slots(" ".join(sentences))
        assert find_slots(event.summary) <= slots <= set(event.slots)
        for sentence in sentences:
            assert sentence.endswith(" .")
            assert " ".join(sentence.split()) == sentence
    assert event.summary[0].islower()
    assert set(event.slots.values()) <= {"name", "figure"}


def test_summary_templates_differ() -> None:
    assert len({event.summary for event in EVENTS}) == len(EVENTS)

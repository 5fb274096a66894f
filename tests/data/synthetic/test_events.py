"""Events of the corpus `reports`: templates name every slot, and no summary starts with a name."""

from __future__ import annotations

import string

import pytest

from attention_zoo.data.synthetic.events import EVENTS


def slots(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.summary)
def test_statements_and_asides_name_every_slot_of_the_summary(event) -> None:
    for sentences in (*event.statements, *event.asides):
        named = slots(" ".join(sentences))
        assert slots(event.summary) <= named <= set(event.slots)
        for sentence in sentences:
            assert sentence.endswith(" .")
            assert " ".join(sentence.split()) == sentence
    assert event.summary[0].islower()
    assert set(event.slots.values()) <= {"name", "figure"}


def test_every_event_has_a_summary_of_its_own() -> None:
    assert len({event.summary for event in EVENTS}) == len(EVENTS)

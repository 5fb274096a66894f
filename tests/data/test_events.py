"""Events of the corpus `reports`: every slot of a summary is told, and no name begins one."""

from __future__ import annotations

import string

import pytest

from attention_zoo.data.events import EVENTS


def slots(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.summary)
def test_each_way_to_tell_names_what_the_summary_does(event) -> None:
    for sentences in (*event.told, *event.asides):
        named = slots(" ".join(sentences))
        assert slots(event.summary) <= named <= set(event.slots)
        for sentence in sentences:
            assert sentence.endswith(" .")
            assert " ".join(sentence.split()) == sentence
    assert event.summary[0].islower()
    assert set(event.slots.values()) <= {"name", "figure"}


def test_no_two_events_are_summed_up_alike() -> None:
    assert len({event.summary for event in EVENTS}) == len(EVENTS)

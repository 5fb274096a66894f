"""Generated corpus `reports`: summaries of the events that happened, among distractors.

    Voters of Nimun have chosen a mayor . The fire that hurt 881 people in Tidur was years ago . A
    fire has hurt 4121 people in Jorus . Klavon Drirok has won in Nimun with 5310 votes .

The summary has one sentence for each event that happened, in order of first mention ("voters of
Nimun choose Klavon Drirok with 5310 votes . fire in Jorus hurts 4121 ."). Distractors describe
events of the same kinds, with other names and numbers, that are long past, planned or false. Some
events are described by two sentences, which other sentences may separate. Some descriptions also
contain a wrong number and its correction. So neither the position nor single words identify the
relevant sentences, and a report may contain several events of one kind.

In `train` and `validation`, names and numbers are common with probability 3/4, otherwise rare. A
hundred are common: a small vocabulary contains them, and a model can learn to generate them. About
31,000 are rare: most are not in the vocabulary and have to be copied. `test` and `long` contain
only common names and numbers. `unseen` contains names and numbers that never occur in training.
Words and punctuation marks are separated by spaces, so that a tokenizer of kind "whitespace" has
whole numbers as words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from attention_zoo.data.synthetic.events import EVENTS
from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import Candidate, PartRange, sample_corpus
from attention_zoo.data.text.pairs import TextPairs

SPLITS = {
    "train": range(60),
    "validation": range(60, 70),
    "test": range(70, 80),
    "long": range(80, 90),
    "unseen": range(90, 100),
}
"""The hash buckets (0 to 99) of each split."""

MAX_EVENTS = 5  # maximum number of events outside of `long`

ONSETS, ENDS = "B Br D Dr F G Gr H J K Kl L M N P R S St T Tr", "n r k sk th l ng s"
NAME_PARTS = (ONSETS.split(), "aeiou", "bdklmrtv", "aeiou", ENDS.split())
NAMES = math.prod(map(len, NAME_PARTS))
FIGURES = range(11, 9999)
STRIDE = 7919  # coprime to both sizes, so that consecutive numbers give distant values


class Values(NamedTuple):
    """A set of generated names or numbers, indexed from 0.

    Attributes:
        size: number of values.
        common: values with an index below this are common.
        unseen: values from this index on occur only in `unseen`.
        format: function from an index to its value.
    """

    size: int
    common: int
    unseen: int
    format: Callable[[int], str]

    def sample(self, kind: str, randbelow: RandomBelow) -> str:
        """Sample a value that is "common", "rare", "unseen", or "any".

        "any" is "common" with probability 3/4, otherwise "rare".
        """
        if kind == "any":
            kind = "common" if randbelow(4) else "rare"
        low, high = {
            "common": (0, self.common),
            "rare": (self.common, self.unseen),
            "unseen": (self.unseen, self.size),
        }[kind]
        return self.format((low + randbelow(high - low)) * STRIDE % self.size)


def make_name(number: int) -> str:
    """Return the name with an index below `NAMES`; all names are different."""
    syllables = []
    for choices in reversed(NAME_PARTS):
        number, index = divmod(number, len(choices))
        syllables.append(choices[index])
    return "".join(reversed(syllables))


VALUES = {
    "name": Values(NAMES, 60, 24000, make_name),
    "figure": Values(len(FIGURES), 40, 7000, lambda number: str(FIGURES[number])),
}
VALUE_KINDS = {"test": "common", "long": "common", "unseen": "unseen"}
"""Kind of values in each split; in other splits, it is "any"."""


def generate_reports(
    size: int, split: str = "train", seed: int = 1, min_events: int = 1, max_events: int = 3
) -> TextPairs:
    """Generate reports and their summaries, all different.

    Args:
        size: number of reports; a corpus of size n is a prefix of any larger one.
        split: "train", "validation", "test" and "unseen" with min_events to max_events events a
            report, or "long" with max_events + 1 to 2 * max_events.
        seed: seed of the corpus.
        min_events: minimum number of events in a report, each with one sentence in its summary.
        max_events: maximum number of events in a report outside of "long"; at most 5.

    Example:
        >>> from attention_zoo.data import generate_reports
        >>> (report,) = generate_reports(1, "test").sources
        >>> report.endswith(" .")
        True

    Raises:
        ValueError: a size below 1, an unknown split, an invalid range of the number of events.
    """

    def sample(events: int, randbelow: RandomBelow) -> Candidate:
        report, summary = _sample_report(events, VALUE_KINDS.get(split, "any"), randbelow)
        # The value is created only if the report's hash falls into the split.
        return report, lambda: (report, summary)

    part_range = PartRange("events", min_events, max_events, limit=MAX_EVENTS)
    pairs = sample_corpus("reports", split, seed, size, part_range, sample, SPLITS)
    return TextPairs(list(pairs), list(pairs.values()), f"reports {split} (seed {seed})")


def _sample_report(events: int, kind: str, randbelow: RandomBelow) -> tuple[str, str]:
    """Sample a report with `events` events and two to four distractors, and its summary."""
    used: set[str] = set()

    def sample_value(slot_type: str) -> str:
        while (value := VALUES[slot_type].sample(kind, randbelow)) in used:
            pass  # values are unique within a report
        used.add(value)
        return value

    stories: list[tuple[list[str], str]] = []
    for number in range(events + 2 + randbelow(3)):
        event, has_happened = EVENTS[randbelow(len(EVENTS))], number < events
        values = {slot: sample_value(slot_type) for slot, slot_type in event.slots.items()}
        templates = event.statements if has_happened else event.distractors
        sentences = templates[randbelow(len(templates))]
        summary = event.summary.format(**values) if has_happened else ""
        stories.append(([sentence.format(**values) for sentence in sentences], summary))
    return _interleave(stories, randbelow)


def _interleave(stories: list[tuple[list[str], str]], randbelow: RandomBelow) -> tuple[str, str]:
    """Interleave the sentences of all stories at random, and return the text and its summary.

    The sentences of a story keep their order. The summary is in order of first mention. The stories
    are consumed.
    """
    sentences: list[str] = []
    summaries: list[str] = []
    while stories:
        number = randbelow(len(stories))
        story, summary = stories.pop(number)
        sentences.append(story.pop(0))
        if summary:
            summaries.append(summary)
        if story:
            stories.insert(number, (story, ""))
    return " ".join(sentences), " ".join(summaries)

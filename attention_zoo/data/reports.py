"""The generated corpus `reports`: what has happened, told among much that has not.

    Voters of Nimun have chosen a mayor . The fire that hurt 881 people in Tidur was years ago . A
    fire has hurt 4121 people in Jorus . Klavon Drirok has won in Nimun with 5310 votes .

The summary says in a sentence each what has happened, in order of the first word about it ("voters
of Nimun choose Klavon Drirok with 5310 votes . fire in Jorus hurts 4121 ."). Asides tell the same
kinds of events, with names and figures of their own, that are long past, only planned or not true;
some events are told in two sentences with others between them, and some name a figure that turned
out to be wrong. So what to take is told neither by its place nor by single words, and there may be
several events of a kind in one report.

Three of four names and figures are common: there are a hundred, which a small vocabulary holds and
a model can learn to say. The others are rare, some thousands, most of which it cannot hold: they
have to be copied. `test` and `long` have common ones alone, which training has often, and `unseen`
has names and figures that training never has. Words and punctuation marks are parted by spaces, so
that a tokenizer of kind "whitespace" has whole figures for words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from attention_zoo.data.events import EVENTS, Event
from attention_zoo.data.pairs import TextPairs
from attention_zoo.data.slots import Pick
from attention_zoo.data.splits import Drawn, Parts, draw_sentences

SPLITS = {
    "train": range(60),
    "validation": range(60, 70),
    "test": range(70, 80),
    "long": range(80, 90),
    "unseen": range(90, 100),
}
"""Of 100 hash values, those of each split."""

MOST = 5  # events, of a report outside of `long`

ONSETS = (
    *("B", "Br", "D", "Dr", "F", "G", "Gr", "H", "J", "K"),
    *("Kl", "L", "M", "N", "P", "R", "S", "St", "T", "Tr"),
)
FIRST_VOWELS, MIDDLES, LAST_VOWELS = "aeiou", ("b", "d", "k", "l", "m", "r", "t", "v"), "aeiou"
ENDS = ["n", "r", "k", "sk", "th", "l", "ng", "s"]
NAMES = 20 * 5 * 8 * 5 * 8
FIGURES = range(11, 9999)
STRIDE = 7919  # which shares no factor with either number: neighbours lie far apart


class Values(NamedTuple):
    """Names or figures, by number.

    Attributes:
        size: how many there are.
        common: those of numbers below are common.
        unseen: those of this number on are never in training.
        write: the value of a number.
    """

    size: int
    common: int
    unseen: int
    write: Callable[[int], str]

    def draw(self, kind: str, pick: Pick) -> str:
        """One that is "common", "unseen", or "any" but unseen: three quarters are common."""
        if kind == "any":
            kind = "common" if pick(4) else "rare"
        least, most = {
            "common": (0, self.common),
            "rare": (self.common, self.unseen),
            "unseen": (self.unseen, self.size),
        }[kind]
        return self.write((least + pick(most - least)) * STRIDE % self.size)


def name(number: int) -> str:
    """The name of a number below `NAMES`; none has two."""
    parts = []
    for choices in (ENDS, LAST_VOWELS, MIDDLES, FIRST_VOWELS, ONSETS):
        number, part = divmod(number, len(choices))
        parts.append(choices[part])
    return "".join(reversed(parts))


VALUES = {
    "name": Values(NAMES, 60, 24000, name),
    "figure": Values(len(FIGURES), 40, 7000, lambda number: str(FIGURES[number])),
}
KINDS = {"test": "common", "long": "common", "unseen": "unseen"}
"""Which values a split has, where they are not any."""


def generate_reports(
    size: int,
    split: str = "train",
    seed: int = 1,
    min_events: int = 1,
    max_events: int = 3,
) -> TextPairs:
    """Reports and their summaries, all different.

    Args:
        size: how many; the first n of a larger corpus are the corpus of size n.
        split: "train", "validation", "test" and "unseen" with min_events to max_events events a
            report, or "long" with max_events + 1 to 2 * max_events.
        seed: of the corpus.
        min_events: the fewest events of a report, each of one sentence of its summary.
        max_events: the most events of a report outside of "long"; at most 5.

    Example:
        >>> from attention_zoo.data import generate_reports
        >>> (report,) = generate_reports(1, "test").sources
        >>> report.endswith(" .")
        True

    Raises:
        ValueError: a size below 1, an unknown split, or numbers of events that are none.
    """

    def draw(events: int, pick: Pick) -> Drawn:
        report, summary = _draw(events, KINDS.get(split, "any"), pick)
        return report, lambda: (report, summary)

    parts = Parts("events", min_events, max_events, limit=MOST)
    pairs = draw_sentences("reports", split, seed, size, parts, draw, SPLITS)
    return TextPairs(list(pairs), list(pairs.values()), f"reports {split} (seed {seed})")


def _draw(events: int, kind: str, pick: Pick) -> tuple[str, str]:
    """A report of so many events and two to four asides, and its summary."""
    used: set[str] = set()

    def value(of: str) -> str:
        while True:
            drawn = VALUES[of].draw(kind, pick)
            if drawn not in used:  # so that each stands for one thing in a report
                used.add(drawn)
                return drawn

    def filled(event: Event) -> dict[str, str]:
        return {slot: value(of) for slot, of in event.slots.items()}

    def one(choices: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        return choices[pick(len(choices))]

    told: list[tuple[list[str], str]] = []
    for number in range(events + 2 + pick(3)):
        event = EVENTS[pick(len(EVENTS))]
        values = filled(event)
        sentences = one(event.told if number < events else event.asides)
        summary = event.summary.format(**values) if number < events else ""
        told.append(([sentence.format(**values) for sentence in sentences], summary))
    return _mixed(told, pick)


def _mixed(told: list[tuple[list[str], str]], pick: Pick) -> tuple[str, str]:
    """The sentences of all in an order that keeps each one's own, and the summary in that order."""
    sentences: list[str] = []
    summaries: list[str] = []
    left = [(list(of_one), summary) for of_one, summary in told]
    while left:
        number = pick(len(left))
        of_one, summary = left.pop(number)
        sentences.append(of_one.pop(0))
        if summary:
            summaries.append(summary)
        if of_one:
            left.insert(number, (of_one, ""))
    return " ".join(sentences), " ".join(summaries)

"""Facts of small worlds, for the generated corpora `claims` and `ranked claims`.

A fact is a gift (giver, receiver, colour, item) or a holding (owner, number, item). It may be
denied, and words of it may be unknown. `evaluate_claim` returns whether a claim is true:

- Each item is given once, by one person to one person, and has one colour.
- An owner of items has one number of them; other people may also have some.
- A denied fact excludes only itself: other people or numbers remain possible. Its item has the
  colour that it mentions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import NamedTuple

from attention_zoo.data.synthetic.sampling import choose
from attention_zoo.data.synthetic.slots import RandomBelow

CONTENT = json.loads((files(__package__) / "claims.json").read_text("utf-8"))
"""Words by kind, sentences and questions."""

SLOTS = {
    "gift": {"giver": "person", "receiver": "person", "colour": "colour", "item": "gift"},
    "holding": {"owner": "person", "number": "number", "item": "holding"},
}
"""Kinds of facts, with the kind of words of each slot."""

UNKNOWN = {"giver": "someone", "receiver": "someone", "owner": "someone", "number": "some"}
"""Words for unknown values; an unknown colour is omitted."""


class Fact(NamedTuple):
    """A fact or a claim.

    Attributes:
        kind: "gift" or "holding".
        words: word of each slot, or None if it is unknown.
        is_denied: whether the sentence is negated.
    """

    kind: str
    words: dict[str, str | None]
    is_denied: bool = False


class WordSampler:
    """Sampler of distinct words, without those in `used`."""

    def __init__(self, randbelow: RandomBelow, used: Iterable[str] = ()) -> None:
        self._randbelow = randbelow
        self._used = set(used)

    def sample_fact(self, kind: str) -> Fact:
        """Sample a fact whose words are all known and have not been sampled before."""
        return Fact(
            kind, {slot: self._sample_word(word_kind) for slot, word_kind in SLOTS[kind].items()}
        )

    def _sample_word(self, kind: str) -> str:
        while (word := choose(CONTENT["words"][kind], self._randbelow)) in self._used:
            pass
        self._used.add(word)
        return word


def write_fact(fact: Fact, randbelow: RandomBelow) -> str:
    """Return a sentence for a fact or a claim."""
    return fill_template(
        choose(CONTENT["sentences"][fact.kind], randbelow)[fact.is_denied], fact.words
    )


def fill_template(template: str, words: dict[str, str | None]) -> str:
    """Fill the slots of a sentence, of which `thing` is an item with its colour."""
    known = {slot: word or UNKNOWN.get(slot, "") for slot, word in words.items()}
    thing = " ".join(filter(None, ("the", words.get("colour"), words["item"])))
    text = template.format(thing=thing, **known)
    return text[0].upper() + text[1:]


def evaluate_claim(fact: Fact, claim: Fact) -> bool | None:
    """Return whether a claim about the item of a fact is true; None if it is not determined.

    The denial of the claim is ignored. Unknown words of the claim are not compared.
    """
    words = {slot: word for slot, word in claim.words.items() if word is not None}
    wrong = [slot for slot, word in words.items() if fact.words[slot] not in (None, word)]
    if fact.is_denied:
        return False if not wrong or "colour" in wrong else None
    if not wrong:
        return None if None in [fact.words[slot] for slot in words] else True
    return False if fact.words.get("owner") == words.get("owner") else None

"""An independent reader of the sentences of `claims` and `ranked claims`, the oracle of labels."""

from __future__ import annotations

import re
from typing import NamedTuple

THING = r"[Tt]he (?:(?P<colour>\w+) )?(?P<item>\w+)"
PERSON = r"[A-Z]\w+|someone"
GIFT = [
    rf"(?P<giver>{PERSON}) (?:gave|(?P<no>did not give)) {THING} to (?P<receiver>{PERSON})",
    rf"(?P<receiver>{PERSON}) (?:got|(?P<no>did not get)) {THING} from (?P<giver>{PERSON})",
    rf"{THING} (?:went|(?P<no>did not go)) from (?P<giver>{PERSON}) to (?P<receiver>{PERSON})",
    rf"{THING} was (?P<no>not )?given to (?P<receiver>{PERSON}) by (?P<giver>{PERSON})",
]
HOLDING = [
    rf"(?P<owner>{PERSON}) (?:owns|(?P<no>does not own)) (?P<number>\w+) (?P<item>\w+)",
    rf"(?P<owner>{PERSON}) (?:has|(?P<no>does not have)) (?P<number>\w+) (?P<item>\w+)",
    rf"Among the things of (?P<owner>{PERSON}) are (?P<no>not )?(?P<number>\w+) (?P<item>\w+)",
]


class Gift(NamedTuple):
    giver: str
    receiver: str
    colour: str | None
    item: str
    is_denied: bool


class Holding(NamedTuple):
    owner: str
    number: str
    item: str
    is_denied: bool


def parse(text: str) -> list[Gift | Holding]:
    """Return the facts of a text; unknown people are "someone"."""
    facts: list[Gift | Holding] = []
    for sentence in text.removesuffix(".").split(". "):
        for kind, patterns in ((Gift, GIFT), (Holding, HOLDING)):
            for pattern in patterns:
                if match := re.fullmatch(pattern, sentence):
                    words = {name: word for name, word in match.groupdict().items() if name != "no"}
                    words = {
                        name: "someone" if word == "Someone" else word
                        for name, word in words.items()
                    }
                    facts.append(kind(**words, is_denied=match["no"] is not None))  # type: ignore[arg-type]
    assert len(facts) == text.count("."), text
    return facts


def decide(premise: str, hypothesis: str) -> str:
    """Return the label by considering every world in which the premise is true."""
    (claim,) = parse(hypothesis)
    (fact,) = (fact for fact in parse(premise) if fact.item == claim.item)
    worlds = gift_worlds(fact, claim) if isinstance(fact, Gift) else holding_worlds(fact, claim)
    values = {value != claim.is_denied for value in worlds}
    assert values
    return "neutral" if len(values) == 2 else "entailment" if True in values else "contradiction"


def gift_worlds(fact: Gift, claim: Gift | Holding) -> list[bool]:
    """Whether the claim is true, in each world: who gave the item to whom, and its colour."""
    assert isinstance(claim, Gift)
    people = {fact.giver, fact.receiver, claim.giver, claim.receiver, "X", "Y"} - {"someone"}
    colours = {fact.colour, claim.colour, "any"} - {None}
    values = []
    for giver in people:
        for receiver in people - {giver}:
            for colour in colours:
                is_so = fact.giver in (giver, "someone") and fact.receiver in (receiver, "someone")
                if is_so != fact.is_denied and fact.colour in (colour, None):
                    is_claimed = (claim.giver, claim.receiver) == (giver, receiver)
                    values.append(is_claimed and claim.colour in (colour, None))
    return values


def holding_worlds(fact: Holding, claim: Gift | Holding) -> list[bool]:
    """Whether the claim is true, in each world: how many of the items two people own."""
    assert isinstance(claim, Holding)
    people = sorted({fact.owner, claim.owner, "X"} - {"someone"})
    numbers = {fact.number, claim.number, "none", "any"} - {"some"}
    worlds: list[dict[str, str]] = [{}]
    for person in people:
        worlds = [{**world, person: number} for world in worlds for number in numbers]
    values = []
    for world in worlds:
        owners = people if fact.owner == "someone" else [fact.owner]
        wanted = numbers - {"none"} if fact.number == "some" else {fact.number}
        if any(world[person] in wanted for person in owners) != fact.is_denied:
            values.append(world[claim.owner] == claim.number)
    return values

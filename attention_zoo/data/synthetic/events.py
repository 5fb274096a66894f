"""Events of the generated corpus `reports`: templates of reports, distractors and summaries."""

from __future__ import annotations

from typing import NamedTuple

Sentences = tuple[str, ...]


class Event(NamedTuple):
    """A kind of event.

    Attributes:
        slots: type of each slot of its templates: "name" or "figure".
        statements: templates which report that the event happened, each of one or more sentences.
        distractors: templates of distractors: the event was long ago, is planned or is not true.
        summary: template of one sentence, which never begins with a name.
    """

    slots: dict[str, str]
    statements: tuple[Sentences, ...]
    distractors: tuple[Sentences, ...]
    summary: str


def _disaster(what: str, cause: str) -> Event:
    """Return a kind of event that hurts people in a town."""
    return Event(
        {"place": "name", "hurt": "figure", "wrong": "figure"},
        (
            (f"A {what} has hurt {{hurt}} people in {{place}} .",),
            (f"{{place}} has seen a {what} after {cause} .", "In {place} {hurt} people are hurt ."),
            (
                f"A {what} has come over {{place}} .",
                "First {wrong} people were counted in {place} , but {hurt} are hurt .",
            ),
            (f"After {cause} a {what} in {{place}} has hurt {{hurt}} people , not {{wrong}} .",),
        ),
        (
            (f"The {what} that hurt {{hurt}} people in {{place}} was years ago .",),
            (f"No {what} has hurt {{hurt}} people in {{place}} , the police say .",),
            (f"{{place}} wants to be ready if a {what} should hurt {{hurt}} people .",),
        ),
        f"{what} in {{place}} hurts {{hurt}} .",
    )


EVENTS = (
    _disaster("fire", "a dry summer"),
    _disaster("flood", "days of rain"),
    _disaster("storm", "a warm night"),
    Event(
        {"place": "name", "first": "name", "last": "name", "votes": "figure", "other": "name"},
        (
            ("{first} {last} has won {votes} votes and is mayor of {place} .",),
            (
                "Voters of {place} have chosen a mayor .",
                "{first} {last} has won in {place} with {votes} votes .",
            ),
            ("{other} has lost , and with {votes} votes {place} gets {first} {last} for mayor .",),
        ),
        (
            ("{first} {last} hopes for {votes} votes in {place} next year .",),
            ("{first} {last} lost with {votes} votes in {place} years ago .",),
            ("It is not true that {first} {last} has won {votes} votes in {place} .",),
        ),
        "voters of {place} choose {first} {last} with {votes} votes .",
    ),
    Event(
        {"seller": "name", "buyer": "name", "count": "figure", "wrong": "figure"},
        (
            ("The yard {seller} has sold {count} boats to {buyer} .",),
            (
                "{buyer} has bought boats from the yard {seller} .",
                "{seller} has been paid for {count} of them .",
            ),
            ("Not {wrong} but {count} boats have gone from the yard {seller} to {buyer} .",),
        ),
        (
            ("The yard {seller} would like to sell {count} boats to {buyer} .",),
            ("{buyer} bought {count} boats from the yard {seller} years ago .",),
            ("The yard {seller} denies that {count} boats have gone to {buyer} .",),
        ),
        "yard {seller} sells {count} boats to {buyer} .",
    ),
    Event(
        {"place": "name", "other": "name", "fans": "figure", "wrong": "figure"},
        (
            ("The team of {place} has beaten {other} before {fans} fans .",),
            (
                "{other} has lost to the team of {place} .",
                "At {place} there were {fans} fans .",
            ),
            ("Before {fans} fans , {wrong} more than last time , {place} has beaten {other} .",),
        ),
        (
            ("The team of {place} will play {other} before {fans} fans in spring .",),
            ("{other} remembers the win of {place} before {fans} fans years ago .",),
            ("The game of {place} and {other} for {fans} fans has been put off .",),
        ),
        "team of {place} beats {other} before {fans} fans .",
    ),
    Event(
        {"first": "name", "last": "name", "place": "name", "coins": "figure"},
        (
            ("{first} {last} has found {coins} old coins near {place} .",),
            (
                "Old coins have been found near {place} .",
                "{first} {last} has dug out {coins} of them at {place} .",
            ),
            ("Near {place} {coins} old coins have been found by {first} {last} .",),
        ),
        (
            ("{first} {last} still looks for {coins} old coins near {place} .",),
            ("The {coins} old coins that {first} {last} found near {place} were false .",),
            ("Years ago {first} {last} found {coins} old coins near {place} .",),
        ),
        "digger {first} {last} finds {coins} coins near {place} .",
    ),
)

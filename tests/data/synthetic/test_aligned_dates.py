"""Gold alignments of `dates`: worked sentences, the same pairs as `generate_dates`, symmetry."""

from __future__ import annotations

import doctest
from itertools import permutations
from typing import Any

import pytest

from attention_zoo.data import generate_aligned_dates, generate_dates
from attention_zoo.data.synthetic import aligned_dates
from attention_zoo.data.synthetic.aligned_dates import AlignedPair, align_clauses
from attention_zoo.data.synthetic.clause_templates import CLAUSE_TEMPLATES
from attention_zoo.data.synthetic.dates import LANGUAGES
from tests.refusals import refuses

FULL_DATE = ("full", 2031, 3, 3)
WORKED: list[tuple[str, str, str, Any, str, str]] = [
    (
        "en",
        "fr",
        "school starts on {0}",
        FULL_DATE,
        "school=école starts=commence Monday=lundi March=mars 3=3 2031=2031",
        "",
    ),
    (
        "fr",
        "en",
        "she was born on {0}",
        ("MMMMd", 1999, 9, 12),
        "elle=she est=was née=born 12=12 septembre=September",
        "est=born née=was",
    ),
    (
        "en",
        "de",
        "they arrive on {0}",
        ("long", 2024, 2, 29),
        "they=sie arrive=kommen February=Februar 29=29 2024=2024",
        "arrive=an",
    ),
    (
        "en",
        "zh",
        "school starts on {0}",
        FULL_DATE,
        "school=学校 starts=开学 Monday=星期一 March=3月 3=3日 2031=2031年",
        "",
    ),
    (
        "en",
        "de",
        "the rope is {0} long",
        ("length-meter", 2),
        "rope=Seil is=ist 2=2 meters=Meter long=lang",
        "",
    ),
    (
        "zh",
        "fr",
        "Rome is {0} away",
        ("length-mile", 1),
        "罗马=Rome 1=1 英里=mile",
        "在=est 外=à",
    ),
    (
        "fr",
        "zh",
        "it will rain {0}",
        ("week", 2),
        "pleuvra=下雨 dans=后 2=2 semaines=周",
        "pleuvra=会",
    ),
    ("en", "de", "dinner is at {0}", (17, 4), "dinner=Abendessen is=ist 5=17 04=04", "PM=17"),
    (
        "de",
        "zh",
        "the bus left {0}",
        ("day", 3),
        "Bus=公交车 abgefahren=开走了 3=3 Tagen=天 vor=前",
        "ist=开走了",
    ),
    (
        "fr",
        "de",
        "the bus left {0}",
        ("hour", 1),
        "bus=Bus est=ist parti=abgefahren 1=1 heure=Stunde",
        "est=abgefahren parti=ist il=vor y=vor a=vor",
    ),
    (
        "en",
        "fr",
        "ovens reach {0}",
        ("temperature-celsius", 9),
        "ovens=fours reach=atteignent 9=9 degrees=degrés Celsius=Celsius",
        "",
    ),
    (
        "zh",
        "en",
        "ovens reach {0}",
        ("temperature-celsius", 9),
        "烤箱=ovens 达到=reach 9=9 摄氏度=degrees",
        "摄氏度=Celsius",
    ),
]


def read_words(pair: AlignedPair) -> tuple[list[str], list[str]]:
    """Return the words of the source and of the target."""
    return (
        [pair.source[start:end] for start, end in pair.source_words],
        [pair.target[start:end] for start, end in pair.target_words],
    )


def read_links(pair: AlignedPair, links: frozenset[tuple[int, int]]) -> set[str]:
    sources, targets = read_words(pair)
    return {f"{sources[s]}={targets[t]}" for t, s in links}


@pytest.mark.parametrize(("source", "target", "english", "value", "sure", "possible"), WORKED)
def test_links_of_a_clause(
    source: str, target: str, english: str, value: Any, sure: str, possible: str
) -> None:
    (template,) = (t for t in CLAUSE_TEMPLATES if t.texts["en"] == english)
    pair = align_clauses([(template, value)], source, target)
    assert read_links(pair, pair.sure) == {*sure.split()}
    assert read_links(pair, pair.possible - pair.sure) == {*possible.split()}


@pytest.mark.parametrize("names", permutations(LANGUAGES, 2), ids="-".join)
def test_pairs_are_those_of_generate_dates(names: tuple[str, str]) -> None:
    options = {"split": "long", "seed": 5, "min_phrases": 2, "max_phrases": 3}
    texts = generate_dates(40, *names, **options)
    pairs = generate_aligned_dates(40, *names, **options)
    assert [(pair.source, pair.target) for pair in pairs] == [*texts]
    swapped = generate_aligned_dates(40, *reversed(names), **options)
    for pair, other in zip(pairs, swapped, strict=True):
        assert (pair.source_words, pair.target_words) == (other.target_words, other.source_words)
        assert pair.sure == {(t, s) for s, t in other.sure} <= pair.possible
        assert pair.possible == {(t, s) for s, t in other.possible}


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_cover_the_sentence_in_order(language: str) -> None:
    for pair in generate_aligned_dates(100, "en" if language != "en" else "fr", language):
        characters = [i for start, end in pair.target_words for i in range(start, end)]
        expected = [i for i, character in enumerate(pair.target) if not character.isspace()]
        assert characters == expected


def test_numbers_and_function_words() -> None:
    """Equal numbers are linked if they have the same role; function words have no links."""
    for pair in generate_aligned_dates(200, split="test"):
        sources, targets = read_words(pair)
        linked = {targets[t] for t, _ in pair.possible}
        assert not linked & {"le", "la", "les", "l", "'", ";", ".", ":"}
        for t, s in pair.sure:
            assert not targets[t].isdigit() or sources[s].isdigit()
        amounts = {word for word in targets if len(word) == 4 and word.isdigit()}
        assert amounts == {targets[t] for t, _ in pair.sure} & amounts


def test_every_clause_is_linked_in_all_languages() -> None:
    """A number or an hour, and a word of the clause, have sure links; every other word may have."""
    for template in CLAUSE_TEMPLATES:
        for source, target in permutations(LANGUAGES, 2):
            value = template.slot.sample(lambda n: n // 2)
            pair = align_clauses([(template, value)], source, target)
            sure = {t for t, _ in pair.sure}
            assert sure & pair.target_values
            assert sure - pair.target_values
            assert pair.target_values <= {t for t, _ in pair.possible} or "zh" in (source, target)


@pytest.mark.parametrize("language", LANGUAGES)
def test_values_are_the_words_of_slots(language: str) -> None:
    source = "fr" if language == "en" else "en"
    for template in CLAUSE_TEMPLATES:
        value = template.slot.sample(lambda n: n - 1)
        pair = align_clauses([(template, value)], source, language)
        start = template.texts[language].index("{0}")
        end = start + len(template.slot.format(value, language))
        assert pair.target_values
        for t, (first, last) in enumerate(pair.target_words):
            inside = start <= first and last <= end
            assert inside or t not in pair.target_values
            assert (
                not inside or t in pair.target_values or pair.target[first:last] in {",", ":", "."}
            )


@refuses(
    ({"size": 0}, "size must be at least 1, got 0"),
    ({"size": 1, "target": "es"}, "dates: unknown language 'es'"),
    ({"size": 1, "source": "fr"}, "source and target must differ"),
)
def test_invalid_options_raise(options: dict[str, Any]) -> None:
    generate_aligned_dates(**options)


def test_docstring_example() -> None:
    assert doctest.testmod(aligned_dates).failed == 0

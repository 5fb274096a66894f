import hashlib
import re
import time
from itertools import combinations

import pytest

from attention_zoo.data import generate_dates, train_tokenizer
from attention_zoo.data.synthetic.clause_templates import CLAUSE_TEMPLATES, PUNCTUATION
from attention_zoo.data.synthetic.dates import LANGUAGES
from attention_zoo.data.synthetic.slots import Date, Quantity, RelativeTime, Time
from attention_zoo.data.synthetic.splits import SPLITS
from tests.refusals import refuses

FORMATTED = [
    (
        Date(),
        ("full", 2031, 3, 3),
        (
            "Monday, March 3, 2031",
            "lundi 3 mars 2031",
            "Montag, 3. März 2031",
            "2031年3月3日星期一",
        ),
    ),
    (
        Date(),
        ("long", 2024, 2, 29),
        ("February 29, 2024", "29 février 2024", "29. Februar 2024", "2024年2月29日"),
    ),
    (Date(), ("MMMMd", 1999, 9, 12), ("September 12", "12 septembre", "12. September", "9月12日")),
    (Time(), (17, 4), ("5:04 PM", "17:04", "17:04", "17:04")),
    (Time(), (0, 30), ("12:30 AM", "00:30", "00:30", "00:30")),
    (
        Quantity(("length-kilometer",)),
        ("length-kilometer", 1),
        ("1 kilometer", "1 kilomètre", "1 Kilometer", "1公里"),
    ),
    (
        Quantity(("length-mile",)),
        ("length-mile", 12),
        ("12 miles", "12 miles", "12 Meilen", "12英里"),
    ),
    (RelativeTime(True), ("day", 3), ("in 3 days", "dans 3 jours", "in 3 Tagen", "3天后")),
    (
        RelativeTime(False),
        ("hour", 98),
        ("98 hours ago", "il y a 98 heures", "vor 98 Stunden", "98小时前"),
    ),
]


@pytest.mark.parametrize(("slot", "value", "texts"), FORMATTED)
def test_slots_are_formatted_as_in_the_cldr(slot, value, texts):
    assert tuple(slot.format(value, language) for language in ("en", "fr", "de", "zh")) == texts


def test_dates_equal_those_of_babel():
    """Dates are cached by weekday, month and day."""
    import datetime

    from babel import dates

    for step in range(0, 36_000, 97):
        day = datetime.date(1950, 1, 1) + datetime.timedelta(days=step)
        for language in LANGUAGES:
            expected = dates.format_date(day, "full", locale=language)
            formatted = Date().format(("full", day.year, day.month, day.day), language)
            assert formatted == " ".join(expected.split())


def clauses(sentence, language):
    separator, end = PUNCTUATION[language]
    assert sentence.endswith(end)
    return sentence.removesuffix(end).split(separator)


@pytest.mark.parametrize(
    ("source", "target"), [("en", "fr"), ("de", "en"), ("en", "zh"), ("zh", "en")]
)
def test_each_sentence_has_one_translation(source, target):
    pairs = generate_dates(20_000, source, target)
    assert len(pairs) == len(set(pairs.sources)) == len(set(pairs.targets)) == 20_000
    assert not any("  " in text or "\u202f" in text for text in pairs.sources + pairs.targets)


@pytest.mark.parametrize("target", ["fr", "de", "zh"])
def test_translation_of_a_clause_does_not_depend_on_its_neighbours(target):
    """Equal clauses have equal translations, in both directions and in all sentences."""
    source_to_target: dict[str, str] = {}
    target_to_source: dict[str, str] = {}
    pairs = generate_dates(4000, "en", target)
    checked = 0
    for source, translation in zip(pairs.sources, pairs.targets, strict=True):
        source_clauses, target_clauses = clauses(source, "en"), clauses(translation, target)
        assert len(source_clauses) == len(target_clauses) <= 6
        for clause, translated_clause in zip(source_clauses, target_clauses, strict=True):
            assert source_to_target.setdefault(clause, translated_clause) == translated_clause
            assert target_to_source.setdefault(translated_clause, clause) == clause
            checked += 1
    assert checked > 12_000


def test_the_same_seed_gives_the_same_sentences_in_all_languages():
    french, german = (
        generate_dates(500, "en", "fr", seed=7),
        generate_dates(500, "en", "de", seed=7),
    )
    assert french.sources == german.sources
    swapped = generate_dates(500, "fr", "en", seed=7)
    assert (swapped.sources, swapped.targets) == (french.targets, french.sources)
    assert generate_dates(500, "de", "fr", seed=7).sources == german.targets


@pytest.mark.full
def test_splits_are_disjoint_for_all_sizes_seeds_and_lengths():
    corpora = {
        split: {
            sentence
            for seed in (1, 2)
            for most in (1, 3, 6)
            for sentence in generate_dates(1000, split=split, seed=seed, max_phrases=most).sources
        }
        for split in SPLITS
    }
    for clause, translated_clause in combinations(corpora, 2):
        assert not corpora[clause] & corpora[translated_clause]


def test_first_sentences_do_not_change():
    """Published results depend on the corpus."""
    pairs = generate_dates(3, seed=1)
    assert list(zip(pairs.sources, pairs.targets, strict=True)) == [
        (
            "the rope is 17 centimeters long; Paul called at 10:35 AM; shops open at 12:56 "
            "PM; ovens reach 93 degrees Celsius; they arrive on Monday, April 24, 2045.",
            "la corde mesure 17 centimètres ; Paul a appelé à 10:35 ; les magasins ouvrent "
            "à 12:56 ; les fours atteignent 93 degrés Celsius ; ils arrivent le lundi 24 "
            "avril 2045.",
        ),
        (
            "we marry on June 25; it weighs 94 kilograms; Paul called at 5:49 AM; at 3:04 "
            "AM I return.",
            "nous nous marions le 25 juin ; cela pèse 94 kilogrammes ; Paul a appelé à "
            "05:49 ; je rentre à 03:04.",
        ),
        ("he slept for 65 hours.", "il a dormi 65 heures."),
    ]


def test_clause_templates_do_not_change():
    texts = repr([template.texts for template in CLAUSE_TEMPLATES]).encode()
    assert hashlib.sha256(texts).hexdigest()[:16] == "9a99563c2a659deb"


def test_long_has_up_to_twice_as_many_clauses():
    for maximum in (2, 3, 6):
        counts = {len(clauses(s, "en")) for s in generate_dates(500, max_phrases=maximum).sources}
        assert counts == set(range(1, maximum + 1))
        long = generate_dates(500, split="long", max_phrases=maximum).sources
        assert {len(clauses(s, "en")) for s in long} == set(range(maximum + 1, 2 * maximum + 1))


def test_min_phrases_is_the_minimum_number_of_clauses():
    pairs = generate_dates(300, min_phrases=2, max_phrases=2)
    assert {len(clauses(s, "en")) for s in pairs.sources} == {2}


def test_no_clause_occurs_twice_in_a_sentence():
    marks = [max(re.split(r"\{0\}", c.texts["en"]), key=len) for c in CLAUSE_TEMPLATES]
    for sentence in generate_dates(500, split="long").sources:
        assert all(sentence.count(mark) <= 1 for mark in marks)


def test_clause_templates_are_uniformly_distributed():
    text = " ".join(generate_dates(3000, min_phrases=3).sources)
    uses = [text.count(max(re.split(r"\{0\}", c.texts["en"]), key=len)) for c in CLAUSE_TEMPLATES]
    assert min(uses) > 0.75 * max(uses)


@pytest.mark.full
def test_sentences_are_short_and_vocabularies_small():
    pairs = generate_dates(5000)
    for texts in (pairs.sources, pairs.targets):
        word = train_tokenizer("word", texts)
        lengths = sorted(map(len, word.encode(texts)))
        assert word.vocabulary_size < 160
        assert lengths[0] >= 5
        assert 20 < sum(lengths) / len(lengths) < 35
        assert lengths[int(0.9 * len(lengths))] <= 55


def test_generation_is_fast():
    start = time.perf_counter()
    generate_dates(20_000, target="de", seed=99)
    assert time.perf_counter() - start < 5


@refuses(
    ({"size": 0}, "size must be at least 1, got 0"),
    ({"size": 1, "target": "es"}, r"dates: unknown language 'es'.*known: en, fr, de, zh"),
    ({"size": 1, "split": "trian"}, "dates: unknown split 'trian'; did you mean 'train'"),
    ({"size": 1, "source": "fr"}, "source and target must differ, got 'fr' for both"),
    ({"size": 1, "min_phrases": 0}, "1 <= min_phrases <= max_phrases <= 11"),
    ({"size": 1, "min_phrases": 7}, "min_phrases=7, max_phrases=6"),
    ({"size": 1, "max_phrases": 12}, "max_phrases <= 11"),
)
def test_invalid_options_raise(options):
    generate_dates(**options)


def test_relative_times_are_in_the_future_and_the_past():
    text = " ".join(generate_dates(300).sources)
    assert re.search(r"\bin \d+ (minute|hour|day|week)s\b", text)
    assert re.search(r"\b\d+ (minute|hour|day|week)s ago\b", text)


def test_small_corpus_is_a_prefix_of_a_large_one():
    small, large = generate_dates(100), generate_dates(1000)
    assert small.sources == large.sources[:100]
    assert small.targets == large.targets[:100]
    assert small.sources != generate_dates(100, seed=2).sources

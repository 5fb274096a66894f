"""The corpus `claims`: labels that follow from the facts, and words that do not determine them."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from attention_zoo.data import generate_claims
from attention_zoo.data.synthetic.splits import SPLITS
from attention_zoo.data.synthetic.worlds import CONTENT, UNKNOWN, Fact, evaluate_claim
from tests.data.synthetic.linear_baseline import measure_accuracy, split_tokens
from tests.data.synthetic.world_parser import Gift, decide, parse
from tests.refusals import refuses

NAMES_AND_ITEMS = {word for words in CONTENT["words"].values() for word in words}
PREMISE = (
    "Ulla gave the green bell to Said. Kim did not give the cap to Leo."
    " Someone got the map from Eva. Ada owns two cats. Dan has some dogs."
    " Pia does not own ten pigs."
)


@pytest.fixture(scope="module")
def corpora() -> dict:
    return {split: generate_claims(100, split) for split in SPLITS} | {
        "train": generate_claims(1200)
    }


@pytest.mark.parametrize(
    ("hypothesis", "label"),
    [
        ("Said got the green bell from Ulla.", "entailment"),
        ("The bell was given to Said by Ulla.", "entailment"),
        ("Ulla did not give the bell to Said.", "contradiction"),
        ("Said gave the bell to Ulla.", "contradiction"),
        ("Kim gave the bell to Said.", "contradiction"),
        ("Kim did not give the bell to Said.", "entailment"),
        ("Ulla gave the red bell to Said.", "contradiction"),
        ("Leo got the cap from Kim.", "contradiction"),
        ("Leo did not get the blue cap from Kim.", "entailment"),
        ("Leo got the cap from Said.", "neutral"),
        ("The cap did not go from Leo to Kim.", "neutral"),
        ("Eva gave the map to Kim.", "neutral"),
        ("Kim gave the map to Eva.", "contradiction"),
        ("Ada has two cats.", "entailment"),
        ("Ada owns ten cats.", "contradiction"),
        ("Among the things of Ada are not ten cats.", "entailment"),
        ("Pia has two cats.", "neutral"),
        ("Dan has two dogs.", "neutral"),
        ("Pia owns ten pigs.", "contradiction"),
        ("Pia does not own two pigs.", "neutral"),
    ],
)
def test_labels_of_examples(hypothesis: str, label: str) -> None:
    """`evaluate_claim` and the oracle agree on examples worked out by hand."""
    assert decide(PREMISE, hypothesis) == label
    claim = read_fact(hypothesis)
    (fact,) = (
        fact
        for fact in map(read_fact, sentences(PREMISE))
        if fact.words["item"] == claim.words["item"]
    )
    value = evaluate_claim(fact, claim)
    truth = None if value is None else value != claim.is_denied
    assert {True: "entailment", False: "contradiction", None: "neutral"}[truth] == label


def sentences(text: str) -> list[str]:
    return [f"{sentence}." for sentence in text.removesuffix(".").split(". ")]


def read_fact(sentence: str) -> Fact:
    (parsed,) = parse(sentence)
    words = {
        slot: None if word in UNKNOWN.values() else word
        for slot, word in parsed._asdict().items()
        if slot != "is_denied"
    }
    return Fact("gift" if isinstance(parsed, Gift) else "holding", words, parsed.is_denied)


def test_labels_follow_from_the_premise(corpora: dict) -> None:
    """The oracle decides by enumeration of worlds."""
    for corpus in corpora.values():
        for premise, hypothesis, label, _ in corpus.take(range(100)):
            assert decide(premise, hypothesis) == label


def test_kinds_of_claims_are_independent_of_the_label(corpora: dict) -> None:
    """Every label occurs with gifts and holdings, with and without denial and colour."""
    forms = Counter[tuple]()
    for _, hypothesis, label, _ in corpora["train"]:
        (claim,) = parse(hypothesis)
        forms[
            type(claim).__name__, claim.is_denied, getattr(claim, "colour", None) is None, label
        ] += 1
    assert len(forms) == 18
    for *form, label in forms:
        mean = sum(forms[(*form, other)] for other in corpora["train"].known_classes) / 3
        assert forms[(*form, label)] == pytest.approx(mean, rel=0.35)


def test_hypothesis_has_words_of_the_premise_only(corpora: dict) -> None:
    """Each name, colour, number and item occurs once in the premise."""
    for premise, hypothesis, _, _ in corpora["train"]:
        words = [word for word in premise.replace(".", "").split() if word in NAMES_AND_ITEMS]
        claimed = [word for word in hypothesis.replace(".", "").split() if word in NAMES_AND_ITEMS]
        assert len(words) == len(set(words))
        assert len(claimed) == len(set(claimed))
        assert set(claimed) <= set(words)


def mark(name: str, words: set[str] | list[str]) -> list[str]:
    return [f"{name} {word}" for word in words]


@pytest.mark.parametrize("features", ["premise", "hypothesis", "both", "overlap"])
def test_words_do_not_determine_the_label(corpora: dict, features: str) -> None:
    """Chance is 33 %."""
    rows = []
    for premise, hypothesis, _, _ in corpora["train"]:
        first, second = split_tokens(premise), split_tokens(hypothesis)
        shared, other = {*first} & {*second}, {*second} - {*first}
        names = {
            "premise": mark("premise", first),
            "hypothesis": mark("hypothesis", second),
            "overlap": mark("shared", shared) + mark("other", other) + [f"{len(shared)} shared"],
        }
        rows.append(names.get(features) or [word for group in names.values() for word in group])
    assert measure_accuracy(rows, corpora["train"].labels, num_test=400) < 0.42


def test_baseline_learns_what_words_determine(corpora: dict) -> None:
    """The classifier of the previous test, with the label of a claim as a feature."""
    rows = [[label, *split_tokens(text)] for _, text, label, _ in corpora["train"]]
    assert measure_accuracy(rows, corpora["train"].labels, num_test=400) > 0.95


def test_number_of_facts(corpora: dict) -> None:
    counts = {
        split: {premise.count(".") for premise in corpus.firsts}
        for split, corpus in corpora.items()
    }
    assert counts["train"] == counts["test"] == set(range(2, 7))
    assert counts["long"] == set(range(7, 13))
    largest = generate_claims(20, "long", min_facts=8, max_facts=8)
    assert max(premise.count(".") for premise in largest.firsts) == 16


def test_labels_are_balanced(corpora: dict) -> None:
    count = Counter(corpora["train"].labels)
    assert set(count) == {"contradiction", "entailment", "neutral"}
    assert all(340 < number < 460 for number in count.values())


def test_corpus_does_not_change() -> None:
    """Published results depend on the corpus."""
    corpus = generate_claims(50, "test", seed=3)
    text = repr((corpus.firsts, corpus.seconds, corpus.labels)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "4c1240f6f9049865"
    longer = generate_claims(80, "test", seed=3)
    assert [*longer][:50] == [*corpus]
    assert corpus.origin == "claims test (seed 3)"
    assert generate_claims(50, "test", seed=4).firsts != corpus.firsts


def test_splits_are_disjoint(corpora: dict) -> None:
    premises = [set(corpora[split].firsts) for split in SPLITS]
    assert sum(map(len, premises)) == len(set.union(*premises)) == 1500


@refuses(
    ({"split": "tes"}, "claims: unknown split 'tes'; did you mean 'test'"),
    ({"size": 0}, "size must be at least 1, got 0"),
    ({"min_facts": 1}, "min_facts must be at least 2, got 1"),
    ({"max_facts": 9}, "<= max_facts <= 8, got min_facts=2, max_facts=9"),
)
def test_invalid_options_raise(options: dict) -> None:
    generate_claims(**{"size": 1, **options})

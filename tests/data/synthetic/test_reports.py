"""The corpus `reports`: deterministic, with disjoint splits and summaries of selected facts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest

from attention_zoo.data import generate_reports
from attention_zoo.data.synthetic.reports import NAMES, SPLITS, VALUES, make_name
from tests.refusals import refuses


def find_facts(text: str) -> list[str]:
    """Return the numbers and the capitalized names of a text."""
    return re.findall(r"\b\d+\b|\b[A-Z]\w+", text)


def test_names_are_unique() -> None:
    assert len({make_name(number) for number in range(NAMES)}) == NAMES


@pytest.fixture(scope="module")
def corpora() -> dict:
    return {split: generate_reports(150, split) for split in SPLITS} | {
        "train": generate_reports(3000)
    }


def test_facts_of_a_summary_are_in_its_report(corpora: dict) -> None:
    for corpus in corpora.values():
        for report, summary in corpus:
            words = report.split(" ")
            assert set(find_facts(summary)) <= set(words)
            assert len(find_facts(summary)) == len(set(find_facts(summary)))  # no fact occurs twice


def test_event_counts_in_range_and_distractors_not_in_summary() -> None:
    for split, expected in (("train", {2, 3}), ("long", {4, 5, 6})):
        corpus = generate_reports(60, split, min_events=2, max_events=3)
        assert {summary.count(" .") for summary in corpus.targets} == expected
        for report, summary in corpus:
            assert report.count(" .") >= summary.count(" .") + 2
            assert len(set(find_facts(report)) - set(find_facts(summary))) >= 4


def test_position_and_words_do_not_determine_the_summary(corpora: dict) -> None:
    """First sentences are often not summarized, and distractors have the same kinds of events."""
    num_first, kinds = 0, Counter[str]()
    for report, summary in corpora["train"]:
        num_first += any(fact in summary for fact in find_facts(report.split(" . ")[0])[1:])
        num_fires = summary.count("fire ")
        kinds.update({"summarized": num_fires, "distractors": report.count(" fire ") - num_fires})
    assert 0.3 < num_first / len(corpora["train"]) < 0.75
    assert min(kinds.values()) > 500


def test_summary_has_the_corrected_number(corpora: dict) -> None:
    texts = [pair for pair in corpora["train"] if re.search(r"hurt \d+ people , not \d+", pair[0])]
    assert len(texts) > 100
    for report, summary in texts:
        correct, wrong = re.findall(r"hurt (\d+) people , not (\d+)", report)[0]
        assert f" hurts {correct} ." in summary
        assert wrong not in find_facts(summary)


def test_facts_of_unseen_summaries_are_in_no_other_split(corpora: dict) -> None:
    """Neither in its reports nor in its summaries."""
    other_facts = {
        fact
        for split in SPLITS
        for pair in corpora[split]
        for text in pair
        for fact in find_facts(text)
        if split != "unseen"
    }
    unseen_facts = [word for text in corpora["unseen"].targets for word in find_facts(text)]
    assert unseen_facts
    assert not other_facts & set(unseen_facts)
    words = {word for text in corpora["train"].targets for word in text.split(" ")}
    others = {w for text in corpora["unseen"].targets for w in text.split(" ")} - set(unseen_facts)
    assert others <= words


def test_small_vocabulary_covers_test_but_not_training(corpora: dict) -> None:
    count = Counter(word for pair in corpora["train"] for text in pair for word in text.split(" "))
    vocabulary = {word for word, _ in count.most_common(300)}
    unknown_share = {
        split: sum(
            fact not in vocabulary for text in corpora[split].targets for fact in find_facts(text)
        )
        / sum(len(find_facts(text)) for text in corpora[split].targets)
        for split in SPLITS
    }
    assert unknown_share["test"] < 0.01
    assert unknown_share["long"] < 0.01
    assert 0.1 < unknown_share["train"] < 0.3
    assert unknown_share["unseen"] == 1
    assert VALUES["name"].common + VALUES["figure"].common == 100


def test_corpus_does_not_change() -> None:
    """Published results depend on the corpus."""
    corpus = generate_reports(50, "test", seed=3)
    text = repr((corpus.sources, corpus.targets)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "7d48db9470ed673c"
    longer = generate_reports(80, "test", seed=3)
    assert longer.take(range(50)) == corpus
    assert corpus.origin == "reports test (seed 3)"
    assert generate_reports(50, "test", seed=4).sources != corpus.sources


def test_splits_are_disjoint(corpora: dict) -> None:
    sources = [set(corpora[split].sources) for split in SPLITS]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 3600


@refuses(
    ({"split": "unsen"}, "reports: unknown split 'unsen'; did you mean 'unseen'"),
    ({"size": 0}, "size must be at least 1, got 0"),
    (
        {"max_events": 6},
        "expected 1 <= min_events <= max_events <= 5, got min_events=1, max_events=6",
    ),
)
def test_invalid_options_raise(options: dict) -> None:
    generate_reports(**{"size": 1, **options})

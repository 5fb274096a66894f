"""The corpus `reports`: the same everywhere, apart in its splits, its summaries to be chosen."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest

from attention_zoo.data import generate_reports
from attention_zoo.data.synthetic.reports import NAMES, SPLITS, VALUES, name
from tests.refusals import refuses


def facts(text: str) -> list[str]:
    """Figures, and names, which no word of the rest looks like in a summary."""
    return re.findall(r"\b\d+\b|\b[A-Z]\w+", text)


def test_no_two_numbers_have_one_name() -> None:
    assert len({name(number) for number in range(NAMES)}) == NAMES


@pytest.fixture(scope="module")
def corpora() -> dict:
    return {split: generate_reports(150, split) for split in SPLITS} | {
        "train": generate_reports(3000)
    }


def test_every_fact_of_a_summary_stands_in_its_report(corpora: dict) -> None:
    for corpus in corpora.values():
        for report, summary in corpus:
            words = report.split(" ")
            assert set(facts(summary)) <= set(words)
            assert len(facts(summary)) == len(set(facts(summary)))  # each stands for one thing


def test_there_are_as_many_events_as_asked_and_asides_that_are_left_out() -> None:
    for split, wanted in (("train", {2, 3}), ("long", {4, 5, 6})):
        corpus = generate_reports(60, split, min_events=2, max_events=3)
        assert {summary.count(" .") for summary in corpus.targets} == wanted
        for report, summary in corpus:
            assert report.count(" .") >= summary.count(" .") + 2
            assert len(set(facts(report)) - set(facts(summary))) >= 4


def test_neither_place_nor_words_tell_what_to_take(corpora: dict) -> None:
    """First sentences are left out as often as not, and kinds of events are in the asides, too."""
    first, kinds = 0, Counter[str]()
    for report, summary in corpora["train"]:
        first += any(fact in summary for fact in facts(report.split(" . ")[0])[1:])
        told = summary.count("fire ")
        kinds.update({"told": told, "denied": report.count(" fire ") - told})
    assert 0.3 < first / 3000 < 0.75
    assert min(kinds.values()) > 500


def test_figures_that_were_wrong_stand_beside_those_that_are_right(corpora: dict) -> None:
    texts = [pair for pair in corpora["train"] if re.search(r"hurt \d+ people , not \d+", pair[0])]
    assert len(texts) > 100
    for report, summary in texts:
        right, wrong = re.findall(r"hurt (\d+) people , not (\d+)", report)[0]
        assert f" hurts {right} ." in summary
        assert wrong not in facts(summary)


def test_unseen_names_and_figures_are_in_no_other_split(corpora: dict) -> None:
    seen = {
        word
        for split in corpora
        for word in facts(" ".join(corpora[split].targets))
        if split != "unseen"
    }
    new = [word for text in corpora["unseen"].targets for word in facts(text)]
    assert new
    assert not seen & set(new)
    words = {word for text in corpora["train"].targets for word in text.split(" ")}
    others = {w for text in corpora["unseen"].targets for w in text.split(" ")} - set(new)
    assert others <= words


def test_a_small_vocabulary_has_all_names_of_test_and_not_all_of_training(corpora: dict) -> None:
    count = Counter(word for pair in corpora["train"] for text in pair for word in text.split(" "))
    known = {word for word, _ in count.most_common(300)}
    missed = {
        split: sum(fact not in known for text in corpora[split].targets for fact in facts(text))
        / sum(len(facts(text)) for text in corpora[split].targets)
        for split in SPLITS
    }
    assert missed["test"] < 0.01
    assert missed["long"] < 0.01
    assert 0.1 < missed["train"] < 0.3
    assert missed["unseen"] == 1
    assert VALUES["name"].common + VALUES["figure"].common == 100


def test_it_never_changes() -> None:
    """The corpus is part of published results: it may not change unnoticed."""
    corpus = generate_reports(50, "test", seed=3)
    text = repr((corpus.sources, corpus.targets)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "7d48db9470ed673c"
    longer = generate_reports(80, "test", seed=3)
    assert longer.take(range(50)) == corpus
    assert corpus.origin == "reports test (seed 3)"
    assert generate_reports(50, "test", seed=4).sources != corpus.sources


def test_no_report_is_in_two_splits(corpora: dict) -> None:
    found = [set(corpora[split].sources) for split in SPLITS]
    assert sum(map(len, found)) == len(set.union(*found)) == 3600


@refuses(
    ({"split": "unsen"}, "reports: unknown split 'unsen'; did you mean 'unseen'"),
    ({"size": 0}, "size must be an integer of at least 1, got 0"),
    ({"max_events": 6}, "min_events=1, max_events=6: expected 1 <= min_events <= max_events <= 5"),
)
def test_what_is_refused(options: dict) -> None:
    generate_reports(**{"size": 1, **options})

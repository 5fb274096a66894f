"""The corpus `reviews`: one sentence determines the class, and word counts do not."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import LabelledTexts, generate_reviews, split_sentences
from attention_zoo.data.synthetic import reviews
from attention_zoo.data.synthetic.reports import NAMES, SPLITS, make_name
from attention_zoo.data.synthetic.reviews import (
    ASPECTS,
    CONTENT,
    NOUNS,
    OPINIONS,
    find_own_opinions,
)
from tests.data.synthetic.linear_baseline import add_pairs, measure_accuracy, split_tokens
from tests.refusals import refuses

CLASSES = {word: name for name, words in OPINIONS.items() for word in words}
ASPECT_OF = {noun: name for name, aspect in ASPECTS.items() for noun in aspect["nouns"]}


@pytest.fixture(scope="module")
def corpora() -> dict:
    return {split: generate_reviews(100, split) for split in SPLITS} | {
        "train": generate_reviews(900),
        "multi-label": generate_reviews(600, multi_label=True),
    }


def is_own(sentence: str) -> bool:
    """Whether a sentence states the reviewer's own opinion."""
    sources = CONTENT["own_sources"]
    text = sentence.lower()
    return any(
        text.startswith(f"{s.lower()},") or text.endswith(f", {s.lower()}.") for s in sources
    )


def find_words(text: str, words: dict[str, str]) -> list[str]:
    """Return the classes of the words of a text that have one."""
    return [words[word] for word in split_tokens(text) if word in words]


def test_own_opinion_determines_the_class(corpora: dict) -> None:
    for split in SPLITS:
        for text, label in corpora[split]:
            (own,) = filter(is_own, split_sentences(text))
            assert tuple(find_words(own, CLASSES)) == label


@pytest.mark.parametrize("multi_label", [False, True])
def test_spans_of_own_opinions(multi_label: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans are those of the sentences that the generator writes as own opinions."""
    state_opinion = reviews._Writer.state_opinion
    own: set[str] = set()

    def record(writer: Any, sources: str, nouns: list[str], opinion: str) -> str:
        sentence = state_opinion(writer, sources, nouns, opinion)
        if sources == "own_sources":
            own.add(sentence)
        return sentence

    monkeypatch.setattr(reviews._Writer, "state_opinion", record)
    for text in generate_reviews(100, "unseen", multi_label=multi_label).texts:
        spans = find_own_opinions(text)
        assert [text[start:end] for start, end in spans] == [
            sentence for sentence in split_sentences(text) if sentence in own
        ]
        assert len(spans) >= 2 if multi_label else len(spans) == 1
    assert find_own_opinions("") == []


def test_number_of_sentences(corpora: dict) -> None:
    """All sentences are found by the punctuation rule."""
    assert {len(split_sentences(text)) for text in corpora["train"].texts} == set(range(5, 41))
    lengths = {len(split_sentences(text)) for text in corpora["long"].texts}
    assert 41 <= min(lengths) < 45
    assert 75 < max(lengths) <= 80
    (text,) = generate_reviews(1, min_sentences=3, max_sentences=3).texts
    assert len(split_sentences(text)) == 3


def test_position_of_the_own_opinion_is_uniform(corpora: dict) -> None:
    positions: dict[str, list[float]] = {name: [] for name in OPINIONS}
    for text, (label,) in corpora["train"]:
        own = [is_own(sentence) for sentence in split_sentences(text)]
        positions[label].append((own.index(True) + 0.5) / len(own))
    for values in positions.values():
        quarters = np.histogram(values, 4, (0, 1))[0] / len(values)
        assert quarters == pytest.approx(0.25, abs=0.07)


def test_opinion_words_are_balanced(corpora: dict) -> None:
    """A review has the same number of opinion words of each class, and of their neutral uses."""
    for text in [*corpora["train"].texts[:300], *corpora["long"].texts]:
        opinions, neutral = Counter[str](), Counter[str]()
        for sentence in split_sentences(text):
            (opinions if find_words(sentence, dict.fromkeys(NOUNS, "")) else neutral).update(
                find_words(sentence, CLASSES)
            )
        assert len(opinions) == 3
        assert len({*opinions.values()}) == 1
        assert len(neutral) in (0, 3)
        assert len({*neutral.values()}) <= 1


def test_word_counts_do_not_determine_the_class(corpora: dict) -> None:
    """Chance is 33 %."""
    tokens, labels = split_reviews(corpora["train"])
    assert measure_accuracy(tokens, labels, num_test=200) < 0.42


def test_adjacent_words_do_not_determine_the_class(corpora: dict) -> None:
    tokens, labels = split_reviews(corpora["train"])
    pairs = [add_pairs(words) for words in tokens]
    assert measure_accuracy(pairs, labels, num_test=200, min_count=20) < 0.42


def test_baseline_learns_the_class_from_the_own_opinion(corpora: dict) -> None:
    """The classifier of the previous tests, given the decisive sentence alone."""
    _, labels = split_reviews(corpora["train"])
    sentences = [split_sentences(text) for text in corpora["train"].texts[: len(labels)]]
    own = [split_tokens(next(filter(is_own, review))) for review in sentences]
    assert measure_accuracy(own, labels, num_test=200) > 0.95


def split_reviews(corpus: LabelledTexts) -> tuple[list[list[str]], list[str]]:
    """Return the tokens and the labels of the first 600 reviews."""
    return [split_tokens(text) for text in corpus.texts[:600]], [
        label for (label,) in corpus.labels[:600]
    ]


def test_classes_are_balanced(corpora: dict) -> None:
    count = Counter(label for (label,) in corpora["train"].labels)
    assert set(count) == set(OPINIONS)
    assert all(250 < number < 350 for number in count.values())


def test_labels_of_the_multi_label_variant_are_own_complaints(corpora: dict) -> None:
    """For each own opinion, somebody else has the opposite one on the same aspect."""
    for text, labels in corpora["multi-label"]:
        own, others = [], set()
        for sentence in split_sentences(text):
            opinion = (*find_words(sentence, ASPECT_OF), *find_words(sentence, CLASSES))
            if is_own(sentence):
                own.append(opinion)
            else:
                others.add(opinion)
        assert len({aspect for aspect, _ in own}) == len(own) >= 2
        assert labels == tuple(sorted(aspect for aspect, name in own if name == "negative"))
        for aspect, name in own:
            assert (aspect, {"negative": "positive", "positive": "negative"}[name]) in others


def test_frequencies_of_the_multi_label_variant_are_skewed(corpora: dict) -> None:
    count = Counter(label for labels in corpora["multi-label"].labels for label in labels)
    shares = [count[name] / len(corpora["multi-label"]) for name in ASPECTS]
    assert shares == pytest.approx([0.51, 0.37, 0.28, 0.19, 0.11, 0.06], abs=0.05)
    assert () in corpora["multi-label"].labels


def test_word_counts_do_not_determine_complaints(corpora: dict) -> None:
    """The majority has about half of the reviews."""
    corpus = corpora["multi-label"]
    labels = [str("service" in names) for names in corpus.labels]
    tokens = [split_tokens(text) for text in corpus.texts]
    assert measure_accuracy(tokens, labels, num_test=250) < 0.65


def test_names_of_unseen_are_in_no_other_split(corpora: dict) -> None:
    """Other words of `unseen` occur in training."""
    names = {make_name(number) for number in range(NAMES)}
    words = {
        split: {word for text in corpora[split].texts for word in re.findall(r"\w+", text)}
        for split in SPLITS
    }
    unseen = words.pop("unseen")
    assert len(unseen & names) > 400
    assert not unseen & names & set.union(*words.values())
    assert not {w for w in unseen - names if not w.isdigit()} - words["train"]
    assert len((words["test"] | words["long"]) & names) <= 60


def test_no_name_is_another_word() -> None:
    """Not even in lower case."""
    templates = [*NOUNS, *CLASSES, *map(str, CONTENT["fillers"] + CONTENT["neutral_uses"])]
    templates += CONTENT["statements"] + CONTENT["own_sources"] + CONTENT["other_sources"]
    words = {word for text in templates for word in split_tokens(text)}
    assert not words & {make_name(number).lower() for number in range(NAMES)}


def test_corpus_does_not_change() -> None:
    """Published results depend on the corpus."""
    corpus = generate_reviews(30, "test", seed=3)
    complaints = generate_reviews(30, "test", seed=3, multi_label=True)
    text = repr((corpus.texts, corpus.labels, complaints.texts, complaints.labels)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "ed59cbb21c703399"
    longer = generate_reviews(50, "test", seed=3)
    assert [*longer][:30] == [*corpus]
    assert corpus.origin == "reviews test (seed 3)"
    assert complaints.origin == "multi-label reviews test (seed 3)"
    assert generate_reviews(30, "test", seed=4).texts != corpus.texts


def test_splits_are_disjoint(corpora: dict) -> None:
    texts = [set(corpora[split].texts) for split in SPLITS]
    assert sum(map(len, texts)) == len(set.union(*texts)) == 1300
    short = {
        split: generate_reviews(60, split, min_sentences=3, max_sentences=3).texts
        for split in ("train", "validation", "test")
    }
    assert len({text for texts in short.values() for text in texts}) == 180


@refuses(
    ({"split": "tes"}, "reviews: unknown split 'tes'; did you mean 'test'"),
    ({"size": 0}, "size must be at least 1, got 0"),
    ({"min_sentences": 2}, "min_sentences must be at least 3, got 2"),
    (
        {"max_sentences": 41},
        "<= max_sentences <= 40, got min_sentences=5, max_sentences=41",
    ),
    ({"min_sentences": 6, "max_sentences": 5}, "min_sentences=6, max_sentences=5"),
)
def test_invalid_options_raise(options: dict) -> None:
    generate_reviews(**{"size": 1, **options})

"""The corpus `ranked claims`: relevant and other candidates have the same words."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import numpy as np
import pytest

from attention_zoo.data import generate_ranked_claims
from attention_zoo.data.synthetic.splits import SPLITS
from attention_zoo.data.synthetic.worlds import CONTENT
from tests.data.synthetic.linear_baseline import measure_accuracy, split_tokens
from tests.data.synthetic.world_parser import parse
from tests.refusals import refuses

WORDS = {word for words in CONTENT["words"].values() for word in words}
THING = r"the (?P<colour>\w+) (?P<item>\w+)"
PATTERNS = [
    rf"Who gave {THING} to (?P<receiver>\w+)",
    rf"From whom did (?P<receiver>\w+) get {THING}",
    rf"Who got {THING} from (?P<giver>\w+)",
    rf"To whom did (?P<giver>\w+) give {THING}",
    r"What did (?P<giver>\w+) give to (?P<receiver>\w+)",
    r"What did (?P<receiver>\w+) get from (?P<giver>\w+)",
    r"Who (?:owns|has) (?P<number>\w+) (?P<item>\w+)",
    r"How many (?P<item>\w+) does (?P<owner>\w+) (?:own|have)",
]


@pytest.fixture(scope="module")
def corpora() -> dict:
    return {split: generate_ranked_claims(40, split) for split in SPLITS} | {
        "train": generate_ranked_claims(400)
    }


def is_answer(question: str, candidate: str) -> bool:
    """Whether a fact of the candidate has all words of the question in the same slots."""
    (match,) = filter(None, (re.fullmatch(rf"{pattern}\?", question) for pattern in PATTERNS))
    wanted = match.groupdict().items()
    facts = [fact._asdict() for fact in parse(candidate) if not fact.is_denied]
    return any(all(fact.get(slot) == word for slot, word in wanted) for fact in facts)


def test_relevant_candidates_answer_the_question(corpora: dict) -> None:
    for corpus in corpora.values():
        for question, candidate, score, group in corpus.take(range(400)):
            assert score == is_answer(question, candidate)
            assert group == question


def test_all_questions_occur(corpora: dict) -> None:
    kinds = Counter(
        next(number for number, p in enumerate(PATTERNS) if re.match(p, question))
        for question in corpora["train"].firsts[::10]
    )
    assert len(kinds) == len(PATTERNS)
    assert 0.7 < sum(kinds[number] for number in range(6)) / 400 < 0.9


def test_ten_candidates_of_which_at_most_two_are_relevant(corpora: dict) -> None:
    for corpus in corpora.values():
        questions = np.reshape(corpus.groups, (-1, 10))
        assert (questions == questions[:, :1]).all()
        assert len({*questions[:, 0]}) == len(questions)
    relevant = np.reshape(corpora["train"].scores, (-1, 10))
    shares = np.bincount(relevant.sum(1).astype(int)) / len(relevant)
    assert shares == pytest.approx([0.1, 0.5, 0.4], abs=0.07)
    assert relevant.mean(0) == pytest.approx(0.13, abs=0.06)  # at every position


def test_candidates_have_all_words_of_the_question_once(corpora: dict) -> None:
    for question, candidate, _, _ in corpora["train"]:
        count = Counter(split_content(candidate))
        assert {*count.values()} == {1}
        assert {*split_content(question)} <= {*count}


def split_content(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text) if word in WORDS]


def test_words_do_not_determine_the_relevance(corpora: dict) -> None:
    """Chance is 50 % in a balanced sample."""
    rows, labels = [], []
    pairs = [*corpora["train"]]
    relevant = [pair for pair in pairs if pair[2]]
    others = [pair for pair in pairs if not pair[2]][::3][: len(relevant)]
    for pair in (pair for both in zip(relevant, others, strict=True) for pair in both):
        first, second = split_tokens(pair[0]), split_tokens(pair[1])
        shared = {*first} & {*second}
        row = [f"shared {word}" for word in shared] + [f"{len(shared)} shared"]
        rows.append([*row, *second])
        labels.append(str(pair[2]))
    assert len(rows) > 900
    assert measure_accuracy(rows, labels, num_test=350) < 0.59


def test_number_of_facts(corpora: dict) -> None:
    counts = {
        split: {candidate.count(".") for candidate in corpus.seconds}
        for split, corpus in corpora.items()
    }
    assert counts["train"] == counts["test"] == {2, 3}
    assert counts["long"] == {4, 5, 6}


def test_corpus_does_not_change() -> None:
    """Published results depend on the corpus."""
    corpus = generate_ranked_claims(10, "test", seed=3)
    text = repr((corpus.firsts, corpus.seconds, corpus.scores)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "32bc9fc472e079f8"
    longer = generate_ranked_claims(20, "test", seed=3)
    assert [*longer][:100] == [*corpus]
    assert corpus.origin == "ranked claims test (seed 3)"
    assert generate_ranked_claims(10, "test", seed=4).firsts != corpus.firsts


def test_splits_have_different_questions(corpora: dict) -> None:
    questions = [set(corpora[split].firsts) for split in SPLITS]
    assert sum(map(len, questions)) == len(set.union(*questions)) == 520


@refuses(
    ({"split": "tes"}, "ranked claims: unknown split 'tes'; did you mean 'test'"),
    ({"size": 0}, "size must be at least 1, got 0"),
)
def test_invalid_options_raise(options: dict) -> None:
    generate_ranked_claims(**{"size": 1, **options})

"""Every option against all sequences there are, and what contradicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from keras import ops

from attention_zoo.decoding import AllowedTokens, Automaton, SearchOptions, StepOutput
from tests.decoding.toy_decoders import (
    END,
    MODES,
    PENALTIES,
    START,
    Hypothesis,
    Tables,
    compiled,
    find,
    lookup,
    to_numpy,
)
from tests.refusals import refuses
from tests.tiers import FULL

SOURCES, VOCABULARY, LIMIT, PLACES = 200, 5, 4, 3
WIDTH = (VOCABULARY - 1) ** (LIMIT - 1) * VOCABULARY
Taken = tuple[int, ...]


class Case(NamedTuple):
    """An option, and what it means for a sequence, told in words.

    `may(source, taken, token)`: whether it may be taken. `logits(logits, taken)`: the logits that
    it makes of the decoder's. `limit(source)`: most tokens.
    """

    options: dict[str, Any]
    may: Callable[[int, Taken, int], bool] = lambda source, taken, token: True
    logits: Callable[[np.ndarray, Taken], np.ndarray] = lambda logits, taken: logits
    limit: Callable[[int], int] = lambda source: LIMIT


RNG = np.random.default_rng(3)
LENGTHS = RNG.integers(1, PLACES + 1, SOURCES)
MASK = np.arange(PLACES) < LENGTHS[:, None]
PREFIX = RNG.integers(0, VOCABULARY, (SOURCES, 2))
PREFIX[PREFIX == END] = 0  # 0 pads: nothing is forced there
OF_SOURCE = RNG.random((SOURCES, VOCABULARY)) < 0.7
OF_STEP = RNG.random((SOURCES, 2, VOCABULARY)) < 0.8
GRAMMAR = np.array([[1, 0, -1, -1, 2], [2, 2, 1, -1, -1], [-1, 0, 0, 2, 1]])


def repeats(taken: Taken, token: int, size: int) -> bool:
    grown = (*taken, token)
    before = [grown[i : i + size] for i in range(len(grown) - size)]
    return grown[len(grown) - size :] in before if len(grown) >= size else False


def follows(taken: Taken, token: int) -> bool:
    state = 0
    for one in taken:
        state = GRAMMAR[state, one]
    return bool(GRAMMAR[state, token] >= 0)


def lowered(logits: np.ndarray, taken: Taken) -> np.ndarray:
    logits = logits.copy()
    for token in set(taken):
        logits[token] = logits[token] / 1.8 if logits[token] > 0 else logits[token] * 1.8
    return logits


CASES = {
    "none": Case({}),
    "min_length": Case({"min_length": 3}, lambda b, taken, v: v != END or len(taken) >= 2),
    "max_length_ratio": Case(
        {"max_length_ratio": 1.5, "source_mask": MASK},
        limit=lambda b: min(LIMIT, max(1, int(1.5 * LENGTHS[b]))),
    ),
    "no_repeat_ngram 1": Case({"no_repeat_ngram": 1}, lambda b, taken, v: v not in taken),
    "no_repeat_ngram 2": Case({"no_repeat_ngram": 2}, lambda b, taken, v: not repeats(taken, v, 2)),
    "repetition_penalty": Case({"repetition_penalty": 1.8}, logits=lowered),
    "banned_tokens": Case({"banned_tokens": (4, 0)}, lambda b, taken, v: v not in (0, 4)),
    "forced_tokens": Case({"forced_tokens": {2: 1}}, lambda b, taken, v: len(taken) != 2 or v == 1),
    "prefix_tokens": Case({"prefix_tokens": (4, 4)}, lambda b, taken, v: len(taken) > 1 or v == 4),
    "prefix of each source": Case(
        {"prefix": PREFIX}, lambda b, taken, v: len(taken) > 1 or PREFIX[b, len(taken)] in (0, v)
    ),
    "allowed": Case({"rules": [AllowedTokens(OF_SOURCE)]}, lambda b, taken, v: OF_SOURCE[b, v]),
    "allowed at steps": Case(
        {"rules": [AllowedTokens(OF_STEP)]}, lambda b, taken, v: OF_STEP[b, min(len(taken), 1), v]
    ),
    "automaton": Case({"rules": [Automaton(GRAMMAR)]}, lambda b, taken, v: follows(taken, v)),
    "several": Case(
        {"min_length": 2, "no_repeat_ngram": 2, "banned_tokens": (0,), "repetition_penalty": 1.8},
        lambda b, taken, v: v != 0 and (v != END or len(taken) >= 1) and not repeats(taken, v, 2),
        lowered,
    ),
}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype("float64") - logits.max()
    return logits - np.log(np.exp(logits).sum())


def sequences(tables: Tables, case: Case, source: int) -> Iterator[tuple[float, Taken]]:
    """Every sequence that the case allows and its log probability."""
    open_ends: list[tuple[float, Taken]] = [(0.0, ())]
    while open_ends:
        log_prob, taken = open_ends.pop()
        before = [0, START, *taken]
        logits = tables.first[source, before[-1]] + tables.second[source, before[-2]]
        for token, more in enumerate(log_softmax(case.logits(logits, taken))):
            if not case.may(source, taken, token):
                continue
            grown = log_prob + more, (*taken, token)
            if token == END or len(taken) + 1 == case.limit(source):
                yield grown
            else:
                open_ends.append(grown)


def best_of(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda one: -one.score)[:2]


@pytest.mark.parametrize("penalty", ["none", "average"])
@pytest.mark.parametrize("name", CASES)
def test_a_beam_that_holds_all_finds_the_best_of_all_there_are(name: str, penalty: str) -> None:
    case = CASES[name]
    tables = Tables.random(seed=len(name), sources=SOURCES, vocabulary=VOCABULARY)
    options = {"beam_width": WIDTH, "n_best": 2, "max_length": LIMIT, **case.options}
    result = tables.search(length_penalty=penalty, **options)
    for source in range(SOURCES):
        want = best_of(
            [
                Hypothesis(p / PENALTIES[penalty](len(taken), 1.0), taken, taken[-1] == END)
                for p, taken in sequences(tables, case, source)
            ]
        )
        assert (result.lengths[source] > 0).sum() == len(want)
        for rank, one in enumerate(want):
            length = len(one.tokens)
            assert tuple(result.tokens[source, rank, :length]) == one.tokens
            assert result.finished[source, rank] == one.finished
            np.testing.assert_allclose(result.scores[source, rank], one.score, rtol=1e-4, atol=1e-5)
            parts = result.token_scores[source, rank]
            total = one.score * PENALTIES[penalty](length, 1.0)
            np.testing.assert_allclose(parts.sum(), total, rtol=1e-4, atol=1e-5)
            assert not parts[length:].any()


def test_coverage_is_added_when_hypotheses_are_compared() -> None:
    tables = Tables.random(seed=8, sources=SOURCES, vocabulary=VOCABULARY)
    looks = RNG.random((SOURCES, VOCABULARY, PLACES)) ** 2 * MASK[:, None]
    looks = (looks / looks.sum(-1, keepdims=True)).astype("float32")

    def step(tokens: Any, state: Any) -> StepOutput:
        return tables.step(tokens, state)._replace(attention=lookup(looks, tokens))

    options = {"beam_width": WIDTH, "n_best": 2, "max_length": LIMIT, "length_penalty": "gnmt"}
    result = tables.search(step=step, coverage_penalty=1.3, source_mask=MASK, **options)
    sources = range(0, SOURCES, 1 if FULL else 3)
    changed = 0
    for source in sources:
        plain, covered = [], []
        for log_prob, taken in sequences(tables, CASES["none"], source):
            score = log_prob / PENALTIES["gnmt"](len(taken), 1.0)
            seen = looks[source, [START, *taken[:-1]]].sum(0)[MASK[source]]
            plain.append(Hypothesis(score, taken, True))
            coverage = np.log(np.clip(seen, 1e-9, 1)).sum()
            covered.append(Hypothesis(score + 1.3 * coverage, taken, True))
        for rank, one in enumerate(best_of(covered)):
            assert tuple(result.tokens[source, rank, : len(one.tokens)]) == one.tokens
            np.testing.assert_allclose(result.scores[source, rank], one.score, rtol=1e-4, atol=1e-5)
        changed += best_of(plain)[0].tokens != best_of(covered)[0].tokens
    assert changed > 0.1 * len(sources)


@refuses(
    ({"min_length": 5, "max_length": 4}, "min_length is 5 but max_length is 4"),
    (
        {"forced_tokens": {0: 3}, "banned_tokens": [3]},
        "forced_tokens forces token 3 but banned_tokens bans it",
    ),
    (
        {"prefix_tokens": [1, 3], "banned_tokens": [3]},
        "prefix_tokens forces token 3 but banned_tokens bans it",
    ),
    (
        {"prefix_tokens": [1, 3], "forced_tokens": {1: 2}},
        "forced_tokens forces token 2 at position 1 but prefix_tokens forces 3",
    ),
    (
        {"prefix_tokens": [1, 1], "max_length": 1},
        "prefix_tokens has a token at position 1 but max_length is 1",
    ),
    (
        {"forced_tokens": {4: 1}, "max_length": 4},
        "forced_tokens has a token at position 4 but max_length is 4",
    ),
    (
        {"prefix_tokens": [1, 2, 1], "forced_tokens": {3: 2}, "no_repeat_ngram": 2},
        "forced_tokens has n-gram [1, 2] twice but no_repeat_ngram is 2",
    ),
    (
        {"prefix_tokens": [4, 4, 4], "no_repeat_ngram": 2},
        "prefix_tokens has n-gram [4, 4] twice but no_repeat_ngram is 2",
    ),
    ({"forced_tokens": {"1": 5, 1: 6}}, "forced_tokens forces tokens 5 and 6 at position 1"),
    ({"method": "sampling", "seed": 2**32}, "seed is 4294967296: it must be at most 4294"),
    ({"max_length": 3 * 10**9}, "max_length is 3000000000: it must be at most 2147483647"),
    ({"forced_tokens": {3 * 10**9: 5}}, "a position of forced_tokens is 3000000000: it"),
    ({"max_length_ratio": 1e9}, "max_length_ratio is 1000000000.0: it must be a"),
    ({"banned_tokens": np.zeros((2, 200), int)}, "an id of banned_tokens is array([0, 0,"),
    ({"beam_width": np.zeros(200)}, "beam_width is array([0., 0., 0., 0., 0.,"),
    ({"n_best": 3, "beam_width": 2}, "n_best is 3 but beam_width is 2"),
    ({"groups": 2, "beam_width": 3, "method": "diverse_beam"}, "beam_width is 3 but groups is 2"),
    ({"method": "contrastive", "beam_width": 2}, "method is 'contrastive' but beam_width is 2"),
    (
        {"temperature": 0.5},
        "temperature is 0.5 but method is 'beam': it applies to method 'sampling' only",
    ),
    ({"method": "beem"}, "unknown search method 'beem'; did you mean 'beam'"),
    (
        {"method": "sampling", "temperature": 0.0},
        "temperature is 0.0: it must be a finite number of at least 1e-06",
    ),
    ({"method": "sampling", "top_p": 1.5}, "top_p is 1.5: it must be a finite number"),
    ({"method": "sampling", "top_p": 0}, "top_p is 0: it must be above 0"),
    ({"banned_tokens": [-1]}, "an id of banned_tokens is -1"),
    ({"banned_tokens": 7}, "banned_tokens is 7: it must be a list of token ids"),
    ({"prefix_tokens": "ab"}, "prefix_tokens is 'ab': it must be a list of token ids"),
    ({"forced_tokens": {-1: 2}}, "a position of forced_tokens is -1"),
    ({"forced_tokens": [1]}, "forced_tokens is [1]: it must be {position: token id}"),
    ({"max_length_ratio": 0}, "max_length_ratio is 0"),
    ({"replace_unknown": 1}, "replace_unknown is 1: it must be a bool"),
    ({"coverage_penalty": float("nan")}, "coverage_penalty is nan"),
    literal=True,
)
def test_contradictions_are_refused_in_one_line(options: Any) -> None:
    SearchOptions(**options)


@refuses(
    ({"banned_tokens": [5]}, "banned_tokens has token 5: ids must be from 0 to 4"),
    ({"prefix_tokens": [9]}, "prefix_tokens has token 9: ids"),
    ({"forced_tokens": {0: 6}}, "forced_tokens has token 6: ids"),
    ({"banned_tokens": range(5)}, "banned_tokens forbids all 5 tokens: allow some"),
    (
        {"prefix_tokens": [1, END], "min_length": 4},
        "prefix_tokens forces the end token at position 1 but min_length is 4",
    ),
    (
        {"prefix_tokens": [1, END], "forced_tokens": {2: 4}},
        "forced_tokens forces the end token at position 1 and a token after it, at position 2",
    ),
    ({"prefix": PREFIX[1:]}, "prefix is of shape (199, 2) but there are 200 sources"),
    (
        {"prefix": PREFIX[:2] * 0 + [[0, 0], [1, 5]], "sources": 2},
        "prefix of source 1 has token 5: ids must be from 0 to 4",
    ),
    ({"prefix": np.array([[-1]] * 2), "sources": 2}, "prefix of source 0 has token -1: ids"),
    (
        {"prefix": np.ones((2, 1)), "sources": 2},
        "prefix must be ids (B, P), got float64 of shape (2, 1)",
    ),
    (
        {"prefix": np.array([[1], [4]]), "sources": 2, "banned_tokens": [4]},
        "prefix of source 1 forces token 4 but banned_tokens bans it",
    ),
    (
        {"prefix": np.array([[1], [4]]), "sources": 2, "prefix_tokens": [1]},
        "prefix of source 1 forces token 4 at position 0 but prefix_tokens forces 1",
    ),
    (
        {"prefix": np.array([[1, 1, 1, 1, 1]]), "sources": 1},
        "prefix of source 0 has a token at position 4 but max_length is 4",
    ),
    (
        {"prefix": np.array([[4, 1]]), "sources": 1, "prefix_tokens": [4], "no_repeat_ngram": 1}
        | {"forced_tokens": {2: 1}},
        "prefix of source 0 has n-gram [1] twice but no_repeat_ngram is 1",
    ),
    (
        {"prefix": np.array([[1, END]]), "sources": 1, "min_length": 3},
        "prefix of source 0 forces the end token at position 1 but min_length is 3",
    ),
    ({"source_mask": MASK[1:]}, "source_mask must have shape (200, any), got (199, 3)"),
    (
        {"source_mask": MASK[:, :2]},
        "the attention of step must have shape (200, 1, 2), got (200, 1, 3)",
    ),
    (
        {"source_mask": MASK.astype("float32")},
        "source_mask has dtype float32, but masks are boolean",
    ),
    ({"rules": ["x"]}, "rules holds a str: give a list of `decoding.Rule`"),
    (
        {"max_length": ops.convert_to_tensor(0)},
        "max_length is 0: it must be an integer of at least 1",
    ),
    (
        {"max_length": ops.convert_to_tensor([3, 4])},
        "max_length must be a scalar integer, got int32 of shape (2,)",
    ),
    ({"source_keys": np.arange(3)}, "source_keys must have shape (200), got (3,)"),
    ({"start_token": np.arange(3)}, "start_token must have shape (200), got (3,)"),
    (
        {"rules": [AllowedTokens(OF_SOURCE[1:])]},
        "mask is of shape (199, 5) but there are 200 sources",
    ),
    (
        {"forced_tokens": {1: END}, "min_length": 4},
        "forced_tokens forces the end token at position 1 but min_length is 4",
    ),
    ({"coverage_penalty": 1.0}, "coverage_penalty needs source_mask"),
    ({"max_length": None}, "max_length is None: set it, or give source_mask"),
    ({"prefix": np.array([1])}, "prefix must be ids (B, P), got int64 of shape (1,)"),
    (
        {"rules": [AllowedTokens(np.ones(4, bool))]},
        "mask is of shape (4,): its last axis must be the vocabulary size 5",
    ),
    (
        {"rules": [Automaton(np.zeros((1, 4), int))]},
        "transitions is of shape (1, 4): its last axis must be the vocabulary size 5",
    ),
    ({"method": "contrastive"}, "method 'contrastive' needs hidden (B, N, D)"),
    literal=True,
)
def test_what_the_decoder_does_not_have_is_refused(options: Any) -> None:
    options = dict(options)
    sources = options.pop("sources", SOURCES)
    tables = Tables.random(seed=1, sources=sources, vocabulary=VOCABULARY)
    given = {"batch_size": sources, "max_length": LIMIT} | options
    find(tables.step, tables.state(), **given)


@refuses(
    (np.zeros((2, 3)), "transitions must be integers (Q, V), got float64 of shape (2, 3)"),
    (np.full((2, 3), 2), "transitions must be states from 0 to 1, or -1, got 2"),
    (np.full((2, 3), -2), "transitions must be states from 0 to 1, or -1, got -2"),
    literal=True,
)
def test_a_table_that_is_no_automaton_is_refused(table: np.ndarray) -> None:
    Automaton(table)


def test_no_end_is_an_answer_as_long_as_may_be() -> None:
    tables = Tables.random(seed=1, sources=SOURCES, vocabulary=VOCABULARY)
    options = {"banned_tokens": [END], "max_length_ratio": 2.0, "source_mask": MASK}
    result = tables.search(**options)
    assert result.lengths[:, 0].tolist() == (2 * LENGTHS).tolist()
    assert not result.finished.any()


def test_rules_may_come_one_by_one() -> None:
    tables = Tables.random(seed=1, sources=3, vocabulary=VOCABULARY)
    masks = [[True, True, False, False, False], [False, True, True, False, False]]
    rules = (AllowedTokens(mask) for mask in masks)
    assert (tables.search(max_length=2, rules=rules).tokens == 1).all()


@pytest.mark.parametrize("mode", MODES)
def test_no_prefix_is_none(mode: str) -> None:
    tables = Tables.random(seed=1, sources=3, vocabulary=VOCABULARY)
    options = {"batch_size": 3, "max_length": LIMIT, "beam_width": 2}

    def run(prefix: Any) -> Any:
        return find(tables.step, tables.state(), prefix=prefix, **options)

    result = to_numpy(compiled(run, mode)(np.zeros((3, 0), "int32")))
    free = tables.search(**options)
    np.testing.assert_array_equal(result.tokens, free.tokens)


def test_a_mask_may_be_a_list() -> None:
    tables = Tables.random(seed=1, sources=3, vocabulary=VOCABULARY)
    rules = [AllowedTokens([True, False, False, False, False])]
    assert not tables.search(max_length=2, rules=rules).tokens.any()
    with pytest.raises(ValueError, match=r"mask must have shape \(V,\), \(B, V\) or .*, got \(\)"):
        AllowedTokens(True)
    with pytest.raises(ValueError, match=r"mask has dtype float32.*`mask >= 0`"):
        AllowedTokens(np.array([0, -1e9], "float32"))


def test_options_survive_json() -> None:
    import json

    numbers = {"beam_width": np.int64(4), "top_p": np.float32(0.5), "seed": np.uint8(3)}
    options = SearchOptions(
        method="sampling", forced_tokens={1: np.int32(5)}, banned_tokens=np.array([7]), **numbers
    )
    assert SearchOptions(**json.loads(json.dumps(options.as_dict()))) == options

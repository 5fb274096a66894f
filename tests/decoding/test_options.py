"""Every search option compared with exhaustive search; conflicting options."""

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
    compile_function,
    gather_rows,
    run_search,
    to_numpy,
)
from tests.refusals import refuses
from tests.tiers import FULL

SOURCES, VOCABULARY, LIMIT, SOURCE_LENGTH = 200, 5, 4, 3
WIDTH = (VOCABULARY - 1) ** (LIMIT - 1) * VOCABULARY
Prefix = tuple[int, ...]


class Case(NamedTuple):
    """An option and its reference implementation.

    `is_allowed(source, prefix, token)`: whether the token may follow. `logits(logits, prefix)`: the
    modified logits. `limit(source)`: the maximum length.
    """

    options: dict[str, Any]
    is_allowed: Callable[[int, Prefix, int], bool] = lambda source, prefix, token: True
    logits: Callable[[np.ndarray, Prefix], np.ndarray] = lambda logits, prefix: logits
    limit: Callable[[int], int] = lambda source: LIMIT


RNG = np.random.default_rng(3)
LENGTHS = RNG.integers(1, SOURCE_LENGTH + 1, SOURCES)
MASK = np.arange(SOURCE_LENGTH) < LENGTHS[:, None]
PREFIX = RNG.integers(0, VOCABULARY, (SOURCES, 2))
PREFIX[PREFIX == END] = 0  # 0 is padding, which forces no token
ALLOWED_PER_SOURCE = RNG.random((SOURCES, VOCABULARY)) < 0.7
ALLOWED_PER_STEP = RNG.random((SOURCES, 2, VOCABULARY)) < 0.8
SOURCE_TOKENS = np.where(MASK, RNG.integers(1, VOCABULARY, MASK.shape), 0)
GRAMMAR = np.array([[1, 0, -1, -1, 2], [2, 2, 1, -1, -1], [-1, 0, 0, 2, 1]])


def repeats_ngram(prefix: Prefix, token: int, size: int) -> bool:
    tokens = (*prefix, token)
    ngrams = [tokens[i : i + size] for i in range(len(tokens) - size)]
    return tokens[len(tokens) - size :] in ngrams if len(tokens) >= size else False


def is_in_source(source: int, prefix: Prefix, token: int, size: int) -> bool:
    """Return whether the last n-gram occurs in the source."""
    tokens = SOURCE_TOKENS[source][SOURCE_TOKENS[source] != 0].tolist()
    ngrams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
    return [*prefix, token][-size:] in ngrams


def follows_grammar(prefix: Prefix, token: int) -> bool:
    state = 0
    for one in prefix:
        state = GRAMMAR[state, one]
    return bool(GRAMMAR[state, token] >= 0)


def penalize_repetition(logits: np.ndarray, prefix: Prefix) -> np.ndarray:
    logits = logits.copy()
    for token in set(prefix):
        logits[token] = logits[token] / 1.8 if logits[token] > 0 else logits[token] * 1.8
    return logits


def test_limit_has_room_for_minimum_length_and_forced_tokens() -> None:
    assert SearchOptions().limit(3) == 16
    assert SearchOptions(min_length=40).limit(3) == 40
    assert SearchOptions(max_length_ratio=2, forced_tokens={19: 5}).limit(3) == 20
    assert SearchOptions(max_length_ratio=2, min_length=5, max_length=5).limit(9) == 5
    assert SearchOptions(min_length=2, max_length=9).limit(1) == 9


CASES = {
    "none": Case({}),
    "min_length": Case({"min_length": 3}, lambda b, prefix, v: v != END or len(prefix) >= 2),
    "max_length_ratio": Case(
        {"max_length_ratio": 1.5, "source_mask": MASK},
        limit=lambda b: min(LIMIT, max(1, int(1.5 * LENGTHS[b]))),
    ),
    "no_repeat_ngram 1": Case({"no_repeat_ngram": 1}, lambda b, prefix, v: v not in prefix),
    "no_repeat_ngram 2": Case(
        {"no_repeat_ngram": 2}, lambda b, prefix, v: not repeats_ngram(prefix, v, 2)
    ),
    "no_repeat_source_ngram 1": Case(
        {"no_repeat_source_ngram": 1, "source_tokens": SOURCE_TOKENS},
        lambda b, prefix, v: not is_in_source(b, prefix, v, 1),
    ),
    "no_repeat_source_ngram 2": Case(
        {"no_repeat_source_ngram": 2, "source_tokens": SOURCE_TOKENS},
        lambda b, prefix, v: not is_in_source(b, prefix, v, 2),
    ),
    "repetition_penalty": Case({"repetition_penalty": 1.8}, logits=penalize_repetition),
    "banned_tokens": Case({"banned_tokens": (4, 0)}, lambda b, prefix, v: v not in (0, 4)),
    "forced_tokens": Case(
        {"forced_tokens": {2: 1}}, lambda b, prefix, v: len(prefix) != 2 or v == 1
    ),
    "prefix_tokens": Case(
        {"prefix_tokens": (4, 4)}, lambda b, prefix, v: len(prefix) > 1 or v == 4
    ),
    "prefix of each source": Case(
        {"prefix": PREFIX}, lambda b, prefix, v: len(prefix) > 1 or PREFIX[b, len(prefix)] in (0, v)
    ),
    "allowed": Case(
        {"rules": [AllowedTokens(ALLOWED_PER_SOURCE)]},
        lambda b, prefix, v: ALLOWED_PER_SOURCE[b, v],
    ),
    "allowed per step": Case(
        {"rules": [AllowedTokens(ALLOWED_PER_STEP)]},
        lambda b, prefix, v: ALLOWED_PER_STEP[b, min(len(prefix), 1), v],
    ),
    "automaton": Case(
        {"rules": [Automaton(GRAMMAR)]}, lambda b, prefix, v: follows_grammar(prefix, v)
    ),
    "several": Case(
        {"min_length": 2, "no_repeat_ngram": 2, "banned_tokens": (0,), "repetition_penalty": 1.8},
        lambda b, prefix, v: (
            v != 0 and (v != END or len(prefix) >= 1) and not repeats_ngram(prefix, v, 2)
        ),
        penalize_repetition,
    ),
}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype("float64") - logits.max()
    return logits - np.log(np.exp(logits).sum())


def generate_sequences(tables: Tables, case: Case, source: int) -> Iterator[tuple[float, Prefix]]:
    """Yield every sequence that the case allows and its log probability."""
    unfinished: list[tuple[float, Prefix]] = [(0.0, ())]
    while unfinished:
        log_prob, prefix = unfinished.pop()
        context = [0, START, *prefix]
        logits = tables.first[source, context[-1]] + tables.second[source, context[-2]]
        for token, token_log_prob in enumerate(log_softmax(case.logits(logits, prefix))):
            if not case.is_allowed(source, prefix, token):
                continue
            extended = log_prob + token_log_prob, (*prefix, token)
            if token == END or len(prefix) + 1 == case.limit(source):
                yield extended
            else:
                unfinished.append(extended)


def best_two(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda one: -one.score)[:2]


@pytest.mark.parametrize("penalty", ["none", "average"])
@pytest.mark.parametrize("name", CASES)
def test_option_equals_exhaustive_search(name: str, penalty: str) -> None:
    case = CASES[name]
    tables = Tables.random(seed=len(name), sources=SOURCES, vocabulary=VOCABULARY)
    options = {"beam_width": WIDTH, "n_best": 2, "max_length": LIMIT, **case.options}
    result = tables.search(length_penalty=penalty, **options)
    for source in range(SOURCES):
        expected = best_two(
            [
                Hypothesis(p / PENALTIES[penalty](len(prefix), 1.0), prefix, prefix[-1] == END)
                for p, prefix in generate_sequences(tables, case, source)
            ]
        )
        assert (result.lengths[source] > 0).sum() == len(expected)
        for rank, one in enumerate(expected):
            length = len(one.tokens)
            assert tuple(result.tokens[source, rank, :length]) == one.tokens
            assert result.finished[source, rank] == one.finished
            np.testing.assert_allclose(result.scores[source, rank], one.score, rtol=1e-4, atol=1e-5)
            token_scores = result.token_scores[source, rank]
            total = one.score * PENALTIES[penalty](length, 1.0)
            np.testing.assert_allclose(token_scores.sum(), total, rtol=1e-4, atol=1e-5)
            assert not token_scores[length:].any()


def test_coverage_penalty_equals_exhaustive_search() -> None:
    tables = Tables.random(seed=8, sources=SOURCES, vocabulary=VOCABULARY)
    attention = RNG.random((SOURCES, VOCABULARY, SOURCE_LENGTH)) ** 2 * MASK[:, None]
    attention = (attention / attention.sum(-1, keepdims=True)).astype("float32")

    def step(tokens: Any, state: Any) -> StepOutput:
        return tables.step(tokens, state)._replace(attention=gather_rows(attention, tokens))

    options = {"beam_width": WIDTH, "n_best": 2, "max_length": LIMIT, "length_penalty": "gnmt"}
    result = tables.search(step=step, coverage_penalty=1.3, source_mask=MASK, **options)
    sources = range(0, SOURCES, 1 if FULL else 3)
    changed = 0
    for source in sources:
        plain, covered = [], []
        for log_prob, prefix in generate_sequences(tables, CASES["none"], source):
            score = log_prob / PENALTIES["gnmt"](len(prefix), 1.0)
            coverage_sum = attention[source, [START, *prefix[:-1]]].sum(0)[MASK[source]]
            plain.append(Hypothesis(score, prefix, True))
            coverage = np.log(np.clip(coverage_sum, 1e-9, 1)).sum()
            covered.append(Hypothesis(score + 1.3 * coverage, prefix, True))
        for rank, one in enumerate(best_two(covered)):
            assert tuple(result.tokens[source, rank, : len(one.tokens)]) == one.tokens
            np.testing.assert_allclose(result.scores[source, rank], one.score, rtol=1e-4, atol=1e-5)
        changed += best_two(plain)[0].tokens != best_two(covered)[0].tokens
    assert changed > 0.1 * len(sources)


@refuses(
    (
        {"min_length": 5, "max_length": 4},
        "min_length must be at most max_length, got min_length=5, max_length=4",
    ),
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
    ({"method": "sampling", "seed": 2**32}, "seed must be at most 4294967295, got 4294967296"),
    ({"max_length": 3 * 10**9}, "max_length must be at most 2147483647, got 3000000000"),
    (
        {"forced_tokens": {3 * 10**9: 5}},
        "a position of forced_tokens must be at most 2147483647, got 3000000000",
    ),
    (
        {"max_length_ratio": 1e9},
        "max_length_ratio must be a finite number from 1e-06 to 1000, got 1000000000.0",
    ),
    (
        {"banned_tokens": np.zeros((2, 200), int)},
        "an id of banned_tokens must be an integer of at least 0, got array([0, 0,",
    ),
    (
        {"beam_width": np.zeros(200)},
        "beam_width must be an integer of at least 1, got array([0., 0., 0.,",
    ),
    (
        {"n_best": 3, "beam_width": 2},
        "n_best must be at most beam_width, got n_best=3, beam_width=2",
    ),
    (
        {"groups": 2, "beam_width": 3, "method": "diverse_beam"},
        "groups must divide beam_width, got groups=2, beam_width=3",
    ),
    ({"method": "contrastive", "beam_width": 2}, "method 'contrastive' needs beam_width=1, got 2"),
    (
        {"temperature": 0.5},
        "temperature applies to method 'sampling' only, got temperature=0.5, method='beam'",
    ),
    ({"method": "beem"}, "unknown search method 'beem'; did you mean 'beam'"),
    (
        {"method": "sampling", "temperature": 0.0},
        "temperature must be a finite number of at least 1e-06, got 0.0",
    ),
    ({"method": "sampling", "top_p": 1.5}, "top_p must be a finite number from 0 to 1, got 1.5"),
    ({"method": "sampling", "top_p": 0}, "top_p must be above 0, got 0"),
    ({"banned_tokens": [-1]}, "an id of banned_tokens must be at least 0, got -1"),
    ({"banned_tokens": 7}, "banned_tokens must be a list of token ids, such as [2, 3], got 7"),
    (
        {"prefix_tokens": "ab"},
        "prefix_tokens must be a list of token ids, such as [2, 3], got 'ab'",
    ),
    (
        {"forced_tokens": {-1: 2}},
        "a position of forced_tokens must be at least 0, got -1",
    ),
    ({"forced_tokens": [1]}, "forced_tokens must be {position: token id}, got [1]"),
    ({"max_length_ratio": 0}, "max_length_ratio must be a finite number from 1e-06 to 1000, got 0"),
    ({"replace_unknown": 1}, "replace_unknown must be a bool, got 1"),
    (
        {"coverage_penalty": float("nan")},
        "coverage_penalty must be a finite number of at least 0, got nan",
    ),
    literal=True,
)
def test_conflicting_options_raise(options: Any) -> None:
    SearchOptions(**options)


@refuses(
    ({"banned_tokens": [5]}, "banned_tokens must be ids from 0 to 4, got 5"),
    ({"prefix_tokens": [9]}, "prefix_tokens must be ids from 0 to 4, got 9"),
    ({"forced_tokens": {0: 6}}, "forced_tokens must be ids from 0 to 4, got 6"),
    ({"banned_tokens": range(5)}, "banned_tokens bans all 5 tokens: allow some"),
    (
        {"prefix_tokens": [1, END], "min_length": 4},
        "prefix_tokens forces the end token at position 1 but min_length is 4",
    ),
    (
        {"prefix_tokens": [1, END], "forced_tokens": {2: 4}},
        "forced_tokens forces the end token at position 1 and a token after it, at position 2",
    ),
    ({"prefix": PREFIX[1:]}, "prefix must have 200 rows, one for each source, got shape (199, 2)"),
    (
        {"prefix": PREFIX[:2] * 0 + [[0, 0], [1, 5]], "sources": 2},
        "prefix of source 1 must be ids from 0 to 4, got 5",
    ),
    (
        {"prefix": np.array([[-1]] * 2), "sources": 2},
        "prefix of source 0 must be ids from 0 to 4, got -1",
    ),
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
    ({"source_mask": MASK[1:]}, "source_mask must be (200, any), got shape (199, 3)"),
    (
        {"source_mask": MASK[:, :2]},
        "the attention of step must be (200, 1, 2), got shape (200, 1, 3)",
    ),
    (
        {"source_mask": MASK.astype("float32")},
        "source_mask has dtype float32, but masks are boolean",
    ),
    ({"rules": ["x"]}, "rules must be a list of decoding.Rule, got a str in it"),
    (
        {"max_length": ops.convert_to_tensor(0)},
        "max_length must be at least 1, got 0",
    ),
    (
        {"max_length": ops.convert_to_tensor([3, 4])},
        "max_length must be a scalar integer, got int32 of shape (2,)",
    ),
    ({"source_keys": np.arange(3)}, "source_keys must be (200), got shape (3,)"),
    ({"start_token": np.arange(3)}, "start_token must be (200), got shape (3,)"),
    (
        {"rules": [AllowedTokens(ALLOWED_PER_SOURCE[1:])]},
        "mask must have 200 rows, one for each source, got shape (199, 5)",
    ),
    (
        {"forced_tokens": {1: END}, "min_length": 4},
        "forced_tokens forces the end token at position 1 but min_length is 4",
    ),
    ({"coverage_penalty": 1.0}, "coverage_penalty needs source_mask"),
    ({"max_length": None}, "max_length must be set unless source_mask is given, got None"),
    ({"prefix": np.array([1])}, "prefix must be ids (B, P), got int64 of shape (1,)"),
    (
        {"rules": [AllowedTokens(np.ones(4, bool))]},
        "the last axis of mask must be the vocabulary size 5, got shape (4,)",
    ),
    (
        {"rules": [Automaton(np.zeros((1, 4), int))]},
        "the last axis of transitions must be the vocabulary size 5, got shape (1, 4)",
    ),
    ({"method": "contrastive"}, "method 'contrastive' needs hidden, but step returns hidden=None"),
    literal=True,
)
def test_arguments_that_do_not_fit_the_decoder_raise(options: Any) -> None:
    options = dict(options)
    sources = options.pop("sources", SOURCES)
    tables = Tables.random(seed=1, sources=sources, vocabulary=VOCABULARY)
    options = {"batch_size": sources, "max_length": LIMIT} | options
    run_search(tables.step, tables.state(), **options)


@refuses(
    (np.zeros((2, 3)), "transitions must be integers (Q, V), got float64 of shape (2, 3)"),
    (np.full((2, 3), 2), "transitions must be states from 0 to 1, or -1, got 2"),
    (np.full((2, 3), -2), "transitions must be states from 0 to 1, or -1, got -2"),
    literal=True,
)
def test_invalid_transition_tables_raise(table: np.ndarray) -> None:
    Automaton(table)


def test_banned_end_token_gives_outputs_of_maximum_length() -> None:
    tables = Tables.random(seed=1, sources=SOURCES, vocabulary=VOCABULARY)
    options = {"banned_tokens": [END], "max_length_ratio": 2.0, "source_mask": MASK}
    result = tables.search(**options)
    assert result.lengths[:, 0].tolist() == (2 * LENGTHS).tolist()
    assert not result.finished.any()


def test_rules_may_be_an_iterator() -> None:
    tables = Tables.random(seed=1, sources=3, vocabulary=VOCABULARY)
    masks = [[True, True, False, False, False], [False, True, True, False, False]]
    rules = (AllowedTokens(mask) for mask in masks)
    assert (tables.search(max_length=2, rules=rules).tokens == 1).all()


@pytest.mark.parametrize("mode", MODES)
def test_empty_prefix_has_no_effect(mode: str) -> None:
    tables = Tables.random(seed=1, sources=3, vocabulary=VOCABULARY)
    options = {"batch_size": 3, "max_length": LIMIT, "beam_width": 2}

    def run(prefix: Any) -> Any:
        return run_search(tables.step, tables.state(), prefix=prefix, **options)

    result = to_numpy(compile_function(run, mode)(np.zeros((3, 0), "int32")))
    free = tables.search(**options)
    np.testing.assert_array_equal(result.tokens, free.tokens)


def test_allowed_tokens_accept_lists_and_reject_invalid_masks() -> None:
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


def test_a_forced_end_may_be_a_token_of_the_source() -> None:
    tables = Tables.random(seed=0, sources=2, vocabulary=6)
    source = np.array([[4, END], [4, 0]])
    options = {"no_repeat_source_ngram": 1, "force_end": True, "max_length": 3}
    result = tables.search("eager", source_tokens=source, **options)
    assert result.tokens[0, 0, 2] == END
    assert END not in result.tokens[0, 0, :2]
    assert 4 not in result.tokens


def test_a_forced_start_may_be_a_token_of_the_source() -> None:
    tables = Tables.random(seed=0, sources=1, vocabulary=6)
    options = {"no_repeat_source_ngram": 1, "forced_start": 4, "max_length": 2}
    result = tables.search("eager", source_tokens=np.array([[4, END]]), **options)
    assert result.tokens[0, 0, 0] == 4
    assert result.tokens[0, 0, 1] not in (4, END)


def test_source_tokens_are_required() -> None:
    tables = Tables.random(seed=0, sources=1, vocabulary=6)
    with pytest.raises(ValueError, match=r"no_repeat_source_ngram needs source_tokens \(B, S\)"):
        tables.search("eager", no_repeat_source_ngram=2, max_length=3)

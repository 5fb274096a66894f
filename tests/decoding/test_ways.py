"""Sampling, diverse beams, contrastive search, caches in place, ensembles: against words."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.decoding import InPlace, SearchOptions, SearchResult, StepOutput, ensemble
from attention_zoo.decoding import search as search_for
from tests.decoding.toy_decoders import (
    DEFAULT,
    END,
    ENDS,
    MODES,
    START,
    Hypothesis,
    Tables,
    assert_hypotheses,
    compiled,
    find,
    lookup,
    to_numpy,
)
from tests.tiers import FULL

LIMIT = 6


def run(tables: Tables, mode: str = DEFAULT, **options: Any) -> SearchResult:
    return tables.search(mode, **{"max_length": LIMIT} | options)


def flat(sources: int, row: list[float]) -> Tables:
    """Tables of one distribution whatever went before."""
    first = np.broadcast_to(np.log(row), (sources, len(row), len(row)))
    return Tables(first.astype("float32"), np.zeros_like(first, "float32"))


def shares(result: SearchResult, size: int) -> np.ndarray:
    return np.bincount(result.tokens[..., 0].ravel(), minlength=size) / result.tokens[..., 0].size


ROW = [0.4, 0.05, 0.25, 0.1, 0.2]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, ROW),
        ({"temperature": 0.5}, [0.16, 0.0025, 0.0625, 0.01, 0.04]),
        ({"top_k": 2}, [0.4, 0, 0.25, 0, 0]),
        ({"top_p": 0.65}, [0.4, 0, 0.25, 0, 0]),
        ({"top_p": 0.66}, [0.4, 0, 0.25, 0, 0.2]),
        ({"min_p": 0.5}, [0.4, 0, 0.25, 0, 0.2]),
        ({"top_k": 3, "min_p": 0.6}, [0.4, 0, 0.25, 0, 0]),
        ({"banned_tokens": [0]}, [0, 0.05, 0.25, 0.1, 0.2]),
    ],
    ids=str,
)
def test_samples_are_drawn_as_often_as_they_are_likely(options: dict, want: list[float]) -> None:
    count = 40_000
    tables = flat(20, ROW)
    result = run(tables, method="sampling", beam_width=count // 20, max_length=1, **options)
    expected = np.array(want) / np.sum(want)
    deviation = np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(shares(result, 5) - expected) <= 4.5 * deviation).all()
    log_probs = np.log(ROW)[result.tokens[..., 0]]
    np.testing.assert_allclose(result.scores, log_probs, rtol=1e-5)


def test_a_sequence_of_draws_scores_as_the_decoder_has_it() -> None:
    tables = Tables.random(seed=2, sources=10, vocabulary=7)
    result = run(tables, method="sampling", beam_width=5, temperature=1.7)
    assert (np.diff(result.scores, axis=1) <= 0).all()
    for source, rank in itertools.product(range(10), range(5)):
        length = int(result.lengths[source, rank])
        tokens = result.tokens[source, rank, :length].tolist()
        steps = [tables.log_probs(source, tokens[:t])[tokens[t]] for t in range(length)]
        np.testing.assert_allclose(result.token_scores[source, rank, :length], steps, atol=1e-4)
        assert result.finished[source, rank] == (tokens[-1] == END)


KEYS = np.array([5, 9, 5, 2], "int32")
SAMPLING = {"method": "sampling", "beam_width": 3, "seed": 7}


@pytest.mark.parametrize("mode", MODES)
def test_samples_depend_on_the_seed(mode: str) -> None:
    tables = Tables.random(seed=2, sources=4, vocabulary=7)
    first, again, other = (
        run(tables, search, source_keys=KEYS, **SAMPLING | {"seed": seed})
        for search, seed in ((mode, 7), (DEFAULT, 7), (mode, 8))
    )
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert (first.tokens != other.tokens).any()


@pytest.mark.parametrize("mode", MODES)
def test_samples_of_a_source_are_the_same_in_any_batch(mode: str) -> None:
    tables = Tables.random(seed=2, sources=4, vocabulary=7)
    together = run(tables, mode, source_keys=KEYS, **SAMPLING)
    for source in range(4 if FULL else 1):
        alone = run(tables.row(source), mode, source_keys=KEYS[[source]], **SAMPLING)
        np.testing.assert_array_equal(alone.tokens[0], together.tokens[source])
    twin = Tables(tables.first[[0, 0]], tables.second[[0, 0]])
    same = run(twin, mode, source_keys=KEYS[[0, 2]], **SAMPLING)
    np.testing.assert_array_equal(same.tokens[0], same.tokens[1])


def test_sampling_of_the_likeliest_is_greedy() -> None:
    tables = Tables.random(seed=4, sources=10, vocabulary=7)
    greedy = run(tables)
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-4}):
        sampled = run(tables, method="sampling", **options)
        np.testing.assert_array_equal(sampled.tokens, greedy.tokens)


def diverse_by_hand(
    tables: Tables, source: int, width: int, groups: int, penalty: float
) -> list[Hypothesis]:
    """Diverse beam search as it is told in words; never stops early."""
    size, vocabulary = width // groups, tables.first.shape[-1]
    running: list[list[tuple[float, tuple[int, ...]]]] = [[(0.0, ())] for _ in range(groups)]
    ended: list[list[Hypothesis]] = [[] for _ in range(groups)]
    for length in range(1, LIMIT + 1):
        counts = np.zeros(vocabulary)
        for group in range(groups):
            grown = [
                (p + float(more) - penalty * counts[v], p + float(more), (*taken, v))
                for p, taken in running[group]
                for v, more in enumerate(tables.log_probs(source, taken))
            ]
            kept = sorted(grown, key=lambda one: -one[0])[:size]
            for _, _, taken in kept:
                counts[taken[-1]] += 1
            over = [taken[-1] == END or length == LIMIT for _, _, taken in kept]
            ended[group] += [
                Hypothesis(p, taken, taken[-1] == END)
                for (_, p, taken), done in zip(kept, over, strict=True)
                if done
            ]
            ended[group] = sorted(ended[group], key=lambda one: -one.score)[:size]
            running[group] = [
                (p, taken) for (_, p, taken), done in zip(kept, over, strict=True) if not done
            ]
            worst = ended[group][-1].score if len(ended[group]) == size else -np.inf
            if running[group] and max(p for p, _ in running[group]) <= worst:
                running[group] = []
    return sorted(itertools.chain(*ended), key=lambda one: -one.score)[:width]


@pytest.mark.parametrize("mode", ENDS)
@pytest.mark.parametrize(("width", "groups", "penalty"), [(4, 2, 0.8), (3, 3, 2.0), (6, 2, 0.0)])
def test_groups_avoid_each_other(mode: str, width: int, groups: int, penalty: float) -> None:
    tables = Tables.random(seed=width, sources=200, vocabulary=7, end_bias=1.0)
    options = {"method": "diverse_beam", "groups": groups, "diversity_penalty": penalty}
    result = run(tables, mode, beam_width=width, **options)
    for source in range(200):
        want = diverse_by_hand(tables, source, width, groups, penalty)
        assert_hypotheses(tables, source, result, want)


def test_one_group_is_beam_search() -> None:
    tables = Tables.random(seed=1, sources=10, vocabulary=7)
    plain = run(tables, beam_width=4)
    diverse = run(tables, beam_width=4, method="diverse_beam")
    np.testing.assert_array_equal(plain.tokens, diverse.tokens)


def hidden_of(taken: tuple[int, ...]) -> np.ndarray:
    """What the toy decoder below puts out after a sequence."""
    h = np.zeros(3)
    for token in (START, *taken):
        h = 0.5 * h + np.array([np.sin(token), np.cos(2.0 * token), 0.3 * token - 0.5])
    return h


def contrastive_by_hand(
    tables: Tables, source: int, count: int, weight: float
) -> tuple[tuple[int, ...], float]:
    taken: tuple[int, ...] = ()
    total = 0.0
    unit = lambda x: x / np.linalg.norm(x)  # noqa: E731
    while len(taken) < LIMIT and END not in taken:
        log_probs = tables.log_probs(source, taken)
        written = [unit(hidden_of(taken[:t])) for t in range(len(taken) + 1)]
        best, choice = -np.inf, -1
        for token in np.argsort(-log_probs, kind="stable")[:count]:
            new = unit(hidden_of((*taken, int(token))))
            value = (1 - weight) * np.exp(log_probs[token])
            value -= weight * max(new @ old for old in written)
            if value > best:
                best, choice = value, int(token)
        total += log_probs[choice]
        taken = (*taken, choice)
    return taken, total


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("count", "weight"), [(4, 0.6), (3, 0.3), (9, 0.9), (1, 0.5), (4, 0.0)])
def test_takes_what_is_likely_and_new(mode: str, count: int, weight: float) -> None:
    tables = Tables.random(seed=count, sources=200, vocabulary=7)

    def step(tokens: Any, state: Any) -> StepOutput:
        tables_state, hidden = state
        output = tables.step(tokens, tables_state)
        now = ops.cast(tokens, "float32")
        new = ops.stack([ops.sin(now), ops.cos(2.0 * now), 0.3 * now - 0.5], axis=-1)
        hidden = 0.5 * hidden + new
        return output._replace(state=(output.state, hidden), hidden=hidden)

    def contrast() -> SearchResult:
        options = SearchOptions(
            method="contrastive", candidates=count, degeneration_penalty=weight, max_length=LIMIT
        )
        state = tables.state(), ops.zeros((200, 3))
        request = {"batch_size": 200, "start_token": START, "end_token": END}
        return search_for(step, state, options, **request)

    result = to_numpy(compiled(contrast, mode)())
    for source in range(200):
        taken, total = contrastive_by_hand(tables, source, count, weight)
        assert_hypotheses(tables, source, result, [Hypothesis(total, taken, taken[-1] == END)])


def cached(tables: Tables, width: int) -> tuple[Any, Any]:
    """The tables as a decoder that keeps all its tokens in a cache that is never re-ordered."""

    def step(tokens: Any, state: Any) -> StepOutput:
        (cache, _), parents = state["cache"].value, state["parents"]
        at = ops.max(state["at"])
        cache = ops.slice_update(cache, (0, at, 0), tokens[:, None])
        here = ops.arange(tokens.shape[1], dtype="int32")
        here = ops.broadcast_to(here, ops.shape(tokens))[..., None]
        parents = ops.slice_update(parents, (0, 0, at), here)
        last = ops.maximum(at - 1, 0)
        before = ops.take(parents, last, axis=2)
        previous = ops.take_along_axis(ops.take(cache, last, axis=1), before, axis=1)
        previous = ops.where(at > 0, previous, 0)
        logits = lookup(tables.first, tokens) + lookup(tables.second, previous)
        state = {"cache": InPlace([cache, cache]), "parents": parents, "at": state["at"] + 1}
        return StepOutput(logits, state)

    sources, steps = tables.sources, LIMIT + 1
    cache = ops.zeros((sources, steps, width), dtype="int32")
    parents = ops.zeros((sources, steps), dtype="int32")
    return step, {"cache": InPlace([cache, cache]), "parents": parents, "at": parents[:, 0]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 4])
def test_a_cache_in_place_is_found_again(mode: str, width: int) -> None:
    tables = Tables.random(seed=3, sources=12, vocabulary=7)
    step, state = cached(tables, width)
    options = {"batch_size": 12, "max_length": LIMIT, "beam_width": width}
    result = to_numpy(compiled(lambda: find(step, state, **options), mode)())
    want = run(tables, mode, beam_width=width)
    np.testing.assert_array_equal(result.tokens, want.tokens)
    np.testing.assert_allclose(result.scores, want.scores, rtol=1e-5)


@pytest.mark.parametrize("mode", ENDS)
def test_an_ensemble_is_the_mean_of_probabilities(mode: str) -> None:
    one, two = (Tables.random(seed=s, sources=10, vocabulary=7) for s in (1, 2))

    def both() -> SearchResult:
        step = ensemble([one.step, two.step])
        state = one.state(), two.state()
        return find(step, state, batch_size=10, beam_width=3, max_length=LIMIT)

    result = to_numpy(compiled(both, mode)())
    for source in range(10):
        for rank in range(3):
            length = int(result.lengths[source, rank])
            tokens = result.tokens[source, rank, :length].tolist()
            for t in range(length):
                parts = [np.exp(x.log_probs(source, tokens[:t])) for x in (one, two)]
                want = np.log(np.mean(parts, axis=0))[tokens[t]]
                np.testing.assert_allclose(result.token_scores[source, rank, t], want, atol=1e-4)
            looks = [
                np.mean([x.attention(tokens[:t]) for x in (one, two)], 0) for t in range(length)
            ]
            np.testing.assert_allclose(result.attention[source, rank, :length], looks, rtol=1e-5)


def test_an_ensemble_of_the_same_is_the_same() -> None:
    tables = Tables.random(seed=1, sources=10, vocabulary=7)
    state = tables.state(), tables.state(), tables.state()
    step = ensemble([tables.step] * 3)
    result = to_numpy(find(step, state, batch_size=10, beam_width=2, max_length=LIMIT))
    np.testing.assert_array_equal(result.tokens, run(tables, beam_width=2).tokens)


def test_members_of_an_ensemble_may_differ_in_precision() -> None:
    one, two = (Tables.random(seed=s, sources=3, vocabulary=7) for s in (1, 2))

    def half(tokens: Any, state: Any) -> StepOutput:
        output = two.step(tokens, state)
        logits, attention = (ops.cast(x, "float16") for x in (output.logits, output.attention))
        return output._replace(logits=logits, attention=attention)

    state = one.state(), two.state()
    options = {"batch_size": 3, "beam_width": 2, "max_length": LIMIT}
    mixed = to_numpy(find(ensemble([one.step, half]), state, **options))
    full = to_numpy(find(ensemble([one.step, two.step]), state, **options))
    np.testing.assert_array_equal(mixed.tokens, full.tokens)
    np.testing.assert_allclose(mixed.attention, full.attention, rtol=1e-2)


def test_ensembles_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="ensemble needs at least one step function"):
        ensemble([])
    one, two = (Tables.random(seed=1, sources=2, vocabulary=v) for v in (6, 7))
    step = ensemble([one.step, two.step])
    with pytest.raises(ValueError, match=r"one vocabulary size, got \[6, 7\]"):
        find(step, (one.state(), two.state()), batch_size=2, max_length=3)

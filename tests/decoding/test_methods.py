"""Sampling, diverse beam search, contrastive search, in-place caches and ensembles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.decoding import InPlace, SearchOptions, SearchResult, StepOutput, ensemble
from attention_zoo.decoding import search as search_function
from tests.decoding.toy_decoders import (
    DEFAULT_MODE,
    EDGE_MODES,
    END,
    MODES,
    START,
    Hypothesis,
    Tables,
    assert_hypotheses,
    compile_function,
    gather_rows,
    run_search,
    to_numpy,
)
from tests.tiers import FULL

LIMIT = 6


def run(tables: Tables, mode: str = DEFAULT_MODE, **options: Any) -> SearchResult:
    return tables.search(mode, **{"max_length": LIMIT} | options)


def make_constant_tables(sources: int, row: list[float]) -> Tables:
    """Return tables with one distribution for all prefixes."""
    first = np.broadcast_to(np.log(row), (sources, len(row), len(row)))
    return Tables(first.astype("float32"), np.zeros_like(first, "float32"))


def compute_token_frequencies(result: SearchResult, size: int) -> np.ndarray:
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
def test_sample_frequencies_match_probabilities(options: dict, want: list[float]) -> None:
    count = 40_000
    tables = make_constant_tables(20, ROW)
    result = run(tables, method="sampling", beam_width=count // 20, max_length=1, **options)
    expected = np.array(want) / np.sum(want)
    deviation = np.sqrt(expected * (1 - expected) / count)
    assert (np.abs(compute_token_frequencies(result, 5) - expected) <= 4.5 * deviation).all()
    log_probs = np.log(ROW)[result.tokens[..., 0]]
    np.testing.assert_allclose(result.scores, log_probs, rtol=1e-5)


def test_sample_scores_are_decoder_log_probs() -> None:
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
        for search, seed in ((mode, 7), (DEFAULT_MODE, 7), (mode, 8))
    )
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert (first.tokens != other.tokens).any()


@pytest.mark.parametrize("mode", MODES)
def test_samples_do_not_depend_on_the_batch(mode: str) -> None:
    tables = Tables.random(seed=2, sources=4, vocabulary=7)
    together = run(tables, mode, source_keys=KEYS, **SAMPLING)
    for source in range(4 if FULL else 1):
        alone = run(tables.row(source), mode, source_keys=KEYS[[source]], **SAMPLING)
        np.testing.assert_array_equal(alone.tokens[0], together.tokens[source])
    twin = Tables(tables.first[[0, 0]], tables.second[[0, 0]])
    same = run(twin, mode, source_keys=KEYS[[0, 2]], **SAMPLING)
    np.testing.assert_array_equal(same.tokens[0], same.tokens[1])


def test_sampling_from_one_token_is_greedy_search() -> None:
    tables = Tables.random(seed=4, sources=10, vocabulary=7)
    greedy = run(tables)
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-4}):
        sampled = run(tables, method="sampling", **options)
        np.testing.assert_array_equal(sampled.tokens, greedy.tokens)


def reference_diverse_beam_search(
    tables: Tables, source: int, width: int, groups: int, penalty: float, n_best: int
) -> list[Hypothesis]:
    """Run diverse beam search in plain Python, without stopping early.

    If `n_best` exceeds the size of a group, equal hypotheses in later groups are the last choice.
    """
    size, vocabulary = width // groups, tables.first.shape[-1]
    running: list[list[tuple[float, tuple[int, ...]]]] = [[(0.0, ())] for _ in range(groups)]
    finished: list[list[Hypothesis]] = [[] for _ in range(groups)]
    for length in range(1, LIMIT + 1):
        counts = np.zeros(vocabulary)
        taken: set[tuple[int, ...]] = set()
        for group in range(groups):
            candidates = [
                (
                    p
                    + float(token_log_prob)
                    - penalty * counts[v]
                    - 1e9 * (n_best > size and (*prefix, v) in taken),
                    p + float(token_log_prob),
                    (*prefix, v),
                )
                for p, prefix in running[group]
                for v, token_log_prob in enumerate(tables.log_probs(source, prefix))
            ]
            beam = sorted(candidates, key=lambda one: -one[0])[:size]
            taken |= {prefix for _, _, prefix in beam}
            for _, _, prefix in beam:
                counts[prefix[-1]] += 1
            is_complete = [prefix[-1] == END or length == LIMIT for _, _, prefix in beam]
            finished[group] += [
                Hypothesis(p, prefix, prefix[-1] == END)
                for (_, p, prefix), complete in zip(beam, is_complete, strict=True)
                if complete
            ]
            finished[group] = sorted(finished[group], key=lambda one: -one.score)[:size]
            running[group] = [
                (p, prefix)
                for (_, p, prefix), complete in zip(beam, is_complete, strict=True)
                if not complete
            ]
            worst = finished[group][-1].score if len(finished[group]) == size else -np.inf
            if running[group] and max(p for p, _ in running[group]) <= worst:
                running[group] = []
    best = sorted(itertools.chain(*finished), key=lambda one: -one.score)
    is_repeated = [
        one.tokens in {other.tokens for other in best[:at]} for at, one in enumerate(best)
    ]
    order = sorted(range(len(best)), key=lambda at: is_repeated[at])  # distinct ones first
    return [best[at] for at in order][:n_best]


@pytest.mark.parametrize("mode", EDGE_MODES)
@pytest.mark.parametrize(
    ("width", "groups", "penalty", "n_best"),
    [(4, 2, 0.8, 2), (4, 2, 0.8, 4), (3, 3, 2.0, 1), (3, 3, 0.5, 3), (6, 2, 0.0, 6)],
)
def test_diverse_beam_search_equals_reference(
    mode: str, width: int, groups: int, penalty: float, n_best: int
) -> None:
    tables = Tables.random(seed=width, sources=200, vocabulary=7, end_bias=1.0)
    options = {"method": "diverse_beam", "groups": groups, "diversity_penalty": penalty}
    result = run(tables, mode, beam_width=width, n_best=n_best, **options)
    for source in range(200):
        expected = reference_diverse_beam_search(tables, source, width, groups, penalty, n_best)
        assert_hypotheses(tables, source, result, expected)


def test_groups_repeat_a_hypothesis_only_if_the_rules_allow_no_other() -> None:
    tables = make_constant_tables(1, [0.001, 0.001, 0.001, 0.097, 0.9])
    options = {"method": "diverse_beam", "beam_width": 3, "groups": 3, "n_best": 3}
    result = run(tables, **options, diversity_penalty=0.0)
    assert len({tuple(row) for row in result.tokens[0].tolist()}) == 3
    forced = run(tables, **options, diversity_penalty=0.0, forced_tokens={0: 4, 1: 4})
    assert len({tuple(row) for row in forced.tokens[0].tolist()}) == 3
    np.testing.assert_allclose(forced.token_scores[0, :, 0], np.log(0.9), rtol=1e-5)
    forced = run(tables, **options, forced_tokens=dict.fromkeys(range(LIMIT), 4))
    assert len({tuple(row) for row in forced.tokens[0].tolist()}) == 1


def test_diverse_beam_search_with_one_group_is_beam_search() -> None:
    tables = Tables.random(seed=1, sources=10, vocabulary=7)
    plain = run(tables, beam_width=4)
    diverse = run(tables, beam_width=4, method="diverse_beam")
    np.testing.assert_array_equal(plain.tokens, diverse.tokens)


def compute_hidden(prefix: tuple[int, ...]) -> np.ndarray:
    """Return the hidden vector of the toy decoder below after a sequence."""
    h = np.zeros(3)
    for token in (START, *prefix):
        h = 0.5 * h + np.array([np.sin(token), np.cos(2.0 * token), 0.3 * token - 0.5])
    return h


def reference_contrastive_search(
    tables: Tables, source: int, count: int, weight: float
) -> tuple[tuple[int, ...], float]:
    prefix: tuple[int, ...] = ()
    total = 0.0
    normalize = lambda x: x / np.linalg.norm(x)  # noqa: E731
    while len(prefix) < LIMIT and END not in prefix:
        log_probs = tables.log_probs(source, prefix)
        context_hidden = [normalize(compute_hidden(prefix[:t])) for t in range(len(prefix) + 1)]
        best, choice = -np.inf, -1
        for token in np.argsort(-log_probs, kind="stable")[:count]:
            new = normalize(compute_hidden((*prefix, int(token))))
            value = (1 - weight) * np.exp(log_probs[token])
            value -= weight * max(new @ old for old in context_hidden)
            if value > best:
                best, choice = value, int(token)
        total += log_probs[choice]
        prefix = (*prefix, choice)
    return prefix, total


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("count", "weight"), [(4, 0.6), (3, 0.3), (9, 0.9), (1, 0.5), (4, 0.0)])
def test_contrastive_search_equals_reference(mode: str, count: int, weight: float) -> None:
    tables = Tables.random(seed=count, sources=200, vocabulary=7)

    def step(tokens: Any, state: Any) -> StepOutput:
        tables_state, hidden = state
        output = tables.step(tokens, tables_state)
        now = ops.cast(tokens, "float32")
        new = ops.stack([ops.sin(now), ops.cos(2.0 * now), 0.3 * now - 0.5], axis=-1)
        hidden = 0.5 * hidden + new
        return output._replace(state=(output.state, hidden), hidden=hidden)

    def run_contrastive() -> SearchResult:
        options = SearchOptions(
            method="contrastive", candidates=count, degeneration_penalty=weight, max_length=LIMIT
        )
        state = tables.state(), ops.zeros((200, 3))
        arguments = {"batch_size": 200, "start_token": START, "end_token": END}
        return search_function(step, state, options, **arguments)

    result = to_numpy(compile_function(run_contrastive, mode)())
    for source in range(200):
        prefix, total = reference_contrastive_search(tables, source, count, weight)
        assert_hypotheses(tables, source, result, [Hypothesis(total, prefix, prefix[-1] == END)])


def make_cached_step(tables: Tables, width: int) -> tuple[Any, Any]:
    """Return a decoder that keeps its tokens in a cache that is never reordered."""

    def step(tokens: Any, state: Any) -> StepOutput:
        (cache, _), parents = state["cache"].value, state["parents"]
        step_index = ops.max(state["at"])
        cache = ops.slice_update(cache, (0, step_index, 0), tokens[:, None])
        beam_index = ops.arange(tokens.shape[1], dtype="int32")
        beam_index = ops.broadcast_to(beam_index, ops.shape(tokens))[..., None]
        parents = ops.slice_update(parents, (0, 0, step_index), beam_index)
        last = ops.maximum(step_index - 1, 0)
        before = ops.take(parents, last, axis=2)
        previous = ops.take_along_axis(ops.take(cache, last, axis=1), before, axis=1)
        previous = ops.where(step_index > 0, previous, 0)
        logits = gather_rows(tables.first, tokens) + gather_rows(tables.second, previous)
        state = {"cache": InPlace([cache, cache]), "parents": parents, "at": state["at"] + 1}
        return StepOutput(logits, state)

    sources, steps = tables.sources, LIMIT + 1
    cache = ops.zeros((sources, steps, width), dtype="int32")
    parents = ops.zeros((sources, steps), dtype="int32")
    return step, {"cache": InPlace([cache, cache]), "parents": parents, "at": parents[:, 0]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 4])
def test_in_place_cache_equals_reordered_state(mode: str, width: int) -> None:
    tables = Tables.random(seed=3, sources=12, vocabulary=7)
    step, state = make_cached_step(tables, width)
    options = {"batch_size": 12, "max_length": LIMIT, "beam_width": width}
    result = to_numpy(compile_function(lambda: run_search(step, state, **options), mode)())
    expected = run(tables, mode, beam_width=width)
    np.testing.assert_array_equal(result.tokens, expected.tokens)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-5)


@pytest.mark.parametrize("mode", EDGE_MODES)
def test_ensemble_averages_probabilities(mode: str) -> None:
    one, two = (Tables.random(seed=s, sources=10, vocabulary=7) for s in (1, 2))

    def run_ensemble() -> SearchResult:
        step = ensemble([one.step, two.step])
        state = one.state(), two.state()
        return run_search(step, state, batch_size=10, beam_width=3, max_length=LIMIT)

    result = to_numpy(compile_function(run_ensemble, mode)())
    for source in range(10):
        for rank in range(3):
            length = int(result.lengths[source, rank])
            tokens = result.tokens[source, rank, :length].tolist()
            for t in range(length):
                probs = [np.exp(x.log_probs(source, tokens[:t])) for x in (one, two)]
                expected = np.log(np.mean(probs, axis=0))[tokens[t]]
                score = result.token_scores[source, rank, t]
                np.testing.assert_allclose(score, expected, atol=1e-4)
            attention = [
                np.mean([x.attention(tokens[:t]) for x in (one, two)], 0) for t in range(length)
            ]
            np.testing.assert_allclose(
                result.attention[source, rank, :length], attention, rtol=1e-5
            )


def test_ensemble_of_identical_decoders_equals_one_decoder() -> None:
    tables = Tables.random(seed=1, sources=10, vocabulary=7)
    state = tables.state(), tables.state(), tables.state()
    step = ensemble([tables.step] * 3)
    result = to_numpy(run_search(step, state, batch_size=10, beam_width=2, max_length=LIMIT))
    np.testing.assert_array_equal(result.tokens, run(tables, beam_width=2).tokens)


def test_ensemble_members_may_differ_in_dtype() -> None:
    one, two = (Tables.random(seed=s, sources=3, vocabulary=7) for s in (1, 2))

    def half(tokens: Any, state: Any) -> StepOutput:
        output = two.step(tokens, state)
        logits, attention = (ops.cast(x, "float16") for x in (output.logits, output.attention))
        return output._replace(logits=logits, attention=attention)

    state = one.state(), two.state()
    options = {"batch_size": 3, "beam_width": 2, "max_length": LIMIT}
    mixed = to_numpy(run_search(ensemble([one.step, half]), state, **options))
    full = to_numpy(run_search(ensemble([one.step, two.step]), state, **options))
    np.testing.assert_array_equal(mixed.tokens, full.tokens)
    np.testing.assert_allclose(mixed.attention, full.attention, rtol=1e-2)


def test_invalid_ensembles_raise() -> None:
    with pytest.raises(ValueError, match="ensemble needs at least one step function"):
        ensemble([])
    one, two = (Tables.random(seed=1, sources=2, vocabulary=v) for v in (6, 7))
    step = ensemble([one.step, two.step])
    with pytest.raises(ValueError, match=r"one vocabulary size, got \[6, 7\]"):
        run_search(step, (one.state(), two.state()), batch_size=2, max_length=3)

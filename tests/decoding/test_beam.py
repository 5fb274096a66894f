"""Beam search against what can be counted by hand, by trying everything, by another library."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.decoding import SearchResult, StepOutput, beam_search
from tests.decoding.toy_decoders import (
    DEFAULT,
    END,
    ENDS,
    MODES,
    PENALTIES,
    START,
    Hypothesis,
    Tables,
    assert_hypotheses,
    beam_by_hand,
    compiled,
    find,
    lookup,
    to_numpy,
)
from tests.tiers import FULL

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "beam.npz")


def searcher(mode: str, **options: Any) -> Callable[[Tables], SearchResult]:
    """Searches tables; those of one shape share one compilation."""
    options = {"max_length": 8} | options

    def search(first: Any, second: Any) -> SearchResult:
        tables = Tables(first, second)
        return find(tables.step, tables.state(), batch_size=tables.sources, **options)

    run = compiled(search, mode)
    return lambda tables: to_numpy(run(*map(ops.convert_to_tensor, tables)))


def search(tables: Tables, mode: str = DEFAULT, **options: Any) -> SearchResult:
    return searcher(mode, **options)(tables)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("width", "penalty", "weight"),
    [(1, "none", 1.0), (2, "gnmt", 0.7), (3, "average", 1.0), (4, "gnmt", 2.0), (5, "none", 0.0)],
)
def test_is_the_algorithm_told_in_words(mode: str, width: int, penalty: str, weight: float) -> None:
    tables = Tables.random(seed=width, sources=6, vocabulary=7, end_bias=1.0)
    result = search(
        tables, mode, beam_width=width, length_penalty=penalty, length_penalty_weight=weight
    )
    for source in range(tables.sources):
        want = beam_by_hand(tables, source, width, 8, penalty, weight)[:width]
        assert_hypotheses(tables, source, result, want)


@pytest.mark.parametrize("penalty", sorted(PENALTIES))
def test_a_beam_that_holds_all_finds_the_best_of_all_sequences(penalty: str) -> None:
    vocabulary, limit = 5, 4
    tables = Tables.random(seed=11, sources=200 if FULL else 80, vocabulary=vocabulary)
    width = (vocabulary - 1) ** (limit - 1) * vocabulary
    result = search(tables, max_length=limit, beam_width=width, length_penalty=penalty)
    goes_on = [token for token in range(vocabulary) if token != END]
    for source in range(tables.sources):
        every = []
        for length in range(1, limit + 1):
            for start in itertools.product(goes_on, repeat=length - 1):
                steps = [tables.log_probs(source, start[:t])[start[t]] for t in range(length - 1)]
                for token in range(vocabulary) if length == limit else [END]:
                    total = sum(steps) + tables.log_probs(source, start)[token]
                    score = float(total) / PENALTIES[penalty](length, 1.0)
                    every.append(Hypothesis(score, (*start, token), token == END))
        every.sort(key=lambda one: -one.score)
        assert_hypotheses(tables, source, result, every[:3])


def test_no_width_finds_better_than_all_there_are_and_wider_is_better() -> None:
    tables = Tables.random(seed=12, sources=200, vocabulary=5)
    options = {"max_length": 4, "length_penalty": "average", "n_best": 1}
    widths = (1, 2, 4, 8, 64, 320, 400) if FULL else (1, 3, 320, 400)
    best = np.stack([search(tables, beam_width=w, **options).scores[:, 0] for w in widths])
    assert (best <= best[-1] + 1e-6).all()
    np.testing.assert_allclose(best[-2], best[-1], rtol=1e-6)  # both hold every sequence
    assert (np.diff(best.mean(1)) >= 0).all()
    assert (best[0] < best[-1] - 1e-3).sum() > 20  # there was something to find


def test_beam_search_in_one_call() -> None:
    tables = Tables.random(seed=6, sources=4, vocabulary=8)
    given = {"batch_size": 4, "start_token": START, "end_token": END, "max_length": 6}
    result = to_numpy(
        beam_search(tables.step, tables.state(), beam_width=3, pad_token=1, min_length=3, **given)
    )
    want = search(tables, max_length=6, beam_width=3, min_length=3)
    np.testing.assert_allclose(result.scores, want.scores, rtol=1e-6)
    within = np.arange(6) < result.lengths[..., None]
    np.testing.assert_array_equal(result.tokens, np.where(within, want.tokens, 1))
    with pytest.raises(ValueError, match="option 'beam_size'; did you mean"):
        beam_search(tables.step, tables.state(), beam_width=3, beam_size=3, **given)


@pytest.mark.parametrize("mode", MODES)
def test_width_one_is_greedy(mode: str) -> None:
    tables = Tables.random(seed=3, sources=200, vocabulary=9)
    greedy = search(tables, mode, beam_width=1, max_length=6)
    for source in range(200):
        taken: list[int] = []
        while len(taken) < 6 and END not in taken:
            taken.append(int(tables.log_probs(source, taken).argmax()))
        assert greedy.tokens[source, 0].tolist() == taken + [0] * (6 - len(taken))
        assert bool(greedy.finished[source, 0]) == (END in taken)
    assert {True, False} == set(greedy.finished[:, 0].tolist())


@pytest.mark.parametrize("mode", ENDS)
@pytest.mark.parametrize("n_best", [1, 3])
def test_a_source_alone_is_the_same_as_in_a_batch(mode: str, n_best: int) -> None:
    tables = Tables.random(seed=5, sources=5, vocabulary=8, end_bias=0.5)
    tables.first[2, :, END] = -30.0  # one that keeps the loop running to its end
    tables.first[4, :, END] = 30.0  # one that is over at once
    options = {"beam_width": 3, "n_best": n_best, "length_penalty": "gnmt", "max_length": 12}
    run = searcher(mode, **options)
    together = run(tables)
    for source in range(5) if FULL else (2, 4):
        alone = run(tables.row(source))
        for whole, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[source], one[0], rtol=1e-6)


def test_asking_for_fewer_changes_nothing_about_the_best() -> None:
    tables = Tables.random(seed=6, sources=30, vocabulary=8)
    options = {"beam_width": 4, "length_penalty": "average", "max_length": 10}
    every, two = search(tables, **options), search(tables, n_best=2, **options)
    assert two.tokens.shape == (30, 2, 10)
    for whole, part in zip(every, two, strict=True):
        np.testing.assert_allclose(whole[:, :2], part, rtol=1e-6)


@pytest.mark.parametrize("mode", ENDS)
@pytest.mark.parametrize("run", ["w4_lp0_cp0", "w4_lp0.7_cp0", "w1_lp0_cp0"])
@pytest.mark.parametrize(
    "case", ["beam_markov", "beam_second_order", "beam_early_stop", "beam_reorder"]
)
def test_the_best_is_that_of_tensorflow_addons(case: str, run: str, mode: str) -> None:
    tables = {key: GOLDEN[f"{case}/{key}"] for key in ("logits", "alignments", "start_tokens")}
    second = GOLDEN.get(f"{case}/logits2")
    want = {key: GOLDEN[f"{case}/{run}/best_{key}"] for key in ("ids", "lengths", "log_probs")}
    weight = float(GOLDEN[f"{case}/{run}/length_penalty_weight"])
    limit, end = int(GOLDEN[f"{case}/max_steps"]), int(GOLDEN[f"{case}/end_token"])

    def step(tokens: Any, state: tuple[Any, Any]) -> StepOutput:
        previous, seen = state
        logits = lookup(tables["logits"], tokens)
        if second is not None:
            more = lookup(second, previous)
            logits = logits + ops.where(seen[..., None] > 0, more, 0.0)
        state = (tokens, ops.ones_like(seen))
        return StepOutput(logits, state, lookup(tables["alignments"], tokens))

    def run_it() -> SearchResult:
        return find(
            step,
            (ops.zeros((2,), dtype="int32"), ops.zeros((2,), dtype="int32")),
            batch_size=2,
            start_token=tables["start_tokens"],
            end_token=end,
            max_length=limit,
            beam_width=int(GOLDEN[f"{case}/{run}/beam_width"]),
            length_penalty="gnmt",
            length_penalty_weight=weight,
        )

    result = to_numpy(compiled(run_it, mode)())
    for source, length in enumerate(want["lengths"]):
        ids = want["ids"][source, :length].tolist()
        assert result.tokens[source, 0].tolist() == ids + [0] * (limit - length)
        score = want["log_probs"][source] / ((5 + length) / 6) ** weight
        np.testing.assert_allclose(result.scores[source, 0], score, rtol=1e-5, atol=1e-5)
        before = [tables["start_tokens"][source], *ids[:-1]]
        looks = tables["alignments"][source, before]
        np.testing.assert_allclose(result.attention[source, 0, :length], looks, rtol=1e-6)
        assert result.finished[source, 0] == GOLDEN[f"{case}/{run}/best_finished"][source]

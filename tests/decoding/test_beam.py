"""Beam search compared with a reference, with exhaustive search and with TensorFlow Addons."""

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
    DEFAULT_MODE,
    EDGE_MODES,
    END,
    MODES,
    PENALTIES,
    START,
    Hypothesis,
    Tables,
    assert_hypotheses,
    compile_function,
    gather_rows,
    reference_beam_search,
    run_search,
    to_numpy,
)
from tests.tiers import FULL

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "beam.npz")


def make_search(mode: str, **options: Any) -> Callable[[Tables], SearchResult]:
    """Return a search over tables; tables of the same shape share a compiled function."""
    options = {"max_length": 8} | options

    def search(first: Any, second: Any) -> SearchResult:
        tables = Tables(first, second)
        return run_search(tables.step, tables.state(), batch_size=tables.sources, **options)

    run = compile_function(search, mode)
    return lambda tables: to_numpy(run(*map(ops.convert_to_tensor, tables)))


def search(tables: Tables, mode: str = DEFAULT_MODE, **options: Any) -> SearchResult:
    return make_search(mode, **options)(tables)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("width", "penalty", "weight"),
    [(1, "none", 1.0), (2, "gnmt", 0.7), (3, "average", 1.0), (4, "gnmt", 2.0), (5, "none", 1.0)],
)
def test_beam_search_equals_reference(mode: str, width: int, penalty: str, weight: float) -> None:
    tables = Tables.random(seed=width, sources=6, vocabulary=7, end_bias=1.0)
    result = search(
        tables, mode, beam_width=width, length_penalty=penalty, length_penalty_weight=weight
    )
    for source in range(tables.sources):
        expected = reference_beam_search(tables, source, width, 8, penalty, weight)[:width]
        assert_hypotheses(tables, source, result, expected)


@pytest.mark.parametrize("penalty", sorted(PENALTIES))
def test_beam_that_holds_all_sequences_equals_exhaustive_search(penalty: str) -> None:
    vocabulary, limit = 5, 4
    tables = Tables.random(seed=11, sources=200 if FULL else 80, vocabulary=vocabulary)
    # The number of sequences of length `limit`: only the last token may be the end token.
    width = (vocabulary - 1) ** (limit - 1) * vocabulary
    result = search(tables, max_length=limit, beam_width=width, length_penalty=penalty)
    not_end = [token for token in range(vocabulary) if token != END]
    for source in range(tables.sources):
        hypotheses = []
        for length in range(1, limit + 1):
            # Only a sequence of the maximum length may be unfinished.
            last_tokens = range(vocabulary) if length == limit else [END]
            for prefix in itertools.product(not_end, repeat=length - 1):
                prefix_score = sum(
                    tables.log_probs(source, prefix[:t])[prefix[t]] for t in range(length - 1)
                )
                for token in last_tokens:
                    total = prefix_score + tables.log_probs(source, prefix)[token]
                    score = float(total) / PENALTIES[penalty](length, 1.0)
                    hypotheses.append(Hypothesis(score, (*prefix, token), token == END))
        hypotheses.sort(key=lambda one: -one.score)
        assert_hypotheses(tables, source, result, hypotheses[:3])


def test_wider_beams_score_higher_on_average() -> None:
    tables = Tables.random(seed=12, sources=200, vocabulary=5)
    options = {"max_length": 4, "length_penalty": "average", "n_best": 1}
    # 320 = 4 ** 3 * 5 holds every sequence.
    widths = (1, 2, 4, 8, 64, 320, 400) if FULL else (1, 3, 320, 400)
    best = np.stack([search(tables, beam_width=w, **options).scores[:, 0] for w in widths])
    assert (best <= best[-1] + 1e-6).all()  # no beam exceeds the exhaustive one
    np.testing.assert_allclose(best[-2], best[-1], rtol=1e-6)  # both beams hold every sequence
    assert (np.diff(best.mean(1)) >= 0).all()
    assert (best[0] < best[-1] - 1e-3).sum() > 20  # greedy search is often worse


def test_beam_search_function_equals_search() -> None:
    """Both return the same for the same options; `pad_token` fills the rest of `beam_search`."""
    tables = Tables.random(seed=6, sources=4, vocabulary=8)
    arguments = {"batch_size": 4, "start_token": START, "end_token": END, "max_length": 6}
    result = to_numpy(
        beam_search(
            tables.step, tables.state(), beam_width=3, pad_token=1, min_length=3, **arguments
        )
    )
    expected = search(tables, max_length=6, beam_width=3, min_length=3)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-6)
    within = np.arange(6) < result.lengths[..., None]
    np.testing.assert_array_equal(result.tokens, np.where(within, expected.tokens, 1))
    with pytest.raises(ValueError, match="option 'beam_size'; did you mean"):
        beam_search(tables.step, tables.state(), beam_width=3, beam_size=3, **arguments)


@pytest.mark.parametrize("mode", MODES)
def test_beam_width_one_is_greedy_search(mode: str) -> None:
    tables = Tables.random(seed=3, sources=200, vocabulary=9)
    greedy = search(tables, mode, beam_width=1, max_length=6)
    for source in range(200):
        prefix: list[int] = []
        while len(prefix) < 6 and END not in prefix:
            prefix.append(int(tables.log_probs(source, prefix).argmax()))
        assert greedy.tokens[source, 0].tolist() == prefix + [0] * (6 - len(prefix))
        assert bool(greedy.finished[source, 0]) == (END in prefix)
    assert {True, False} == set(greedy.finished[:, 0].tolist())


@pytest.mark.parametrize("mode", EDGE_MODES)
@pytest.mark.parametrize("n_best", [1, 3])
def test_results_do_not_depend_on_the_batch(mode: str, n_best: int) -> None:
    tables = Tables.random(seed=5, sources=5, vocabulary=8, end_bias=0.5)
    tables.first[2, :, END] = -30.0  # never ends, so the loop runs to the maximum length
    tables.first[4, :, END] = 30.0  # ends at the first step
    options = {"beam_width": 3, "n_best": n_best, "length_penalty": "gnmt", "max_length": 12}
    run = make_search(mode, **options)
    together = run(tables)
    for source in range(5) if FULL else (2, 4):
        alone = run(tables.row(source))
        for batch_output, single_output in zip(together, alone, strict=True):
            np.testing.assert_allclose(batch_output[source], single_output[0], rtol=1e-6)


def test_smaller_n_best_does_not_change_the_best_hypotheses() -> None:
    tables = Tables.random(seed=6, sources=30, vocabulary=8)
    options = {"beam_width": 4, "length_penalty": "average", "max_length": 10}
    all_four, best_two = search(tables, **options), search(tables, n_best=2, **options)
    assert best_two.tokens.shape == (30, 2, 10)
    for expected, actual in zip(all_four, best_two, strict=True):
        np.testing.assert_allclose(expected[:, :2], actual, rtol=1e-6)


@pytest.mark.parametrize("mode", EDGE_MODES)
# Runs are named by beam width (w), length penalty (lp) and coverage penalty (cp).
@pytest.mark.parametrize("run", ["w4_lp0_cp0", "w4_lp0.7_cp0", "w1_lp0_cp0"])
@pytest.mark.parametrize(
    "case", ["beam_markov", "beam_second_order", "beam_early_stop", "beam_reorder"]
)
def test_best_hypothesis_equals_tensorflow_addons(case: str, run: str, mode: str) -> None:
    tables = {key: GOLDEN[f"{case}/{key}"] for key in ("logits", "alignments", "start_tokens")}
    second = GOLDEN.get(f"{case}/logits2")
    expected = {key: GOLDEN[f"{case}/{run}/best_{key}"] for key in ("ids", "lengths", "log_probs")}
    weight = float(GOLDEN[f"{case}/{run}/length_penalty_weight"])
    limit, end = int(GOLDEN[f"{case}/max_steps"]), int(GOLDEN[f"{case}/end_token"])

    def step(tokens: Any, state: tuple[Any, Any]) -> StepOutput:
        previous, has_previous = state
        logits = gather_rows(tables["logits"], tokens)
        if second is not None:
            second_logits = gather_rows(second, previous)
            logits = logits + ops.where(has_previous[..., None] > 0, second_logits, 0.0)
        state = (tokens, ops.ones_like(has_previous))
        return StepOutput(logits, state, gather_rows(tables["alignments"], tokens))

    def run_case() -> SearchResult:
        return run_search(
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

    result = to_numpy(compile_function(run_case, mode)())
    for source, length in enumerate(expected["lengths"]):
        ids = expected["ids"][source, :length].tolist()
        assert result.tokens[source, 0].tolist() == ids + [0] * (limit - length)
        score = expected["log_probs"][source] / ((5 + length) / 6) ** weight
        np.testing.assert_allclose(result.scores[source, 0], score, rtol=1e-5, atol=1e-5)
        previous_tokens = [tables["start_tokens"][source], *ids[:-1]]
        attention = tables["alignments"][source, previous_tokens]
        np.testing.assert_allclose(result.attention[source, 0, :length], attention, rtol=1e-6)
        assert result.finished[source, 0] == GOLDEN[f"{case}/{run}/best_finished"][source]

"""When beam search stops, which hypotheses run, and forced first and last tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.decoding import SearchOptions
from tests.decoding.toy_decoders import (
    END,
    MODES,
    PENALTIES,
    START,
    Hypothesis,
    Tables,
    assert_hypotheses,
    run_search,
)
from tests.refusals import refuses
from tests.tiers import mark_full

LIMIT = 6


def compute_log_probs(
    tables: Tables, source: int, prefix: tuple[int, ...], options: dict[str, Any]
) -> np.ndarray:
    """Return the log probabilities of the next token, -inf for tokens that are not allowed."""
    log_probs = tables.log_probs(source, prefix)
    forced = END if options.get("force_end") and len(prefix) == LIMIT - 1 else None
    forced = forced if prefix else options.get("forced_start")
    if forced is not None:
        return np.where(np.arange(len(log_probs)) == forced, 0.0, -np.inf)
    log_probs[list(options.get("banned_tokens", ()))] = -np.inf
    if options.get("renormalize"):
        log_probs -= np.log(np.exp(log_probs).sum())
    return log_probs


def reference_search(
    tables: Tables, source: int, width: int, options: dict[str, Any]
) -> list[Hypothesis]:
    """Run beam search in plain Python, with each of the options that this file tests."""
    early_stopping = options.get("early_stopping", "never")
    penalty = PENALTIES[options.get("length_penalty", "none")]
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    complete: list[Hypothesis] = []
    for length in range(1, LIMIT + 1):
        candidates = sorted(
            (
                (log_prob + float(token_log_prob), (*prefix, token))
                for log_prob, prefix in running
                for token, token_log_prob in enumerate(
                    compute_log_probs(tables, source, prefix, options)
                )
                if token_log_prob > -np.inf
            ),
            key=lambda one: -one[0],
        )
        is_last = length == LIMIT
        complete += [
            Hypothesis(log_prob / penalty(length, 1.0), tokens, tokens[-1] == END)
            for log_prob, tokens in candidates[:width]
            if tokens[-1] == END or is_last
        ]
        complete = sorted(complete, key=lambda one: -one.score)[:width]
        beam = candidates if options.get("fill_beam") else candidates[:width]
        running = [one for one in beam if one[1][-1] != END and not is_last][:width]
        if not running or early_stopping == "never" or len(complete) < width:
            continue
        if early_stopping is True or running[0][0] / penalty(length, 1.0) <= complete[-1].score:
            break
    return complete


OPTIONS: dict[str, dict[str, Any]] = {
    "early_stopping_false": {"early_stopping": False, "length_penalty": "average"},
    "early_stopping_true": {"early_stopping": True, "length_penalty": "average"},
    "fill_beam": {"fill_beam": True, "length_penalty": "average"},
    "fill_beam_early_stopping_false": {
        "fill_beam": True,
        "early_stopping": False,
        "length_penalty": "average",
    },
    "fill_beam_early_stopping_true": {"fill_beam": True, "early_stopping": True},
    "force_end": {"force_end": True, "length_penalty": "gnmt"},
    "forced_start": {"forced_start": 4, "length_penalty": "average"},
    "renormalize": {"renormalize": True, "banned_tokens": (1, 5)},
    "all": {
        "fill_beam": True,
        "early_stopping": False,
        "length_penalty": "average",
        "force_end": True,
        "forced_start": 5,
        "renormalize": True,
        "banned_tokens": (START, 6),
    },
}


FAST = ("all", "fill_beam", "early_stopping_true")


@pytest.fixture(scope="module")
def tables() -> Tables:
    """Return sources whose hypotheses end early, late and not before the limit."""
    tables = Tables.random(seed=4, sources=24, vocabulary=9, end_bias=0.5)
    tables.first[:8, :, END] -= 2.0
    return tables


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*FAST, *map(mark_full, sorted(OPTIONS.keys() - FAST))])
def test_search_equals_reference(name: str, mode: str, tables: Tables) -> None:
    options, width = OPTIONS[name], 3
    result = tables.search(mode, beam_width=width, max_length=LIMIT, **options)
    defaults = tables.search(
        beam_width=width,
        max_length=LIMIT,
        length_penalty=options.get("length_penalty", "none"),
        banned_tokens=options.get("banned_tokens", ()),
    )
    for source in range(tables.sources):
        expected = reference_search(tables, source, width, options)
        assert_hypotheses(tables, source, result, expected)
    assert np.abs(result.scores - defaults.scores).max() > 1e-3  # the options have an effect


def test_smaller_n_best_does_not_change_a_heuristic_search(tables: Tables) -> None:
    """The search stops by the `beam_width` best hypotheses, also if it returns fewer."""
    options = OPTIONS["fill_beam_early_stopping_false"] | {"beam_width": 3, "max_length": LIMIT}
    best = tables.search(n_best=1, **options)
    assert best.tokens.shape[1] == 1
    np.testing.assert_array_equal(best.scores, tables.search(**options).scores[:, :1])


def test_greedy_search_ignores_beam_options(tables: Tables) -> None:
    expected = tables.search(max_length=4)
    result = tables.search(fill_beam=True, early_stopping=False, max_length=4)
    np.testing.assert_array_equal(result.tokens, expected.tokens)
    np.testing.assert_array_equal(result.scores, expected.scores)


@pytest.mark.parametrize("name", ["all", mark_full("fill_beam")])
def test_a_source_with_nan_gets_no_hypothesis(name: str, tables: Tables) -> None:
    first = tables.first.copy()
    first[1, :, 7] = np.nan
    broken = Tables(first, tables.second)
    result = broken.search(beam_width=3, max_length=LIMIT, **OPTIONS[name])
    assert np.isnan(result.scores[1]).all()
    expected = tables.search(beam_width=3, max_length=LIMIT, **OPTIONS[name])
    np.testing.assert_array_equal(np.delete(result.scores, 1, 0), np.delete(expected.scores, 1, 0))


def test_nan_at_the_forced_end_is_detected(tables: Tables) -> None:
    first = tables.first.copy()
    first[:, :, 7] = np.nan
    broken = Tables(first, tables.second)
    result = broken.search(max_length=1, force_end=True, banned_tokens=(7,))
    assert np.isnan(result.scores).all()


def test_another_method_resets_options_of_beam_search() -> None:
    options = SearchOptions(beam_width=2, fill_beam=True, early_stopping=False)
    sampling = options.override(method="sampling", top_k=3)
    assert (sampling.fill_beam, sampling.early_stopping, sampling.top_k) == (False, "never", 3)
    assert sampling.override(method="beam") == SearchOptions(beam_width=2)
    with pytest.raises(ValueError, match="fill_beam applies to method 'beam' only"):
        options.override(method="sampling", fill_beam=True)


def test_forced_end_follows_the_limit_of_each_source(tables: Tables) -> None:
    """Limits depend on the source length; each output ends at its own."""
    mask = np.arange(6) < np.array([2, 6])[:, None]
    first = tables.first[:2].copy()
    first[..., END] = -30.0
    two = Tables(first, tables.second[:2])
    step = lambda *arguments: two.step(*arguments)._replace(attention=None)  # noqa: E731
    result = two.search(
        step=step, source_mask=mask, max_length_ratio=1.0, max_length=6, force_end=True
    )
    shorter = run_search(
        step,
        two.state(),
        batch_size=2,
        max_length=6,
        min_length=4,
        force_end=True,
        length_limits=np.array([2, 5]),
    )
    assert np.asarray(shorter.lengths)[:, 0].tolist() == [2, 5]
    assert result.lengths[:, 0].tolist() == [2, 6]
    assert result.finished.all()
    assert result.token_scores[0, 0, 1] == result.token_scores[1, 0, 5] == 0


@refuses(
    ({"early_stopping": "always"}, "early_stopping must be 'never', False or True, got"),
    ({"early_stopping": 1}, "early_stopping must be 'never', False or True, got 1"),
    ({"fill_beam": 1}, "fill_beam must be a bool, got 1"),
    ({"method": "sampling", "fill_beam": True}, "fill_beam applies to method 'beam' only"),
    (
        {"method": "diverse_beam", "early_stopping": False},
        "early_stopping applies to method 'beam' only",
    ),
    (
        {"force_end": True, "max_length": 3, "forced_tokens": {2: 5}},
        "token at position 2 but max_length is 3 and force_end needs the last position",
    ),
    ({"forced_start": 4, "banned_tokens": (4,)}, "forced_start forces token 4 but banned_tokens"),
    (
        {"forced_start": 4, "prefix_tokens": (5,)},
        "forced_start forces token 4 at position 0 but prefix_tokens forces 5",
    ),
    ({"forced_start": 9}, "forced_start must be ids from 0 to 7, got 9"),
    ({"forced_start": -1}, "forced_start must be at least 0, got -1"),
    ({"force_end": True, "banned_tokens": (END,)}, "force_end generates the end token 3, but"),
)
def test_invalid_options_raise(options: dict[str, Any]) -> None:
    Tables.random(seed=0, sources=1, vocabulary=8).search("eager", **{"max_length": 4} | options)

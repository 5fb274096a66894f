"""Edge cases of search: no valid token, empty batch, ties, wrong shapes, invalid options."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.decoding import SearchResult, StepOutput
from tests.decoding.toy_decoders import (
    EDGE_MODES,
    END,
    MODES,
    ON_TENSORFLOW,
    Tables,
    compile_function,
    run_search,
    to_numpy,
)
from tests.refusals import refuses
from tests.tiers import mark_full

OPTIONS: dict[str, Any] = {"max_length": 5}
on_tensorflow = pytest.mark.skipif(not ON_TENSORFLOW, reason="tests TensorFlow graphs")


def make_constant_step(row: list[float]) -> Callable[[Any, Any], StepOutput]:
    """Return a step with constant logits and no attention."""

    def step(tokens: Any, state: Any) -> StepOutput:
        logits = ops.convert_to_tensor(np.array(row, "float32"))
        return StepOutput(ops.broadcast_to(logits, (*ops.shape(tokens), len(row))), state)

    return step


def run(row: list[float], mode: str, batch_size: int = 2, **options: Any) -> SearchResult:
    search = functools.partial(run_search, batch_size=batch_size, **OPTIONS | options)
    return to_numpy(compile_function(lambda: search(make_constant_step(row), ()), mode)())


NEG_INF = -np.inf


METHOD_OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"beam_width": 3, "n_best": 2},
    "sampling": {"method": "sampling", "beam_width": 2},
    "diverse_beam": {"method": "diverse_beam", "beam_width": 4, "groups": 2},
    "contrastive": {"method": "contrastive"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fill", [np.nan, mark_full(np.inf)])
@pytest.mark.parametrize("corrupted_step", [0, 2])
@pytest.mark.parametrize("method", METHOD_OPTIONS)
def test_one_invalid_logit_gives_nan_for_its_source(
    method: str, corrupted_step: int, fill: float, mode: str
) -> None:
    """At one step, source 1 has an invalid logit for a token that is neither best nor the end."""
    logits = np.array([0.0, 0.0, 0.0, -9.0, 5.0, 1.0], "float32")
    corrupted = np.where(np.arange(6) == 2, fill, logits).astype("float32")

    def step(tokens: Any, state: Any) -> StepOutput:
        is_corrupted = np.array([False, True])[:, None] & (state == corrupted_step)
        rows = ops.where(is_corrupted[..., None], corrupted, logits)
        return StepOutput(rows, state + 1, hidden=ops.one_hot(tokens, 6))

    options = OPTIONS | METHOD_OPTIONS[method]
    search = compile_function(
        lambda: run_search(step, ops.zeros((2,), "int32"), batch_size=2, **options), mode
    )
    result = to_numpy(search())
    assert np.isfinite(result.scores[0, 0])
    assert result.lengths[0, 0] == 5
    assert np.isnan(result.scores[1]).all()
    assert not result.lengths[1].any()
    assert not result.tokens[1].any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fill", [np.nan, mark_full(np.inf)])
@pytest.mark.parametrize("corrupted_step", [0, 2])
def test_invalid_hidden_vectors_in_contrastive_search(
    corrupted_step: int, fill: float, mode: str
) -> None:
    logits = np.array([0.0, 0.0, 0.0, -9.0, 5.0, 1.0], "float32")

    def step(tokens: Any, state: Any) -> StepOutput:
        is_corrupted = np.array([False, True])[:, None] & (state == corrupted_step)
        hidden = ops.where(is_corrupted[..., None], fill, ops.one_hot(tokens, 6))
        rows = ops.broadcast_to(logits, (*ops.shape(tokens), 6))
        return StepOutput(rows, state + 1, hidden=hidden)

    options = OPTIONS | METHOD_OPTIONS["contrastive"]
    search = compile_function(
        lambda: run_search(step, ops.zeros((2,), "int32"), batch_size=2, **options), mode
    )
    result = to_numpy(search())
    assert np.isfinite(result.scores[0, 0])
    assert np.isnan(result.scores[1]).all()


def test_nan_attention_after_the_end_does_not_change_a_result() -> None:
    """Both hypotheses of source 0 end at the first two steps; source 1 keeps the loop running."""

    def search(fill: float) -> SearchResult:
        def step(tokens: Any, state: Any) -> StepOutput:
            ends = np.array([[9.0], [-9.0]], "float32")[..., None] * np.eye(6, dtype="float32")[END]
            logits = ops.broadcast_to(ends, (2, tokens.shape[1], 6))
            is_late = np.array([True, False])[:, None, None] & (state > 1)[..., None]
            attention = ops.where(is_late, fill, ops.ones((2, tokens.shape[1], 3), "float32") / 3)
            return StepOutput(logits, state + 1, attention)

        options = OPTIONS | {"beam_width": 2, "coverage_penalty": 0.1}
        options["source_mask"] = np.ones((2, 3), "bool")
        return to_numpy(run_search(step, ops.zeros((2,), "int32"), batch_size=2, **options))

    expected, actual = search(1 / 3), search(np.nan)
    np.testing.assert_array_equal(actual.scores, expected.scores)
    np.testing.assert_array_equal(actual.tokens, expected.tokens)


@pytest.mark.parametrize("mode", EDGE_MODES)
@pytest.mark.parametrize("penalty", ["none", "average", "gnmt"])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    ("row", "score"),
    [([NEG_INF] * 6, NEG_INF), ([np.nan] * 6, np.nan), ([0, 0, 0, 0, 0, np.nan], np.nan)],
)
def test_no_valid_token_gives_an_empty_result(
    mode: str, penalty: str, width: int, row: list[float], score: float
) -> None:
    result = run(row, mode, beam_width=width, length_penalty=penalty)
    assert np.array_equal(result.scores, np.full((2, width), score, "float32"), equal_nan=True)
    assert not result.lengths.any()
    assert not result.tokens.any()
    assert not result.finished.any()
    assert result.attention is None


@pytest.mark.parametrize("mode", EDGE_MODES)
def test_tokens_with_probability_zero_are_never_selected(mode: str) -> None:
    result = run([NEG_INF, NEG_INF, NEG_INF, 0.0, 0.0, NEG_INF], mode, beam_width=4, max_length=3)
    assert result.lengths[0].tolist() == [1, 2, 3, 3]
    for rank, tokens in enumerate([[3, 0, 0], [4, 3, 0]]):
        assert result.tokens[0, rank].tolist() == tokens
    assert sorted(map(tuple, result.tokens[0, 2:])) == [(4, 4, 3), (4, 4, 4)]
    assert np.isfinite(result.scores).all()


@pytest.mark.parametrize("mode", EDGE_MODES)
def test_fewer_sequences_than_n_best_leave_empty_rows(mode: str) -> None:
    result = run([NEG_INF, NEG_INF, NEG_INF, 0.0, NEG_INF, NEG_INF], mode, beam_width=3)
    assert result.tokens[0].tolist() == [[3, 0, 0, 0, 0], [0] * 5, [0] * 5]
    assert result.scores[0].tolist() == [0.0, NEG_INF, NEG_INF]
    assert result.lengths[0].tolist() == [1, 0, 0]
    assert result.finished[0].tolist() == [True, False, False]


@pytest.mark.parametrize("mode", EDGE_MODES)
def test_beam_wider_than_the_vocabulary(mode: str) -> None:
    result = run([0.0, 0.0, 0.0, 0.5], mode, beam_width=9, max_length=2)
    expected = {(3, 0)} | {(a, b) for a in (0, 1, 2) for b in (0, 1, 2, 3)}
    assert {tuple(row) for row in result.tokens[0]} < expected
    assert len({(*row, n) for row, n in zip(result.tokens[0], result.lengths[0], strict=True)}) == 9
    assert np.isfinite(result.scores).all()
    assert (np.diff(result.scores[0]) <= 0).all()


@pytest.mark.parametrize("mode", EDGE_MODES)
def test_ties_are_ordered_by_token_id(mode: str) -> None:
    result = run([0.0, 0.0, 0.0, NEG_INF, 0.0], mode, beam_width=3, max_length=2)
    assert result.tokens[0].tolist() == [[0, 0], [0, 1], [0, 2]]
    at_the_limit = run([0.0, 0.0, 0.0, 0.0], mode, beam_width=4, max_length=1)
    assert at_the_limit.tokens[0].tolist() == [[0], [1], [2], [3]]


METHODS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"beam_width": 3},
    "diverse beam": {"method": "diverse_beam", "beam_width": 4, "groups": 2},
    "sampling": {"method": "sampling", "beam_width": 3},
    "filtered sampling": {"method": "sampling", "beam_width": 3, "top_p": 0.9, "min_p": 0.01},
    "contrastive": {"method": "contrastive", "candidates": 3},
}


@pytest.mark.parametrize("mode", EDGE_MODES)
@pytest.mark.parametrize("method", METHODS)
def test_empty_batch(mode: str, method: str) -> None:
    tables = Tables.random(seed=1, sources=0, vocabulary=6)
    mask = np.ones((0, 3), bool)
    options = OPTIONS | METHODS[method] | {"coverage_penalty": 0.3}
    result = tables.search(mode, make_step_with_attention(tables), source_mask=mask, **options)
    width = METHODS[method].get("beam_width", 1)
    assert result.tokens.shape == result.token_scores.shape == (0, width, 5)
    assert result.scores.shape == result.lengths.shape == (0, width)
    assert result.attention.shape == (0, width, 5, 3)


def make_step_with_attention(
    tables: Tables, dtype: str = "float32"
) -> Callable[[Any, Any], StepOutput]:
    """Return the step of the tables in another dtype, with hidden vectors."""

    def step(tokens: Any, state: Any) -> StepOutput:
        output = tables.step(tokens, state)
        hidden = ops.one_hot(tokens, output.logits.shape[-1])
        logits, attention, hidden = (
            ops.cast(x, dtype) for x in (output.logits, output.attention, hidden)
        )
        return StepOutput(logits, output.state, attention, hidden)

    return step


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_scores_are_float32_for_logits_of_any_dtype(dtype: str, method: str) -> None:
    if dtype == "float64" and not ON_TENSORFLOW:
        pytest.skip("JAX has no float64 unless it is switched on")
    tables = Tables.random(seed=1, sources=2, vocabulary=6)
    mask = np.array([[True, True, False], [True, True, True]])
    options = OPTIONS | METHODS[method] | {"coverage_penalty": 0.3}

    got, expected = (
        tables.search("eager", make_step_with_attention(tables, x), source_mask=mask, **options)
        for x in (dtype, "float32")
    )
    assert got.scores.dtype == got.token_scores.dtype == np.float32
    assert got.tokens.tolist() == expected.tokens.tolist()
    np.testing.assert_allclose(got.scores, expected.scores, rtol=3e-2)


@pytest.mark.parametrize("mode", EDGE_MODES)
@pytest.mark.parametrize("method", METHODS)
def test_fully_masked_source_is_decoded(mode: str, method: str) -> None:
    """Its coverage term is 0, and its length limit is that of an empty source."""
    tables = Tables.random(seed=1, sources=2, vocabulary=6, end_bias=-9)
    mask = np.array([[False, False, False], [True, True, True]])
    options = METHODS[method] | {"coverage_penalty": 0.3, "max_length_ratio": 1.4}
    result = tables.search(mode, make_step_with_attention(tables), source_mask=mask, **options)
    assert result.lengths.max(axis=1).tolist() == [1, 4]
    assert np.isfinite(result.scores[:, 0]).all()
    np.testing.assert_allclose(result.scores[0], result.token_scores[0].sum(-1), rtol=1e-6)


def test_outputs_are_padded_with_pad_token() -> None:
    result = run([NEG_INF, NEG_INF, NEG_INF, 0.0], "eager", beam_width=1, pad_token=7)
    assert result.tokens[0, 0].tolist() == [3, 7, 7, 7, 7]


@on_tensorflow
def test_search_stops_when_no_hypothesis_can_win() -> None:
    calls = []

    def step(tokens: Any, state: Any) -> StepOutput:
        calls.append(tokens.shape)
        likely = np.full(6, -20.0, "float32")
        likely[END if len(calls) == 4 else 5] = 0.0
        logits = ops.broadcast_to(ops.convert_to_tensor(likely), (*tokens.shape, 6))
        return StepOutput(logits, state)

    options = OPTIONS | {"max_length": 200, "beam_width": 3, "n_best": 1}
    result = to_numpy(run_search(step, (), batch_size=2, length_penalty="none", **options))
    assert calls == [(2, 1), (2, 3), (2, 3), (2, 3)]
    assert result.lengths.tolist() == [[4], [4]]
    assert result.tokens.shape == (2, 1, 200)


@pytest.mark.full
@on_tensorflow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_one_trace_covers_all_batch_sizes_and_source_lengths(jit_compile: bool) -> None:
    import tensorflow as tf

    traces = []

    def search(memory: Any) -> SearchResult:
        traces.append(memory.shape)

        def step(tokens: Any, state: Any) -> StepOutput:
            logits = state + ops.one_hot(tokens, 6, dtype="float32") * 0.1
            weights = ops.broadcast_to(memory[:, None], (*ops.shape(tokens), ops.shape(memory)[1]))
            return StepOutput(logits, logits, weights)

        batch = ops.shape(memory)[0]
        state = memory[:, :6]
        return run_search(step, state, batch_size=batch, beam_width=3, **OPTIONS)

    signature = [tf.TensorSpec([None, None], "float32")]
    traced = tf.function(search, input_signature=signature, jit_compile=jit_compile)
    rng = np.random.default_rng(0)
    for shape in [(2, 6), (3, 9), (1, 7), (0, 6)]:
        memory = rng.normal(size=shape).astype("float32")
        got, expected = to_numpy(traced(memory)), to_numpy(search(ops.convert_to_tensor(memory)))
        assert got.attention.shape == (shape[0], 3, 5, shape[1])
        np.testing.assert_array_equal(got.tokens, expected.tokens)
        np.testing.assert_allclose(got.scores, expected.scores, rtol=1e-5)
        np.testing.assert_allclose(got.attention, expected.attention, rtol=1e-6)
    assert sum(None in shape for shape in traces) == 1


@refuses(
    ({"beam_width": 0}, "beam_width must be at least 1, got 0"),
    ({"beam_width": 2.5}, "beam_width must be an integer of at least 1, got 2.5"),
    ({"beam_width": True}, "beam_width must be an integer of at least 1, got True"),
    ({"max_length": 0}, "max_length must be at least 1, got 0"),
    ({"n_best": 0}, "n_best must be at least 1, got 0"),
    ({"end_token": -1}, "end_token must be at least 0, got -1"),
    ({"end_token": 6}, "end_token must be below the vocabulary size 6, got 6"),
    ({"start_token": -1}, "start_token must be at least 0, got -1"),
    ({"start_token": "<s>"}, "start_token must be an integer of at least 0, got '<s>'"),
    ({"pad_token": -1}, "pad_token must be at least 0, got -1"),
    ({"batch_size": -1}, "batch_size must be at least 0, got -1"),
    ({"length_penalty": "gnnt"}, "unknown length penalty 'gnnt'; did you mean 'gnmt'"),
    (
        {"length_penalty_weight": -1.0},
        "length_penalty_weight must be a finite number of at least 0, got -1.0",
    ),
    (
        {"length_penalty_weight": float("nan")},
        "length_penalty_weight must be a finite number of at least 0, got nan",
    ),
    (
        {"length_penalty_weight": "1"},
        "length_penalty_weight must be a finite number of at least 0, got '1'",
    ),
    (
        {"length_penalty_weight": 0.5},
        "length_penalty_weight has no effect with length_penalty='none', got 0.5: remove it or set "
        "length_penalty",
    ),
    literal=True,
)
def test_invalid_options_raise(options: dict[str, Any]) -> None:
    run_search(make_constant_step([0.0] * 6), (), **{"batch_size": 2} | OPTIONS | options)


def step_with_flat_logits(tokens: Any, state: Any) -> StepOutput:
    return StepOutput(ops.zeros((2, 6)), state)


def step_with_flat_attention(tokens: Any, state: Any) -> StepOutput:
    return StepOutput(ops.zeros((2, 1, 6)), state, ops.zeros((2, 4)))


def step_without_state(tokens: Any, state: Any) -> StepOutput:
    return StepOutput(ops.zeros((2, 1, 6)), ())


def step_with_flat_state(tokens: Any, state: Any) -> StepOutput:
    return StepOutput(ops.zeros((2, 1, 6)), state[:, 0])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda tokens, state: (tokens, state), "step must return a StepOutput, got tuple"),
        (step_with_flat_logits, "the logits of step must be (2, 1, any), got shape (2, 6)"),
        (step_with_flat_attention, "the attention of step must be (2, 1, any), got shape (2, 4)"),
        (step_without_state, "step must return a state of 1 tensors, got 0"),
        (
            step_with_flat_state,
            "a leaf of the state of step must be (2, 1, ...), got shape (2, 3)",
        ),
    ],
)
def test_first_step_of_wrong_shape_raises(step: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        run_search(step, ops.zeros((2, 3)), batch_size=2, **OPTIONS)
    assert str(caught.value) == message


def make_inconsistent_step(change: Any) -> Any:
    """Return a step whose output is valid for one hypothesis and changed for several."""

    def step(tokens: Any, state: Any) -> Any:
        count = tokens.shape[1]
        logits = ops.zeros((2, count, 6)) + state[..., :1]
        output = StepOutput(logits, state, ops.zeros((2, count, 4)), ops.zeros((2, count, 5)))
        return output if count == 1 else change(output)

    return step


@pytest.mark.parametrize("method", [{}, {"method": "sampling"}, {"method": "contrastive"}], ids=str)
@refuses(
    (lambda x: x._replace(logits=x.logits[:, :1]), "(2, 3, 6), got shape (2, 1, 6)"),
    (
        lambda x: x._replace(logits=ops.zeros((2, 3, 7))),
        "the logits of step must be (2, 3, 6), got shape (2, 3, 7)",
    ),
    (
        lambda x: x._replace(state=x.state[:, :1]),
        "a leaf of the state of step must be (2, 3, 3), got shape (2, 1, 3)",
    ),
    (
        lambda x: x._replace(state=ops.cast(x.state, "int32")),
        "a leaf of the state of step must have one dtype, got float32, then int32",
    ),
    (
        lambda x: x._replace(state=ops.zeros((2, 3, 4))),
        "a leaf of the state of step must be (2, 3, 3), got shape (2, 3, 4)",
    ),
    (
        lambda x: x._replace(state=(x.state, x.state)),
        "the state of step must keep its structure, got 1 tensors, then 2",
    ),
    (
        lambda x: x._replace(attention=ops.zeros((2, 3, 3))),
        "the attention of step must be (2, 3, 4), got shape (2, 3, 3)",
    ),
    (lambda x: x._replace(attention=None), "step must return attention at every step or never"),
    (
        lambda x: x._replace(hidden=x.hidden[:, :1]),
        "the hidden of step must be (2, 3, 5), got shape (2, 1, 5)",
    ),
    (tuple, "step must return a StepOutput, got tuple"),
    literal=True,
)
def test_later_step_of_another_structure_raises(change: Any, method: dict[str, Any]) -> None:
    contrastive = method.get("method") == "contrastive"
    width = {"candidates": 3} if contrastive else {"beam_width": 3}
    run_search(
        make_inconsistent_step(change),
        ops.zeros((2, 3)),
        batch_size=2,
        max_length=4,
        **method,
        **width,
    )


def test_state_of_another_batch_size_raises() -> None:
    for batch in (2, np.int64(2)):
        with pytest.raises(ValueError, match=r"must be \(2, \.\.\.\), got shape \(3, 4\)"):
            run_search(
                make_constant_step([0.0] * 6), ops.zeros((3, 4)), batch_size=batch, **OPTIONS
            )
    with pytest.raises(ValueError, match="use \\(\\) for no state"):
        run_search(make_constant_step([0.0] * 6), None, batch_size=2, **OPTIONS)

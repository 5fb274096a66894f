"""Contrastive search (Su et al. 2022, arXiv:2202.06417)."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.decoding.hypotheses import Choice, History, NBestList, take_hypotheses
from attention_zoo.decoding.options import METHODS
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import (
    NEG_INF,
    Progress,
    SearchResult,
    compute_continuations,
    gather_state,
    make_result,
    mark_invalid_sources,
    record_step,
)
from attention_zoo.decoding.step import StepOutput
from attention_zoo.ops import blocked_top_k
from attention_zoo.ops.buffers import append, empty_buffer


class ContrastiveState(NamedTuple):
    """A hypothesis and the decoder's output for its last token.

    Attributes:
        progress: the search so far; its `state` is empty.
        logits: `(B, 1, V)` of the next token.
        attention: `(B, 1, S)`, or `()` if the step returns none.
        state: flat, `(B, K, ...)`: the decoder state, repeated for each of the K candidates.
        context_hidden: `(B, L + 1, D)`, hidden vectors of all earlier tokens, normalized to
            length 1; L is that of `History`.
    """

    progress: Progress
    logits: Any
    attention: Any
    state: tuple[Any, ...]
    context_hidden: Any


@METHODS.register("contrastive")
def contrastive(problem: Problem) -> SearchResult:
    """Run contrastive search over the K most likely tokens of each step.

    The best candidate is that of greatest likelihood minus similarity to the earlier tokens. All
    candidates are passed to the decoder together, so a search step costs one decoder step.
    """
    first = problem.first
    count = min(problem.options.candidates, first.logits.shape[-1])
    start = _make_initial_state(problem, count)

    def is_running(state: ContrastiveState) -> Any:
        return ops.any(state.progress.log_probs > NEG_INF)

    def advance(state: ContrastiveState) -> tuple[ContrastiveState]:
        attention = None if isinstance(state.attention, tuple) else state.attention
        continuations = compute_continuations(problem, state.logits, state.progress)
        candidate_logits, ids = blocked_top_k(continuations.logits[:, 0], count)
        step_state = keras.tree.pack_sequence_as(first.state, state.state)
        output = problem.call_step(ids, step_state)
        normaliser = continuations.normaliser[:, 0]
        index, is_nan = _select_candidate(
            problem, candidate_logits, normaliser, output.hidden, state
        )
        log_probs = continuations.log_probs + take_hypotheses(candidate_logits, index) - normaliser
        log_probs = ops.where(log_probs > NEG_INF, log_probs, NEG_INF)
        is_running = continuations.log_probs > NEG_INF
        log_probs = ops.where(ops.logical_and(is_running, is_nan), float("nan"), log_probs)
        choice = Choice(take_hypotheses(ids, index), ops.zeros_like(index), log_probs)
        choice = mark_invalid_sources(choice, continuations)
        step_output = StepOutput(state.logits, (), attention)
        progress = record_step(problem, state.progress, step_output, choice)
        hidden = _normalize(take_hypotheses(output.hidden, index))
        context_hidden = append(state.context_hidden, hidden, progress.length, axis=1)
        attention = () if attention is None else take_hypotheses(output.attention, index)
        logits = take_hypotheses(output.logits, index)
        step_state = gather_state(output.state, ops.broadcast_to(index, ops.shape(ids)))
        return (ContrastiveState(progress, logits, attention, step_state, context_hidden),)

    (final,) = ops.while_loop(is_running, advance, (start,))
    return make_result(problem, final.progress, final.progress.best)


def _make_initial_state(problem: Problem, count: int) -> ContrastiveState:
    """Return one empty hypothesis per source, after the start token was fed."""
    first = problem.first
    no_parents = ops.zeros((problem.batch_size, 1), dtype="int32")
    progress = Progress.initial(problem)
    choice = Choice(no_parents, no_parents, progress.log_probs)
    progress = progress._replace(
        tokens=no_parents,
        history=History.empty(problem.max_length, choice, first.attention),
        best=NBestList.empty(problem.batch_size, 1),
    )
    shape = (problem.batch_size, problem.max_length + 1, first.hidden.shape[-1])
    context_hidden = append(empty_buffer(shape, 1, "float32"), _normalize(first.hidden), 0, axis=1)
    attention = () if first.attention is None else first.attention
    step_state = gather_state(first.state, ops.repeat(no_parents, count, axis=1))
    return ContrastiveState(progress, first.logits, attention, step_state, context_hidden)


def _select_candidate(
    problem: Problem, logits: Any, normaliser: Any, hidden: Any, state: ContrastiveState
) -> tuple[Any, Any]:
    """Return the candidate of greatest `(1 - a) p(v) - a max_j cos(h_v, h_j)`, `(B, 1)` int32.

    Also return whether a hidden vector of a candidate or an earlier token is NaN, `(B, 1)`.
    """
    weight = problem.options.degeneration_penalty
    similarity = ops.einsum("bkd,bld->bkl", _normalize(hidden), state.context_hidden)
    count = ops.shape(state.context_hidden)[1]
    is_generated = ops.arange(count, dtype="int32") <= state.progress.length
    similarity = ops.where(is_generated, similarity, NEG_INF)
    max_similarity = ops.max(similarity, axis=-1, initial=NEG_INF)
    probs = ops.exp(logits - normaliser)
    scores = (1 - weight) * probs - weight * max_similarity
    is_allowed = logits > NEG_INF
    scores = ops.where(is_allowed, scores, NEG_INF)
    is_nan = ops.logical_and(is_allowed, ops.any(ops.isnan(similarity), axis=-1))
    index = ops.cast(ops.argmax(scores, axis=-1, keepdims=True), "int32")
    return index, ops.any(is_nan, axis=-1, keepdims=True)


def _normalize(x: Any) -> Any:
    """Normalize vectors to length 1 in float32; zero vectors stay zero."""
    x = ops.cast(x, "float32")
    return x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), 1e-12)

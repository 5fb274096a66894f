"""Contrastive search (Su et al. 2022, arXiv:2202.06417)."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.decoding.hypotheses import Best, Choice, History, take_hypotheses
from attention_zoo.decoding.options import METHODS
from attention_zoo.decoding.problem import Problem
from attention_zoo.decoding.search import (
    NEVER,
    Continuations,
    Progress,
    SearchResult,
    continuations,
    move,
    moved_state,
    result_of,
    settle,
)
from attention_zoo.decoding.step import StepOutput, check_later
from attention_zoo.ops import blocked_top_k


class Ahead(NamedTuple):
    """A hypothesis and the decoder's output for its last token.

    Attributes:
        now: the search so far; its `state` is empty.
        logits: `(B, 1, V)` of the next token.
        attention: `(B, 1, S)`, or `()` if the step returns none.
        state: flat, `(B, K, ...)`: the decoder state, repeated for each of the K candidates.
        written: `(B, L + 1, D)`, the decoder's hidden vectors so far, normalized to length 1.
    """

    now: Progress
    logits: Any
    attention: Any
    state: tuple[Any, ...]
    written: Any


@METHODS.register("contrastive")
def contrastive(problem: Problem) -> SearchResult:
    """Run contrastive search over the K most likely tokens of each step.

    The best candidate is that of greatest likelihood minus similarity to the prefix. All candidates
    are passed to the decoder together, so a search step costs one decoder step.
    """
    first = problem.first
    count = min(problem.options.candidates, first.logits.shape[-1])
    start = _start(problem, count)

    def running(ahead: Ahead) -> Any:
        return ops.any(ahead.now.log_probs > NEVER)

    def advance(ahead: Ahead) -> tuple[Ahead]:
        attention = None if isinstance(ahead.attention, tuple) else ahead.attention
        given = continuations(problem, ahead.logits, ahead.now)
        likely, ids = blocked_top_k(given.logits[:, 0], count)
        state = keras.tree.pack_sequence_as(first.state, ahead.state)
        output = check_later(problem.step(ids, state), first, count)
        pick = _pick(problem, given, likely, output.hidden, ahead)
        chosen = _chosen(given, likely, ids, pick)
        step_output = StepOutput(ahead.logits, (), attention)
        now = settle(problem, ahead.now, step_output, chosen)
        written = ops.slice_update(
            ahead.written, (0, now.length, 0), _unit(take_hypotheses(output.hidden, pick))
        )
        everyone = Choice(ids, ops.broadcast_to(pick, ops.shape(ids)), likely)
        seen = () if attention is None else take_hypotheses(output.attention, pick)
        logits = take_hypotheses(output.logits, pick)
        return (Ahead(now, logits, seen, moved_state(output.state, everyone), written),)

    (end,) = ops.while_loop(running, advance, (start,))
    return result_of(problem, end.now, end.now.best)


def _start(problem: Problem, count: int) -> Ahead:
    """Return one empty hypothesis per source, after the start token was fed."""
    first = problem.first
    no_parents = ops.zeros((problem.batch_size, 1), dtype="int32")
    now = Progress.nothing(problem)
    chosen = Choice(no_parents, no_parents, now.log_probs)
    now = now._replace(
        tokens=no_parents,
        history=History.empty(problem.room, chosen, first.attention),
        best=Best.empty(problem.batch_size, 1),
    )
    everyone = Choice(*(ops.repeat(x, count, axis=1) for x in chosen))
    written = ops.zeros((problem.batch_size, problem.room + 1, first.hidden.shape[-1]))
    written = ops.slice_update(written, (0, 0, 0), _unit(first.hidden))
    seen = () if first.attention is None else move(first.attention, chosen)
    return Ahead(now, first.logits, seen, moved_state(first.state, everyone), written)


def _pick(problem: Problem, given: Continuations, likely: Any, hidden: Any, ahead: Ahead) -> Any:
    """Return the candidate of greatest `(1 - a) p(v) - a max_j cos(h_v, h_j)`, `(B, 1)` int32."""
    weight = problem.options.degeneration_penalty
    likeness = ops.einsum("bkd,bld->bkl", _unit(hidden), ahead.written)
    filled = ops.arange(problem.room + 1, dtype="int32") <= ahead.now.length
    nearest = ops.max(ops.where(filled, likeness, NEVER), axis=-1, initial=NEVER)
    value = (1 - weight) * ops.exp(likely - given.normaliser[:, 0]) - weight * nearest
    value = ops.where(likely > NEVER, value, NEVER)
    return ops.cast(ops.argmax(value, axis=-1, keepdims=True), "int32")


def _chosen(given: Continuations, likely: Any, ids: Any, pick: Any) -> Choice:
    """Return the picked candidate as the one continuation of each source."""
    log_probs = given.log_probs + take_hypotheses(likely, pick) - given.normaliser[..., 0]
    log_probs = ops.where(log_probs > NEVER, log_probs, NEVER)
    return Choice(take_hypotheses(ids, pick), ops.zeros_like(pick), log_probs)


def _unit(x: Any) -> Any:
    """Normalize vectors to length 1 in float32; zero vectors stay zero."""
    x = ops.cast(x, "float32")
    return x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), 1e-12)

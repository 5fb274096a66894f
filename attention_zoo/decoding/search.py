"""The engine that every way of searching shares: one loop, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.decoding.hypotheses import Best, History, take_hypotheses
from attention_zoo.decoding.options import SearchOptions, check_integer
from attention_zoo.decoding.step import StepFunction, check_output, check_state


class SearchResult(NamedTuple):
    """The best hypotheses of each source, best first.

    Attributes:
        tokens: `(B, n, L)` int32, ends with the end token, then pads.
        scores: `(B, n)` float32, log probability over length penalty; -inf where there is none.
        lengths: `(B, n)` int32, counts the end token; 0 where there is none.
        attention: `(B, n, L, S)`, 0 past the length; None if the step gives none.
        finished: `(B, n)` bool, False for a hypothesis cut at the maximum length.
    """

    tokens: Any
    scores: Any
    lengths: Any
    attention: Any
    finished: Any


class Choice(NamedTuple):
    """The continuations that a way of searching takes: tokens, whose they are, log probabilities.

    Attributes:
        tokens: `(B, N)` int32.
        parents: `(B, N)` int32, the hypothesis that each continues.
        log_probs: `(B, N)` float32, of the whole hypothesis; -inf for one that is not to be.
    """

    tokens: Any
    parents: Any
    log_probs: Any


Choose = Callable[[Any, Any], Choice]
"""`choose(logits (B, M, V) float32, log_probs (B, M)) -> Choice`: what tells one way from another.
M is 1 at the first step and N, as many as are chosen, at the others."""


class Progress(NamedTuple):
    """What the loop carries: the running hypotheses, the record, and what is set aside.

    A hypothesis of log probability -inf does not run: it has ended, or can win no more.
    """

    length: Any
    tokens: Any
    log_probs: Any
    state: Any
    history: History
    best: Best


def search(
    step: StepFunction, state: Any, choose: Choose, batch_size: Any, options: SearchOptions
) -> SearchResult:
    """Runs `step` until no running hypothesis of any source can still enter its n best.

    The first step sees one hypothesis a source. It is taken outside the loop, which so learns the
    shapes of state and attention, and starts from the state repeated for N hypotheses.

    Args:
        step: see `StepFunction`; the memory is captured in it.
        state: a nest of tensors `(B, ...)`; `()` for none.
        choose: see `Choose`.
        batch_size: B, an integer or a scalar tensor.
        options: see `SearchOptions`.

    Raises:
        ValueError: if the state or what the first step gives has the wrong shape.
    """
    if isinstance(batch_size, (int, float)):
        check_integer("batch_size", batch_size, 0)
    check_state(state, batch_size)
    first = keras.tree.map_structure(lambda x: ops.expand_dims(x, 1), state)
    tokens = _start_tokens(options.start_token, batch_size)
    output = step(tokens, first)
    check_output(output, first, batch_size, options.end_token)

    chosen = choose(ops.cast(output.logits, "float32"), ops.zeros_like(tokens, dtype="float32"))
    moved, attention = _reorder(output, chosen)
    history = History.empty(options.max_length, chosen.tokens, attention)
    best = Best.empty(batch_size, options.n_best)
    progress = _settle(0, chosen, moved, attention, history, best, options)

    def going(now: Progress) -> Any:
        running = ops.any(now.log_probs > float("-inf"))
        return ops.logical_and(now.length < options.max_length, running)

    def advance(now: Progress) -> tuple[Progress]:
        output = step(now.tokens, keras.tree.pack_sequence_as(output_state, now.state))
        chosen = choose(ops.cast(output.logits, "float32"), now.log_probs)
        moved, attention = _reorder(output, chosen)
        return (_settle(now.length, chosen, moved, attention, now.history, now.best, options),)

    output_state = output.state
    (progress,) = ops.while_loop(going, advance, (progress,))
    return _result(progress, options)


def _start_tokens(start_token: Any, batch_size: Any) -> Any:
    """`(B, 1)` int32 of one id, or of ids `(B,)`."""
    tokens = ops.reshape(ops.cast(start_token, "int32"), (-1, 1))
    return ops.broadcast_to(tokens, (batch_size, 1))


def _reorder(output: Any, chosen: Choice) -> tuple[tuple[Any, ...], Any]:
    """State (as flat leaves) and attention of the chosen hypotheses, those of their parents."""
    leaves = keras.tree.flatten(output.state)
    state = tuple(take_hypotheses(leaf, chosen.parents) for leaf in leaves)
    if output.attention is None:
        return state, None
    return state, take_hypotheses(output.attention, chosen.parents)


def _settle(
    step: Any,
    chosen: Choice,
    state: tuple[Any, ...],
    attention: Any,
    history: History,
    best: Best,
    options: SearchOptions,
) -> Progress:
    """Records a step, sets the ended hypotheses aside and stops the sources that are done.

    A source is done when not even its best running hypothesis, at probability 1 for all that is
    left, would enter the n best. It is then frozen, so that its result does not depend on how
    long the other sources keep the loop running.
    """
    length = ops.cast(step + 1, "int32")
    history = history.write(step, chosen.tokens, chosen.parents, attention)
    ended = chosen.tokens == options.end_token
    scores = options.score(chosen.log_probs, length)
    best = best.merge(ops.where(ended, scores, float("-inf")), length, finished=True)
    running = ops.where(ended, float("-inf"), chosen.log_probs)
    likeliest = ops.max(running, axis=1, keepdims=True, initial=float("-inf"))
    bound = options.score(likeliest, options.max_length)
    running = ops.where(bound > best.scores[:, -1:], running, float("-inf"))
    return Progress(length, chosen.tokens, running, state, history, best)


def _result(end: Progress, options: SearchOptions) -> SearchResult:
    """The n best, those cut at the maximum length among them, traced back through the record."""
    cut = options.score(end.log_probs, end.length)
    best = end.best.merge(cut, end.length, finished=False)
    path = end.history.path(end.length, best.slots, best.lengths)
    within = ops.arange(options.max_length, dtype="int32") < best.lengths[..., None]
    tokens = History.follow(end.history.tokens, path)
    tokens = ops.where(within, tokens, options.pad_token)
    attention = None
    if not isinstance(end.history.attention, tuple):
        attention = History.follow(end.history.attention, path)
        attention = ops.where(within[..., None], attention, ops.zeros_like(attention))
    return SearchResult(tokens, best.scores, best.lengths, attention, best.finished)

"""The search loop that all methods share; it is one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from attention_zoo.decoding.hypotheses import (
    Choice,
    History,
    NBestList,
    take_first,
    take_hypotheses,
)
from attention_zoo.decoding.options import METHODS, SearchOptions
from attention_zoo.decoding.plan import Vocabulary
from attention_zoo.decoding.problem import (
    Problem,
    check_ids,
    check_inputs,
    check_optional_outputs,
    compute_length_limits,
)
from attention_zoo.decoding.rules import Rule, as_rules, make_rules
from attention_zoo.decoding.step import (
    StepFunction,
    StepOutput,
    check_output,
    expand_state,
    find_growing_axes,
    map_state,
)

NEG_INF = float("-inf")


class SearchResult(NamedTuple):
    """The best hypotheses of each source, best first.

    Attributes:
        tokens: `(B, n, L)` int32, with the end token, then padding. L is the number of steps that
            the search took, or under XLA and on JAX their limit.
        scores: `(B, n)` float32, with length and coverage penalties; -inf for a missing hypothesis,
            NaN if the step returned NaN or +inf logits for the source.
        lengths: `(B, n)` int32, including the end token; 0 for a missing hypothesis.
        attention: `(B, n, L, S)`, 0 past the length; None if the step returns none.
        finished: `(B, n)` bool, False for a hypothesis truncated at its maximum length.
        token_scores: `(B, n, L)` float32, log probability of each token; 0 past the length.
    """

    tokens: Any
    scores: Any
    lengths: Any
    attention: Any
    finished: Any
    token_scores: Any


class Continuations(NamedTuple):
    """All continuations that a search method can choose from at a step.

    Attributes:
        logits: `(B, M, V)` float32, -inf for tokens that are not allowed.
        normaliser: `(B, M, 1)`; logits minus it are log probabilities.
        log_probs: `(B, M)` float32, of the hypotheses so far; -inf for one that is not running.
        step: scalar int32, the number of tokens before this step.
        prefix_ids: `(B, M)` int32, equal for hypotheses with equal tokens; `()` without groups.
    """

    logits: Any
    normaliser: Any
    log_probs: Any
    step: Any
    prefix_ids: Any


ChoiceFunction = Callable[[Continuations], Choice]
"""The function that selects continuations; each search method supplies its own.

M is 1 at the first step, and `options.width` at later steps. With `fill_beam`, more continuations
are selected.
"""


class Progress(NamedTuple):
    """Loop variables: running hypotheses, history and best completed hypotheses.

    A hypothesis with log probability -inf is not running: it is complete or can no longer win.
    `state` is flat, `rule_states` has one entry per rule, and `coverage` is the summed attention or
    `()`; for `prefix_ids`, see `Continuations`.
    """

    length: Any
    tokens: Any
    log_probs: Any
    state: tuple[Any, ...]
    rule_states: tuple[Any, ...]
    coverage: Any
    prefix_ids: Any
    history: Any
    best: Any

    @classmethod
    def initial(cls, problem: Problem, groups: int = 1) -> Progress:
        """Return one empty hypothesis per source."""
        log_probs = ops.zeros((problem.batch_size, 1), dtype="float32")
        rule_states = tuple(
            rule.initial_state(problem.batch_size, problem.max_length) for rule in problem.rules
        )
        coverage = ()
        if problem.options.is_set("coverage_penalty"):
            coverage = ops.zeros_like(problem.first.attention, "float32")
        length = ops.zeros((), dtype="int32")
        prefix_ids = ops.zeros_like(log_probs, "int32") if groups > 1 else ()
        return cls(length, None, log_probs, (), rule_states, coverage, prefix_ids, None, None)


def search(
    step: StepFunction,
    state: Any,
    options: SearchOptions,
    *,
    batch_size: Any,
    start_token: Any,
    end_token: int,
    pad_token: int = 0,
    source_mask: Any = None,
    source_keys: Any = None,
    prefix: Any = None,
    rules: Sequence[Rule] = (),
    length_limits: Any = None,
    source_tokens: Any = None,
) -> SearchResult:
    """Search for the best output sequences of each source; the whole search is one graph.

    Every step selects continuations of the running hypotheses. Finished hypotheses are collected
    for the final comparison by score and are not continued. The search for a source stops when no
    running hypothesis can still enter its n best, unless `early_stopping` is set. A hypothesis that
    reaches the maximum length is truncated and compared as it is. The result of a source does not
    depend on the rest of the batch.

    Args:
        step: `step(tokens (B, N) int32, state) -> StepOutput`, a closure over the memory. N is 1 at
            the first step, then the number of hypotheses.
        state: a nest of tensors `(B, ...)`, which `search` repeats for the hypotheses; `()` for
            none.
        options: search options.
        batch_size: B, an integer or a scalar tensor.
        start_token: first input token: an id, or ids `(B,)`.
        end_token: the id that ends a hypothesis.
        pad_token: the id that pads outputs after the end token.
        source_mask: `(B, S)` bool, the padding mask of the sources (True at tokens); required by
            length limits that depend on the source length, and by the coverage penalty.
        source_keys: `(B,)` int32, combined with the seed for the sampling noise of each source; the
            batch index if None.
        prefix: `(B, P)` ids that each output starts with, padded at the end; None for none.
        rules: additional rules, applied after those of the options.
        length_limits: `(B,)` int32, maximum number of tokens for each source; the limits of the
            options apply too. None for no further limit.
        source_tokens: `(B, S)` ids, padded with `pad_token`; required by `no_repeat_source_ngram`.

    Returns:
        A `SearchResult`.

    Raises:
        ValueError: for conflicting options, an id outside the vocabulary, or a state or step output
            of the wrong shape.
    """
    rules = as_rules(rules)
    if isinstance(batch_size, Integral):
        batch_size = int(batch_size)
    check_inputs(batch_size, start_token, end_token, pad_token, source_mask, source_keys, options)
    state = expand_state(state, batch_size)
    tokens = ops.reshape(ops.cast(start_token, "int32"), (-1, 1))
    first = step(ops.broadcast_to(tokens, (batch_size, 1)), state)
    check_output(first, state, batch_size, end_token)
    check_optional_outputs(first, options, source_mask)
    vocabulary = Vocabulary(first.logits.shape[-1], end_token, pad_token)
    check_ids(options, prefix, vocabulary)
    limits = compute_length_limits(options, batch_size, source_mask, length_limits)
    if source_keys is None:
        source_keys = ops.arange(batch_size, dtype="int32")
    all_rules = (*make_rules(options, vocabulary, prefix, limits[1], source_tokens), *rules)
    growing_axes = find_growing_axes(state, first.state)
    sources = batch_size, vocabulary, *limits, source_mask, source_keys
    problem = Problem(step, options, *sources, all_rules, first, growing_axes)
    result: SearchResult = METHODS.get(options.method)(problem)
    return result


def grow(problem: Problem, choose: ChoiceFunction, groups: int = 1) -> SearchResult:
    """Extend hypotheses token by token until the search has stopped for every source.

    The first step runs before the loop. It determines the shapes of state and attention. The loop
    starts from the state repeated for N hypotheses.

    Args:
        problem: the search problem.
        choose: see `ChoiceFunction`.
        groups: number of groups of equal size; each group of hypotheses is searched separately.
    """
    initial = Progress.initial(problem, groups)

    def choose_next(logits: Any, progress: Progress) -> Choice:
        continuations = compute_continuations(problem, logits, progress)
        return mark_invalid_sources(choose(continuations), continuations)

    choice = choose_next(problem.first.logits, initial)
    width, options = choice.tokens.shape[1], problem.options
    size = options.n_best if options.early_stopping == "never" else options.beam_width
    attention = gather_parents(problem.first.attention, choice.parents)
    initial = initial._replace(
        history=History.empty(problem.max_length, choice, attention),
        best=NBestList.empty(problem.batch_size * groups, min(size, width // groups)),
    )

    def is_running(progress: Progress) -> Any:
        return ops.any(progress.log_probs > NEG_INF)

    def advance(progress: Progress) -> tuple[Progress]:
        state = keras.tree.pack_sequence_as(problem.first.state, progress.state)
        output = problem.call_step(progress.tokens, state)
        choice = choose_next(output.logits, progress)
        return (record_step(problem, progress, output, choice, groups),)

    start = record_step(problem, initial, problem.first, choice, groups)
    (final,) = ops.while_loop(is_running, advance, (start,))
    best = final.best.take_first(options.n_best).join_groups(groups, width // groups)
    if groups > 1:
        best = select_distinct(final, best, options.n_best)
    return make_result(problem, final, best)


def compute_continuations(problem: Problem, logits: Any, progress: Progress) -> Continuations:
    """Return the continuations of the running hypotheses, after applying the rules."""
    logits = ops.cast(logits, "float32")
    rules = list(zip(problem.rules, progress.rule_states, strict=True))
    for rule, state in rules:
        logits = rule.adjust_logits(logits, state, progress.length)
    normaliser = ops.logsumexp(logits, axis=-1, keepdims=True)
    for rule, state in rules:
        mask = rule.compute_allowed_mask(ops.shape(logits), state, progress.length)
        if mask is not None:
            logits = ops.where(mask, logits, NEG_INF)
    if problem.options.renormalize:
        allowed = ops.logsumexp(logits, axis=-1, keepdims=True)
        normaliser = ops.where(ops.isfinite(normaliser), allowed, normaliser)
    log_probs, prefix_ids = progress.log_probs, progress.prefix_ids
    return Continuations(logits, normaliser, log_probs, progress.length, prefix_ids)


def mark_invalid_sources(choice: Choice, continuations: Continuations) -> Choice:
    """Set a source's log probabilities to NaN if a running hypothesis has NaN or +inf logits.

    The search for the source ends, because comparisons would silently rank NaN below other scores.
    """
    is_running = continuations.log_probs > NEG_INF
    normaliser = continuations.normaliser[..., 0]
    # Not `logical_not(normaliser < inf)`, which TensorFlow's graph optimizer rewrites to `>=`.
    is_invalid = ops.logical_or(ops.isnan(normaliser), normaliser == float("inf"))
    is_nan = ops.any(ops.logical_and(is_running, is_invalid), axis=1, keepdims=True)
    return choice._replace(log_probs=ops.where(is_nan, float("nan"), choice.log_probs))


def record_step(
    problem: Problem, progress: Progress, output: StepOutput, choice: Choice, groups: int = 1
) -> Progress:
    """Record a step, collect completed hypotheses, and stop sources that are done.

    Of the chosen hypotheses, only the first `options.width` can continue. The results of a source
    that is done (see `should_continue`) are frozen, so that they do not depend on how long other
    sources keep the loop running.
    """
    length = progress.length + 1
    attention = gather_parents(output.attention, choice.parents)
    coverage, log_coverage = progress.coverage, 0.0
    if problem.options.is_set("coverage_penalty"):
        coverage = take_hypotheses(coverage, choice.parents) + ops.cast(attention, "float32")
        log_coverage = problem.log_coverage(coverage)
    finished = choice.tokens == problem.vocabulary.end_token
    is_complete = ops.logical_or(finished, length >= problem.limits)
    is_complete = ops.logical_or(is_complete, ops.isnan(choice.log_probs))
    scores = problem.options.score(choice.log_probs, length, log_coverage)
    is_scored = ops.logical_and(is_complete, choice.log_probs != NEG_INF)
    scores = split_groups(ops.where(is_scored, scores, NEG_INF), groups)
    best = progress.best.merge(scores, length, split_groups(finished, groups))
    running = split_groups(ops.where(is_complete, NEG_INF, choice.log_probs), groups)
    limits = ops.repeat(problem.limits, groups, axis=0)
    is_open = should_continue(problem.options, running, best, length, limits)
    running = ops.where(is_open, running, NEG_INF)
    history = progress.history.record(progress.length, choice, attention)
    log_probs = ops.reshape(running, ops.shape(choice.tokens))
    choice = choice._replace(log_probs=log_probs).take_first(problem.options.width)
    if problem.options.is_set("coverage_penalty"):
        coverage = take_first(coverage, problem.options.width)
    state = gather_state(output.state, choice.parents)
    rule_states = tuple(
        rule.update_state(gather_parents(state, choice.parents), choice.tokens, progress.length)
        for rule, state in zip(problem.rules, progress.rule_states, strict=True)
    )
    ids = progress.prefix_ids if groups == 1 else number_prefixes(progress.prefix_ids, choice)
    tokens, log_probs = choice.tokens, choice.log_probs
    return Progress(length, tokens, log_probs, state, rule_states, coverage, ids, history, best)


def should_continue(
    options: SearchOptions, running: Any, best: NBestList, length: Any, limits: Any
) -> Any:
    """Return `(B, 1)` bool, whether the search for a source continues; see `early_stopping`.

    Args:
        options: search options.
        running: `(B, N)`, log probabilities of running hypotheses, -inf for others.
        best: the best completed hypotheses.
        length: scalar, number of tokens of the running hypotheses.
        limits: `(B, 1)`, maximum number of tokens.
    """
    worst = best.scores[:, -1:]  # -inf until the list is full
    if options.early_stopping is True:
        return worst == NEG_INF
    best_log_prob = ops.max(running, axis=1, keepdims=True, initial=NEG_INF)
    # An upper bound with "never": all remaining tokens have probability 1.
    bound = options.score(best_log_prob, limits if options.early_stopping == "never" else length)
    return bound > worst


def number_prefixes(prefix_ids: Any, choice: Choice) -> Any:
    """Return ids `(B, N)` of the chosen hypotheses, equal for equal tokens."""
    pairs = ops.stack([take_hypotheses(prefix_ids, choice.parents), choice.tokens], axis=-1)
    is_equal = ops.all(pairs[:, :, None] == pairs[:, None], axis=-1)
    return ops.cast(ops.argmax(is_equal, axis=-1), "int32")  # the first equal hypothesis


def gather_parents(x: Any, parents: Any) -> Any:
    """Gather a nest of `(B, M, ...)`, or None, by the parents `(B, N)` of chosen hypotheses."""
    return keras.tree.map_structure(
        lambda leaf: None if leaf is None else take_hypotheses(leaf, parents), x
    )


def gather_state(state: Any, parents: Any) -> tuple[Any, ...]:
    """Return the state leaves of the chosen hypotheses; `InPlace` leaves stay unchanged."""
    return tuple(map_state(lambda leaf: take_hypotheses(leaf, parents), state))


def split_groups(x: Any, groups: int) -> Any:
    """Reshape `(B, N)` to `(B G, N / G)`."""
    if groups == 1:
        return x
    batch, width = ops.shape(x)
    return ops.reshape(x, (batch * groups, width // groups))


def select_distinct(progress: Progress, hypotheses: NBestList, count: int) -> NBestList:
    """Return `count` hypotheses: distinct ones, best first, then repeated ones, then empty slots.

    Groups of a diverse beam search may return the same hypothesis; see `SearchOptions.n_best`.
    """
    size = hypotheses.scores.shape[1]
    hypotheses = hypotheses.take(ops.top_k(hypotheses.scores, size)[1])
    path = progress.history.trace_back(progress.length, hypotheses.slots, hypotheses.lengths)
    tokens = progress.history.gather_path(progress.history.tokens, path)
    within = ops.arange(ops.shape(tokens)[2], dtype="int32") < hypotheses.lengths[..., None]
    tokens = ops.where(within, tokens, -1)
    is_equal = ops.all(tokens[:, :, None] == tokens[:, None], axis=-1)
    is_earlier = np.tri(size, k=-1, dtype="bool")
    is_repeated = ops.any(ops.logical_and(is_equal, is_earlier), axis=-1)
    rank = ops.where(is_repeated, size, 0) + ops.where(hypotheses.lengths == 0, 2 * size, 0)
    rank = rank + ops.arange(size, dtype="int32")
    return hypotheses.take(ops.top_k(-rank, count)[1])


def make_result(problem: Problem, progress: Progress, best: NBestList) -> SearchResult:
    """Trace the best hypotheses back through the history and return the result."""
    history = progress.history
    path = history.trace_back(progress.length, best.slots, best.lengths)
    within = ops.arange(ops.shape(path)[0], dtype="int32") < best.lengths[..., None]
    tokens = ops.where(
        within, history.gather_path(history.tokens, path), problem.vocabulary.pad_token
    )
    sums = history.gather_path(history.log_probs, path)
    before = ops.pad(sums, ((0, 0), (0, 0), (1, 0)))[..., :-1]
    token_scores = ops.where(within, sums - before, 0.0)
    attention = None
    if not isinstance(history.attention, tuple):
        attention = history.gather_path(history.attention, path)
        attention = ops.where(within[..., None], attention, ops.zeros_like(attention))
    return SearchResult(tokens, best.scores, best.lengths, attention, best.finished, token_scores)

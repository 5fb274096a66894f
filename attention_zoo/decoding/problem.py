"""One search to be done: the decoder, its sources, the options, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from attention_zoo.decoding.options import SearchOptions, check_integer
from attention_zoo.decoding.rules import Rule
from attention_zoo.decoding.step import (
    StepFunction,
    StepOutput,
    check_output,
    check_state,
    staying,
)

LEAST_READ = 1e-9  # what a place of the source counts at least as read, so that its log is finite


@dataclass(frozen=True)
class Problem:
    """What every way of searching is given.

    Args:
        step: see `StepFunction`.
        options: how to search.
        batch_size: B, an integer or a scalar tensor.
        end_token, pad_token: ids.
        room: most tokens of any hypothesis, an integer or a scalar tensor (L).
        limits: `(B, 1)` int32, most tokens of a hypothesis of each source.
        source_mask: `(B, S)` bool, or None.
        source_keys: `(B,)` int32, what the draws for a source depend on beside the seed.
        rules: what may be taken, in order.
        first: what the first step gave, of one hypothesis a source.
    """

    step: StepFunction
    options: SearchOptions
    batch_size: Any
    end_token: int
    pad_token: int
    room: Any
    limits: Any
    source_mask: Any
    source_keys: Any
    rules: tuple[Rule, ...]
    first: StepOutput

    def log_coverage(self, coverage: Any) -> Any:
        """`sum_i log min(sum_t a_ti, 1)` of the summed attention `(B, N, S)` -> `(B, N)`."""
        read = ops.log(ops.clip(coverage, LEAST_READ, 1.0))
        return ops.sum(ops.where(self.source_mask[:, None], read, 0.0), axis=-1)


def first_step(
    step: StepFunction,
    state: Any,
    options: SearchOptions,
    *,
    batch_size: Any,
    start_token: Any,
    end_token: int,
) -> StepOutput:
    """The step of one hypothesis a source; ValueError for a state or step of the wrong shape."""
    check_state(state, batch_size)
    state = _with_one_hypothesis(state)
    tokens = ops.reshape(ops.cast(start_token, "int32"), (-1, 1))
    output = step(ops.broadcast_to(tokens, (batch_size, 1)), state)
    check_output(output, state, batch_size, end_token)
    _check_vocabulary(options, output.logits.shape[-1])
    _check_needs(options, output)
    return output


def _with_one_hypothesis(state: Any) -> Any:
    """The state `(B, ...)` as `(B, 1, ...)`, but for what stays in place."""
    leaves = [
        leaf if stays else ops.expand_dims(leaf, 1)
        for leaf, stays in zip(keras.tree.flatten(state), staying(state), strict=True)
    ]
    return keras.tree.pack_sequence_as(state, leaves)


def check_arguments(
    batch_size: Any, start: Any, end: Any, pad: Any, mask: Any, options: SearchOptions
) -> None:
    """ValueError for what is wrong before the first step."""
    if isinstance(batch_size, (int, float)):
        check_integer("batch_size", batch_size, 0)
    if not getattr(start, "shape", ()):
        check_integer("start_token", start, 0)
    check_integer("end_token", end, 0)
    check_integer("pad_token", pad, 0)
    if end in options.banned_tokens and options.max_length is None:
        raise ValueError(
            f"banned_tokens forbids the end token {end} and max_length is None: nothing would "
            "end an answer; set max_length or allow the token"
        )
    for place, token in options.forced_tokens.items():
        if token == end and place + 1 < options.min_length:
            raise ValueError(
                f"forced_tokens ends answers at place {place} but min_length is "
                f"{options.min_length}: choose one"
            )
    if mask is None:
        for name in ("coverage_penalty", "max_length_ratio"):
            if getattr(options, name):
                raise ValueError(f"{name} needs source_mask (B, S): where the source has tokens")
        if options.max_length is None:
            raise ValueError("max_length is None: set it, or give source_mask (B, S)")


def _check_vocabulary(options: SearchOptions, vocabulary: int) -> None:
    """ValueError for an id that the decoder does not have."""
    forced = tuple(options.forced_tokens.values())
    for name, tokens in (
        ("banned_tokens", options.banned_tokens),
        ("prefix_tokens", options.prefix_tokens),
        ("forced_tokens", forced),
    ):
        if max(tokens, default=0) >= vocabulary:
            raise ValueError(
                f"{name} names token {max(tokens)} but step gives logits of {vocabulary} tokens"
            )


def _check_needs(options: SearchOptions, output: StepOutput) -> None:
    """ValueError where an option needs what the decoder does not give."""
    if options.coverage_penalty and output.attention is None:
        raise ValueError("coverage_penalty needs attention, and step gives none")
    if options.method == "contrastive" and output.hidden is None:
        raise ValueError("method 'contrastive' needs hidden (B, N, D), and step gives none")


def limits_of(options: SearchOptions, batch_size: Any, source_mask: Any) -> tuple[Any, Any]:
    """Most tokens of any hypothesis, and `(B, 1)` of each source's."""
    nothing = ops.zeros((batch_size, 1), dtype="int32")
    if source_mask is None:
        return options.max_length, nothing + options.max_length
    lengths = ops.sum(ops.cast(source_mask, "int32"), axis=1, keepdims=True)
    return options.limit(ops.shape(source_mask)[1]), nothing + options.limit(lengths)

"""The search problem: decoder step, sources, options, limits and rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras import ops

from attention_zoo.decoding.options import SearchOptions, check_integer
from attention_zoo.decoding.plan import Vocabulary, check_prefix, check_tokens, get_static_value
from attention_zoo.decoding.rules import Rule
from attention_zoo.decoding.step import (
    StepFunction,
    StepOutput,
    check_next_output,
    check_shape,
)
from attention_zoo.ops import refuse_float_mask

MIN_COVERAGE = 1e-9  # lower bound of the coverage of a source position; keeps its log finite


@dataclass(frozen=True)
class Problem:
    """The input of every search method.

    Args:
        step: see `StepFunction`.
        options: search options.
        batch_size: B, an integer or a scalar tensor.
        vocabulary: the token ids.
        max_length: maximum number of tokens of any hypothesis, an integer or a scalar tensor (L).
        limits: `(B, 1)` int32, maximum number of tokens for each source.
        source_mask: `(B, S)` bool, or None.
        source_keys: `(B,)` int32, combined with the seed for the sampling noise of each source.
        rules: decoding rules, in order.
        first: output of the first step, for one hypothesis per source.
        growing_axes: axes of each leaf of the decoder state whose size differs between steps.
    """

    step: StepFunction
    options: SearchOptions
    batch_size: Any
    vocabulary: Vocabulary
    max_length: Any
    limits: Any
    source_mask: Any
    source_keys: Any
    rules: tuple[Rule, ...]
    first: StepOutput
    growing_axes: list[set[int]]

    def call_step(self, tokens: Any, state: Any) -> StepOutput:
        """Return the output of a later step for tokens `(B, N)`, with checked shapes."""
        output = self.step(tokens, state)
        return check_next_output(output, self.first, tokens.shape[1], self.growing_axes)

    def log_coverage(self, coverage: Any) -> Any:
        """Return `sum_i log min(sum_t a_ti, 1)` of summed attention `(B, N, S)` -> `(B, N)`."""
        log_mass = ops.log(ops.clip(coverage, MIN_COVERAGE, 1.0))
        return ops.sum(ops.where(self.source_mask[:, None], log_mass, 0.0), axis=-1)


def check_inputs(
    batch_size: Any, start: Any, end: Any, pad: Any, mask: Any, keys: Any, options: SearchOptions
) -> None:
    """Raise ValueError for arguments that are invalid before the first step."""
    if isinstance(batch_size, (int, float)):
        check_integer("batch_size", batch_size, 0)
    if len(getattr(start, "shape", ())):
        check_shape("start_token", start, (batch_size,))
    elif not ops.is_tensor(start):
        check_integer("start_token", start, 0)
    check_integer("end_token", end, 0)
    check_integer("pad_token", pad, 0)
    if keys is not None:
        check_shape("source_keys", keys, (batch_size,))
    if mask is not None:
        check_shape("source_mask", mask, (batch_size, None))
        refuse_float_mask("source_mask", mask)
        return
    for name in ("coverage_penalty", "max_length_ratio"):
        if options.is_set(name):
            raise ValueError(
                f"{name} needs source_mask (B, S), got None: pass it, True at source tokens"
            )
    if options.max_length is None:
        raise ValueError("max_length must be set unless source_mask is given, got None")


def check_ids(options: SearchOptions, prefix: Any, vocabulary: Vocabulary) -> None:
    """Raise ValueError for tokens that cannot be generated; a symbolic prefix is not checked."""
    check_tokens(options, vocabulary)
    tokens = get_static_value(prefix)
    if tokens is not None:
        check_prefix(tokens, options, vocabulary)


def check_optional_outputs(output: StepOutput, options: SearchOptions, source_mask: Any) -> None:
    """Raise ValueError if an option needs an output that the step does not return.

    Also if attention and source mask differ in length.
    """
    for is_set, option, name, fix in (
        (options.is_set("coverage_penalty"), "coverage_penalty", "attention", "set it to 0"),
        (options.replace_unknown, "replace_unknown", "attention", "set it to False"),
        (options.method == "contrastive", "method 'contrastive'", "hidden", "return it"),
    ):
        if is_set and getattr(output, name) is None:
            raise ValueError(f"{option} needs {name}, but step returns {name}=None: {fix}")
    if output.attention is not None and source_mask is not None:
        shape = (*output.logits.shape[:2], source_mask.shape[1])
        check_shape("the attention of step", output.attention, shape)


def compute_length_limits(
    options: SearchOptions, batch_size: Any, source_mask: Any, length_limits: Any = None
) -> tuple[Any, Any]:
    """Return the maximum length of any hypothesis, and the maximum for each source `(B, 1)`.

    Args:
        options, batch_size, source_mask: see `search`.
        length_limits: `(B,)`, an additional maximum for each source, or None.
    """
    limits = ops.zeros((batch_size, 1), dtype="int32")
    if source_mask is None:
        longest = options.max_length
        limits = limits + longest
    else:
        longest = options.limit(ops.shape(source_mask)[1])
        lengths = ops.sum(ops.cast(source_mask, "int32"), axis=1, keepdims=True)
        limits = limits + options.limit(lengths)
    if length_limits is not None:
        check_shape("length_limits", length_limits, (batch_size,))
        limits = ops.minimum(limits, ops.cast(length_limits, "int32")[:, None])
    return longest, limits

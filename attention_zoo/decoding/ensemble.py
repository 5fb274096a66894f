"""Ensembles of decoders with the same vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from attention_zoo.decoding.step import StepFunction, StepOutput


def ensemble(steps: Sequence[StepFunction]) -> StepFunction:
    """Return a step function that averages the probabilities of several step functions.

    Args:
        steps: step functions with the same vocabulary and, if they return attention, the same
            source.

    Returns:
        A step function. Its state is a tuple of their states. Its attention is the mean over the
        steps that return attention. Its hidden vectors are concatenated (None if a step has none).

    Raises:
        ValueError: if `steps` is empty, or two vocabularies differ in size.
    """
    if not steps:
        raise ValueError("ensemble needs at least one step function, got an empty list")

    def step(tokens: Any, states: Any) -> StepOutput:
        outputs = [one(tokens, state) for one, state in zip(steps, states, strict=True)]
        sizes = sorted({output.logits.shape[-1] for output in outputs})
        if len(sizes) > 1:
            raise ValueError(
                f"the steps of an ensemble must share one vocabulary size, got {sizes}"
            )
        logits, states, attentions, hidden = zip(*outputs, strict=True)
        weights = [ops.cast(x, "float32") for x in attentions if x is not None]
        attention = sum(weights) / len(weights) if weights else None
        all_hidden = None if any(x is None for x in hidden) else ops.concatenate(hidden, axis=-1)
        return StepOutput(mean_logits(logits), states, attention, all_hidden)

    return step


def mean_logits(logits: Sequence[Any]) -> Any:
    """Return `log 1/M sum_m softmax(logits_m)` over the last axis, in float32."""
    log_probs = [ops.log_softmax(ops.cast(x, "float32"), axis=-1) for x in logits]
    return ops.logsumexp(ops.stack(log_probs), axis=0) - ops.log(float(len(logits)))

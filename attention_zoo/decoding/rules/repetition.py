"""Repetition penalty."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.rules.history import TokenHistoryRule, compute_occurrence_mask


class RepetitionPenalty(TokenHistoryRule):
    """Repetition penalty on the logits of tokens that were generated before.

    Keskar et al. 2019 (arXiv:1909.05858), section 4.1: logits are divided by the penalty. Negative
    logits are multiplied instead, so that a penalty above 1 lowers every logit.

    Args:
        penalty: above 1 discourages, below 1 encourages repetition.
    """

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty

    def adjust_logits(self, logits: Any, state: Any, step: Any) -> Any:
        is_generated = compute_occurrence_mask(state, logits.shape[-1])
        penalized = ops.where(logits > 0, logits / self.penalty, logits * self.penalty)
        return ops.where(is_generated, penalized, logits)

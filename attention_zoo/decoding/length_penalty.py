"""Length penalties: what a log probability is divided by before hypotheses are compared.

Every penalty is positive and never falls with the length. The search relies on it: the most that
a running hypothesis can still score is its log probability over the penalty of the longest length.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.registry import Registry

LENGTH_PENALTIES = Registry("length penalty")


@LENGTH_PENALTIES.register("none")
def no_penalty(length: Any, weight: float) -> Any:
    """`1`: the score is the log probability, whatever the weight."""
    return ops.ones_like(length)


@LENGTH_PENALTIES.register("average")
def average_penalty(length: Any, weight: float) -> Any:
    """`n ** weight`: with weight 1 the score is the mean log probability of a token."""
    return ops.power(length, weight)


@LENGTH_PENALTIES.register("gnmt")
def gnmt_penalty(length: Any, weight: float) -> Any:
    """`((5 + n) / 6) ** weight`: Wu et al. 2016 (arXiv:1609.08144), equation 14, `alpha` there."""
    return ops.power((5.0 + length) / 6.0, weight)

"""Length penalties: divisors of the log probabilities of hypotheses.

A length penalty is a function of the length and a weight of at least 0. Its value is positive and
does not decrease with the length. The search relies on this: the score of a running hypothesis is
at most its log probability divided by the penalty of the maximum length.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.registry import Registry

LENGTH_PENALTIES = Registry("length penalty")


@LENGTH_PENALTIES.register("none")
def no_penalty(length: Any, weight: float) -> Any:
    """Return `1`: the score is the log probability, and the weight has no effect."""
    return ops.ones_like(length)


@LENGTH_PENALTIES.register("average")
def average_penalty(length: Any, weight: float) -> Any:
    """Return `length ** weight`: with weight 1 the score is the mean log probability per token."""
    return ops.power(length, weight)


@LENGTH_PENALTIES.register("gnmt")
def gnmt_penalty(length: Any, weight: float) -> Any:
    """Return `((5 + length) / 6) ** weight`.

    Reference:
        Wu et al. 2016, arXiv:1609.08144, equation 14, where the weight is alpha.
    """
    return ops.power((5.0 + length) / 6.0, weight)

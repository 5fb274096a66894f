"""Losses."""

from attention_zoo.losses.sequence_cross_entropy import SequenceCrossEntropy

__all__ = ["SequenceCrossEntropy"]

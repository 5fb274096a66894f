"""Alignments (scores to attention weights): each module registers one; all are imported here."""

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, make_alignment
from attention_zoo.registry import import_modules

import_modules(__name__)

__all__ = ["ALIGNMENTS", "Alignment", "make_alignment"]

"""Glimpses: classification of an image from a sequence of small patches (recurrent attention)."""

from attention_zoo.tasks.glimpses.result import GlimpseResult
from attention_zoo.tasks.glimpses.task import Glimpses

__all__ = ["GlimpseResult", "Glimpses"]

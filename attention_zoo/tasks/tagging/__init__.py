"""Tagging: a tag for each word of a sentence, and the spans that tags encode."""

from attention_zoo.tasks.tagging.result import TaggedSpan, TaggingResult
from attention_zoo.tasks.tagging.task import Tagging

__all__ = ["TaggedSpan", "Tagging", "TaggingResult"]

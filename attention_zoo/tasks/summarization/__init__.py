"""Summarization of texts, with copied out-of-vocabulary words."""

from attention_zoo.tasks.summarization.result import Summary
from attention_zoo.tasks.summarization.task import Summarization

__all__ = ["Summarization", "Summary"]

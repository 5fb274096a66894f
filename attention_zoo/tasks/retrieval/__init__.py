"""Retrieval: images by text, and texts by image."""

from attention_zoo.tasks.retrieval.result import ImageIndex, RetrievalResult
from attention_zoo.tasks.retrieval.task import Retrieval

__all__ = ["ImageIndex", "Retrieval", "RetrievalResult"]

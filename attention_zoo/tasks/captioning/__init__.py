"""Captioning: description of an image in a sentence."""

from attention_zoo.tasks.captioning.result import Caption
from attention_zoo.tasks.captioning.task import Captioning

__all__ = ["Caption", "Captioning"]

"""Classification of texts and documents."""

from attention_zoo.tasks.classification.result import ClassificationResult
from attention_zoo.tasks.classification.task import Classification

__all__ = ["Classification", "ClassificationResult"]

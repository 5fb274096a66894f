"""Translation of sentences from one language to another."""

from attention_zoo.tasks.translation.task import Translation, TranslationResult

__all__ = ["Translation", "TranslationResult"]

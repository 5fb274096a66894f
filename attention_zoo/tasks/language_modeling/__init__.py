"""Language modeling: text generation from prompts, perplexity, next-token accuracy."""

from attention_zoo.tasks.language_modeling.task import Continuation, LanguageModeling

__all__ = ["Continuation", "LanguageModeling"]

"""Construction of taggers from a recipe's `model` section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_zoo import models
from attention_zoo.data import Tokenizer
from attention_zoo.tasks.building import (
    TokenizerOptions,
    build_around_bert,
    build_model,
    is_bert_preset,
)

CHARACTER_OPTIONS = TokenizerOptions("character", vocabulary_size=1000)
"""Options of the character tokenizer."""


def build_tagger(recipe: Any, tags: Sequence[str], tokens: int, characters: int | None) -> Any:
    """Build the tagger of a recipe; a BERT preset or a public checkpoint becomes its encoder.

    Args:
        recipe: the recipe. `init`, if it has one, is a public checkpoint of a BERT, DistilBERT or
            RoBERTa; `characters` in its `model` section must not set `vocabulary_size`.
        tags: names of the tags.
        tokens: size of the token vocabulary.
        characters: size of the character vocabulary; None for a model without characters.
    """
    section, given = dict(recipe.model), {"vocabulary_size": tokens}
    if recipe.init is not None or is_bert_preset(section.get("preset")):
        if recipe.init is not None:
            section = {"class_token": True, **section}  # as in pretraining
        cls = models.TransformerTagger
        return build_around_bert(cls, section, recipe.init, tokens, use_pooler=False, tags=tags)
    if characters is None:
        return build_model(section, **given, tags=tags)
    options = section.pop("characters", None) or {}
    if "vocabulary_size" in options:
        raise ValueError(
            "model.characters.vocabulary_size: determined by the data; remove it from the recipe"
        )
    options = {**options, "vocabulary_size": characters}
    return build_model(section, **given, tags=tags, characters=options)


def takes_characters(section: dict[str, Any]) -> bool:
    """Return whether the recipe's `model` section or its preset sets `characters`."""
    if "characters" in section or section.get("preset") not in models.list_presets():
        return section.get("characters") is not None
    return models.preset_config(section["preset"]).get("characters") is not None


def check_tokenizers(model: Any, tokenizer: Any, characters: Any) -> None:
    """Raise ValueError if the tokenizers do not fit the inputs of a tagger."""
    options = model.characters
    if options is None and characters is not None:
        raise ValueError("characters must be None for a model that takes no characters")
    if options is not None and characters is None:
        raise ValueError("characters must be a tokenizer for a model that takes characters")
    sizes = [(tokenizer, model.vocabulary_size, "tokens")]
    if characters is not None:
        sizes.append((characters, options["vocabulary_size"], "characters"))
        required = (tokenizer, "whitespace"), (characters, "character")
        for own, kind in required:
            is_tokenizer = isinstance(own, Tokenizer)
            given = own.kind if is_tokenizer else type(own).__name__
            if given != kind:
                raise ValueError(
                    "a model that takes characters needs tokenizers of the kinds whitespace"
                    f" (tokens) and character (characters), got {given} instead of {kind}"
                )
    for own, known, what in sizes:
        if own.vocabulary_size > known:
            raise ValueError(
                f"the tokenizer has {own.vocabulary_size} {what}, but the model's"
                f" vocabulary has {known}; use at least as many"
            )

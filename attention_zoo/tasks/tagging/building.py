"""Construction of taggers from a recipe's `model` section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_zoo import models
from attention_zoo.tasks.building import build_model

MAX_CHARACTERS = 1000
"""Maximum size of the character vocabulary, including the four special tokens."""


def build_tagger(
    section: dict[str, Any], tags: Sequence[str], tokens: int, characters: int | None
) -> Any:
    """Build the tagger of a recipe's `model` section, with a BERT encoder if the preset is a BERT.

    Args:
        section: see `build_model`; its `characters` must not set `vocabulary_size`.
        tags: names of the tags.
        tokens: size of the token vocabulary.
        characters: size of the character vocabulary; None for a model without characters.
    """
    section, given = dict(section), {"vocabulary_size": tokens}
    preset = section.get("preset")
    if preset in models.list_presets() and models.preset_class(preset) is models.BERT:
        head = {key: section.pop(key) for key in ("head", "marks") if key in section}
        bert = build_model(section, **given, use_pooler=False)
        return models.TransformerTagger(bert, tags, **head)
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

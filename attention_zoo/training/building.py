"""Builders of untrained tasks from a recipe and its training split, one per task."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.data import (
    CaptionedImages,
    LabelledImages,
    TaggedSentences,
    TextLines,
    TextPairs,
    Tokenizer,
    train_tokenizer,
)
from attention_zoo.registry import Registry
from attention_zoo.tasks import (
    TASKS,
    Captioning,
    Glimpses,
    LanguageModeling,
    MaskedLanguageModeling,
    Retrieval,
    Summarization,
    Tagging,
    Translation,
)
from attention_zoo.tasks.masked_language_modeling import mask_of
from attention_zoo.training.recipe import Recipe, TokenizerOptions

BUILDERS = Registry("task")
CHARACTERS = 1000
"""Maximum size of a tagger's character vocabulary, including the four special tokens."""


def build_task(recipe: Recipe, train: Any) -> Any:
    """Build the untrained task of a recipe, with vocabularies from the training split."""
    return BUILDERS.get(recipe.task)(recipe, train)


def load_task(recipe: Recipe, checkpoint: Path) -> Any:
    """Load the task of an intact checkpoint, with the limits and search options of the recipe."""
    task_class: Any = TASKS.get(recipe.task)
    return with_options(task_class.load(checkpoint), recipe)


def with_options(task: Any, recipe: Recipe) -> Any:
    """Set the limits, switches and search options of a task to the recipe's; return the task."""
    task.search = recipe.search
    for name in (*recipe.data.limits, *getattr(task, "switches", ())):
        setattr(task, name, getattr(recipe.data, name))
    return task


def lengths(recipe: Recipe) -> dict[str, int]:
    """Return the limits of the recipe's corpus (`max_source_length` and the like) by name."""
    return {name: getattr(recipe.data, name) for name in recipe.data.limits}


@BUILDERS.register("translation")
def build_translation(recipe: Recipe, train: TextPairs) -> Translation:
    """Build a translator and train its source and target tokenizers."""
    options = recipe.tokenizer or TokenizerOptions()
    sides = [train.sources, train.targets]
    if options.shared:
        sides = [[*train.sources, *train.targets]] * 2
    source, target = (learnt(options, texts) for texts in sides)
    model = build_model(
        recipe.model,
        source_vocabulary_size=source.vocabulary_size,
        target_vocabulary_size=target.vocabulary_size,
    )
    return Translation(
        model,
        source,
        target,
        recipe.search,
        **lengths(recipe),
    )


@BUILDERS.register("summarization")
def build_summarization(recipe: Recipe, train: Any) -> Summarization:
    """Build a summarizer and train one tokenizer for source and target."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt(options, [*train.sources, *train.targets])
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    names = (*recipe.data.limits, *recipe.data.switches)
    given: dict[str, Any] = {name: getattr(recipe.data, name) for name in names}
    try:
        return Summarization(model, tokenizer, recipe.search, **given)
    except ValueError as error:
        raise ValueError(f"model.preset={recipe.model['preset']}: {error}") from None


@BUILDERS.register("captioning")
def build_captioning(recipe: Recipe, train: CaptionedImages) -> Captioning:
    """Build a captioner and train its tokenizer on the captions."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt_of_captions(options, train)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    try:
        return Captioning(model, tokenizer, recipe.search, **lengths(recipe))
    except ValueError as error:
        raise ValueError(f"model.preset={recipe.model['preset']}: {error}") from None


@BUILDERS.register("glimpses")
def build_glimpses(recipe: Recipe, train: LabelledImages) -> Glimpses:
    """Build a glimpse model for the image shape and the classes of the training split."""
    shape = list(train.images.shape[1:])
    model = build_model(recipe.model, image_shape=shape, classes=len(train.classes))
    try:
        return Glimpses(model, train.classes, recipe.search, **lengths(recipe))
    except ValueError as error:
        raise ValueError(f"model.preset={recipe.model['preset']}: {error}") from None


@BUILDERS.register("retrieval")
def build_retrieval(recipe: Recipe, train: CaptionedImages) -> Retrieval:
    """Build an image-text retriever and train its tokenizer on the captions."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt_of_captions(options, train)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    try:
        return Retrieval(model, tokenizer, recipe.search, **lengths(recipe))
    except ValueError as error:
        raise ValueError(f"model.preset={recipe.model['preset']}: {error}") from None


@BUILDERS.register("language_modeling")
def build_language_model(recipe: Recipe, train: TextLines) -> LanguageModeling:
    """Build a language model and train its tokenizer."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt(options, train.texts)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    return LanguageModeling(model, tokenizer, recipe.search, **lengths(recipe))


@BUILDERS.register("masked_language_modeling")
def build_masked_language_model(recipe: Recipe, train: TextLines) -> MaskedLanguageModeling:
    """Build a masked language model around a BERT and train its tokenizer."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt(options, train.texts)
    size = max(tokenizer.vocabulary_size, mask_of(tokenizer) + 1)
    bert = build_model(recipe.model, vocabulary_size=size, use_pooler=False)
    return MaskedLanguageModeling(
        models.MaskedLM(bert), tokenizer, recipe.search, **lengths(recipe)
    )


@BUILDERS.register("tagging")
def build_tagging(recipe: Recipe, train: TaggedSentences) -> Tagging:
    """Build a tagger for the tags of the training split and train its word tokenizer.

    If the preset or the recipe sets `characters`, a character tokenizer is trained too.
    """
    options = recipe.tokenizer or TokenizerOptions()
    words = [word for of_sentence in train.words for word in of_sentence]
    tokenizer = learnt(options, frequent(words, options))
    characters = None
    if reads_characters(recipe.model):
        characters = train_tokenizer("character", words, CHARACTERS)
    spelt = None if characters is None else characters.vocabulary_size
    model = build_tagger(recipe.model, train.known_tags, tokenizer.vocabulary_size, spelt)
    if options.vectors is not None:
        size = tokenizer.vocabulary_size
        found = model.load_word_vectors(options.vectors, tokenizer.tokens(range(size)))
        print(f"{options.vectors}: vectors of {found:,} of {size:,} tokens")
    return Tagging(
        model,
        tokenizer,
        characters,
        recipe.search,
        **lengths(recipe),
        scheme=getattr(recipe.data, "scheme", None),
    )


def build_tagger(
    section: dict[str, Any], tags: Sequence[str], tokens: int, characters: int | None
) -> Any:
    """Build the tagger of a recipe's `model` section, around a BERT if the preset is a BERT.

    Args:
        section: see `build_model`; its `characters` must not set `vocabulary_size`.
        tags: names of the tags.
        tokens: size of the token vocabulary.
        characters: size of the character vocabulary; None for a model without characters.
    """
    section, given = dict(section), {"vocabulary_size": tokens}
    if _is_bert(section):
        own = {key: section.pop(key) for key in ("head", "marks") if key in section}
        bert = build_model(section, **given, use_pooler=False)
        return models.TransformerTagger(bert, tags, **own)
    if characters is None:
        return build_model(section, **given, tags=tags)
    read = section.pop("characters", None) or {}
    if "vocabulary_size" in read:
        decided = "model.characters.vocabulary_size"
        raise ValueError(f"{decided}: determined by the data; remove it from the recipe")
    read = {**read, "vocabulary_size": characters}
    return build_model(section, **given, tags=tags, characters=read)


def _is_bert(section: dict[str, Any]) -> bool:
    preset = section.get("preset")
    return preset in models.list_presets() and models.preset_class(preset) is models.BERT


def frequent(words: Sequence[str], options: TokenizerOptions) -> Sequence[str]:
    """Return the words that occur at least `min_count` times, with their repetitions."""
    if options.min_count == 1:
        return words
    if options.kind != "whitespace":
        raise ValueError(
            f"tokenizer.min_count={options.min_count} requires tokenizer.kind=whitespace, got"
            f" {options.kind}; set that kind, or remove min_count from the recipe"
        )
    shown = [word.lower() if options.lowercase else word for word in words]
    counts = Counter(shown)
    return [word for word in shown if counts[word] >= options.min_count]


def reads_characters(section: dict[str, Any]) -> bool:
    """Return whether the recipe's `model` section or its preset sets `characters`."""
    if "characters" in section or section.get("preset") not in models.list_presets():
        return section.get("characters") is not None
    return models.preset_config(section["preset"]).get("characters") is not None


def learnt(options: TokenizerOptions, texts: Sequence[str]) -> Tokenizer:
    """Train a tokenizer with these options on the texts."""
    kind = options.kind or "subword"
    return train_tokenizer(kind, texts, options.vocabulary_size, options.lowercase)


def learnt_of_captions(options: TokenizerOptions, train: CaptionedImages) -> Tokenizer:
    """Train a tokenizer with these options on the captions."""
    texts: Sequence[str] = [text for captions in train.captions for text in captions]
    if options.min_count > 1:
        texts = frequent([word for text in texts for word in text.split()], options)
    return learnt(options, texts)


def build_model(section: dict[str, Any], **given: Any) -> Any:
    """Build the model of a recipe's `model` section.

    Args:
        section: `preset`, and arguments of the model's constructor to override.
        **given: arguments that the data determine.

    Raises:
        ValueError: the preset is missing or unknown, or an argument is unknown, has the wrong type
            or is determined by the data.
    """
    if "preset" not in section:
        raise ValueError(f"model.preset is missing; name one of {', '.join(models.list_presets())}")
    decided = [f"model.{key}" for key in section if key in given]
    if decided:
        raise ValueError(f"{decided[0]}: determined by the data; remove it from the recipe")
    overrides = {key: value for key, value in section.items() if key != "preset"}
    arguments = inspect.signature(models.preset_class(section["preset"])).parameters
    for key, value in overrides.items():
        if key in arguments and not _like(value, arguments[key]):
            kind = type(arguments[key].default).__name__
            raise ValueError(f"model.{key}: expected {kind}, got {value!r}")
    try:
        return models.from_preset(section["preset"], **given, **overrides)
    except (TypeError, ValueError) as error:
        raise ValueError(f"model: {' '.join(str(error).split())}") from error


def _like(value: Any, argument: inspect.Parameter) -> bool:
    """Return whether a value has the type of the default; integers are accepted as floats."""
    default = argument.default
    if default is None or default is inspect.Parameter.empty:
        return True
    if isinstance(value, list) and "Sequence" in str(argument.annotation):
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return type(value) is type(default)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))

"""From a recipe and its training split to an untrained task: one builder a task."""

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
"""Most characters that a tagger knows, the four special tokens counted."""


def build_task(recipe: Recipe, train: Any) -> Any:
    """The untrained task of a recipe, its vocabularies taken from the training split."""
    return BUILDERS.get(recipe.task)(recipe, train)


def load_task(recipe: Recipe, checkpoint: Path) -> Any:
    """The task of a checkpoint known to be whole, with the recipe's limits and search."""
    task_class: Any = TASKS.get(recipe.task)
    return with_options(task_class.load(checkpoint), recipe)


def with_options(task: Any, recipe: Recipe) -> Any:
    """A task that was saved by another recipe, with the limits and the search of this one."""
    task.search = recipe.search
    for name in (*recipe.data.limits, *getattr(task, "switches", ())):
        setattr(task, name, getattr(recipe.data, name))
    return task


def lengths(recipe: Recipe) -> dict[str, int]:
    """The limits of length of the recipe's examples, by name."""
    return {name: getattr(recipe.data, name) for name in recipe.data.limits}


@BUILDERS.register("translation")
def build_translation(recipe: Recipe, train: TextPairs) -> Translation:
    """A translator between two tokenizers of the recipe's kind."""
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
    """A summarizer with one tokenizer for both sides, of the recipe's kind."""
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
    """A captioner with a tokenizer of the recipe's kind."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt_of_captions(options, train)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    try:
        return Captioning(model, tokenizer, recipe.search, **lengths(recipe))
    except ValueError as error:
        raise ValueError(f"model.preset={recipe.model['preset']}: {error}") from None


@BUILDERS.register("glimpses")
def build_glimpses(recipe: Recipe, train: LabelledImages) -> Glimpses:
    """A model of glimpses of the training split's images and classes."""
    shape = list(train.images.shape[1:])
    model = build_model(recipe.model, image_shape=shape, classes=len(train.classes))
    try:
        return Glimpses(model, train.classes, recipe.search, **lengths(recipe))
    except ValueError as error:
        raise ValueError(f"model.preset={recipe.model['preset']}: {error}") from None


@BUILDERS.register("retrieval")
def build_retrieval(recipe: Recipe, train: CaptionedImages) -> Retrieval:
    """A retriever with a tokenizer of the recipe's kind."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt_of_captions(options, train)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    try:
        return Retrieval(model, tokenizer, recipe.search, **lengths(recipe))
    except ValueError as error:
        raise ValueError(f"model.preset={recipe.model['preset']}: {error}") from None


@BUILDERS.register("language_modeling")
def build_language_model(recipe: Recipe, train: TextLines) -> LanguageModeling:
    """A model that writes on, with a tokenizer of the recipe's kind."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt(options, train.texts)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    return LanguageModeling(model, tokenizer, recipe.search, **lengths(recipe))


@BUILDERS.register("masked_language_modeling")
def build_masked_language_model(recipe: Recipe, train: TextLines) -> MaskedLanguageModeling:
    """A model that tells hidden tokens, around a BERT, with a tokenizer of the recipe's kind."""
    options = recipe.tokenizer or TokenizerOptions()
    tokenizer = learnt(options, train.texts)
    size = max(tokenizer.vocabulary_size, mask_of(tokenizer) + 1)
    bert = build_model(recipe.model, vocabulary_size=size, use_pooler=False)
    return MaskedLanguageModeling(
        models.MaskedLM(bert), tokenizer, recipe.search, **lengths(recipe)
    )


@BUILDERS.register("tagging")
def build_tagging(recipe: Recipe, train: TaggedSentences) -> Tagging:
    """A tagger of the tags of the training split, with a tokenizer of its words.

    A model whose preset or recipe has `characters` gets a tokenizer of these too.
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
    """The tagger of a recipe's `model` section; around a BERT where its preset is one.

    Args:
        section: see `build_model`; options of characters are without a `vocabulary_size`.
        tags: their names.
        tokens, characters: how many there are.
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
        raise ValueError(f"{decided}: the data decide it; take it out of the recipe")
    read = {**read, "vocabulary_size": characters}
    return build_model(section, **given, tags=tags, characters=read)


def _is_bert(section: dict[str, Any]) -> bool:
    preset = section.get("preset")
    return preset in models.list_presets() and models.preset_class(preset) is models.BERT


def frequent(words: Sequence[str], options: TokenizerOptions) -> Sequence[str]:
    """The words that a vocabulary may have, as often as they come."""
    if options.min_count == 1:
        return words
    if options.kind != "whitespace":
        raise ValueError(
            f"tokenizer.min_count={options.min_count}: is for whole words; name"
            " tokenizer.kind=whitespace, or take it out of the recipe"
        )
    shown = [word.lower() if options.lowercase else word for word in words]
    counts = Counter(shown)
    return [word for word in shown if counts[word] >= options.min_count]


def reads_characters(section: dict[str, Any]) -> bool:
    """Whether a recipe's model has options of characters, its own or its preset's."""
    if "characters" in section or section.get("preset") not in models.list_presets():
        return section.get("characters") is not None
    return models.preset_config(section["preset"]).get("characters") is not None


def learnt(options: TokenizerOptions, texts: Sequence[str]) -> Tokenizer:
    """A tokenizer of these options, its vocabulary taken from the texts."""
    kind = options.kind or "subword"
    return train_tokenizer(kind, texts, options.vocabulary_size, options.lowercase)


def learnt_of_captions(options: TokenizerOptions, train: CaptionedImages) -> Tokenizer:
    """A tokenizer of these options, its vocabulary taken from what is said of images."""
    texts: Sequence[str] = [text for captions in train.captions for text in captions]
    if options.min_count > 1:
        texts = frequent([word for text in texts for word in text.split()], options)
    return learnt(options, texts)


def build_model(section: dict[str, Any], **given: Any) -> Any:
    """The model of a recipe's `model` section.

    Args:
        section: `preset`, and arguments of the model's constructor to override.
        **given: what the data decide.

    Raises:
        ValueError: no or an unknown preset, an argument that the model has not or the data decide.
    """
    if "preset" not in section:
        raise ValueError(f"model.preset is missing; name one of {', '.join(models.list_presets())}")
    decided = [f"model.{key}" for key in section if key in given]
    if decided:
        raise ValueError(f"{decided[0]}: the data decide it; take it out of the recipe")
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
    """Whether a recipe's value is of its default's kind; an integer is a number, too."""
    default = argument.default
    if default is None or default is inspect.Parameter.empty:
        return True
    if isinstance(value, list) and "Sequence" in str(argument.annotation):
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return type(value) is type(default)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))

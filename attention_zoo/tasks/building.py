"""Construction of models and tokenizers from the options of a recipe."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.data import Tokenizer, load_tokenizer, train_tokenizer
from attention_zoo.data.tokenizers.tokenizer import TOKENIZERS
from attention_zoo.data_cache import get_corpus_cache, is_builtin
from attention_zoo.hub import resolve_folder
from attention_zoo.models.presets import Config, check_arguments, check_options
from attention_zoo.tasks.corpus_texts import EvenSelection, get_texts
from attention_zoo.tasks.data_paths import find_files
from attention_zoo.tasks.shared_entries import create_entries

DEFAULT_KIND = "subword"
"""Kind of tokenizer if neither the recipe nor the task names one."""

MAX_SAMPLE = 1_000_000
"""Default of `tokenizer.sample`."""


@dataclass
class TokenizerOptions:
    """Options of the tokenizers, which are trained on the training split.

    Args:
        kind: "subword", "word", "character", or "whitespace" (split at white space); null is the
            task's `tokenizer_kind`.
        vocabulary_size: maximum size, including the four special tokens.
        sample: with kind "subword": maximum number of texts (of words, for tagging) that the
            vocabulary is learned from, evenly spaced in the training split; null is one million.
        lowercase: lowercase all texts.
        shared: for translation: share one vocabulary between source and target, as a model with
            `tie: all` requires. Summarization always shares it.
        min_count: with kind "whitespace": words that are rarer in the training split are unknown.
        vectors: for tagging, classification and matching: a text file of word vectors (GloVe,
            word2vec) that initialize the embeddings, or null.
    """

    kind: str | None = None
    vocabulary_size: int = 8000
    sample: int | None = None
    lowercase: bool = False
    shared: bool = False
    min_count: int = 1
    vectors: str | None = None

    def __post_init__(self) -> None:
        for name in ("min_count", "sample"):
            value = vars(self)[name]
            if value is not None and value < 1:
                raise ValueError(f"tokenizer.{name} must be at least 1, got {value}")


def keep_frequent(words: Sequence[str], options: TokenizerOptions) -> Sequence[str]:
    """Return the words that occur at least `min_count` times, in order, with duplicates."""
    if options.kind != "whitespace":
        raise ValueError(
            f"tokenizer.min_count={options.min_count} requires tokenizer.kind=whitespace, got"
            f" {options.kind}; set that kind, or remove min_count from the recipe"
        )
    normalized = [word.lower() if options.lowercase else word for word in words]
    counts = Counter(normalized)
    return [word for word in normalized if counts[word] >= options.min_count]


def select_evenly(texts: Sequence[str], count: int) -> Sequence[str]:
    """Return `count` evenly spaced texts, or all if there are not more."""
    size = len(texts)
    return texts if size <= count else EvenSelection(texts, count)


def train_recipe_tokenizer(options: TokenizerOptions, texts: Sequence[str]) -> Tokenizer:
    """Train a tokenizer with these options on the texts."""
    if options.min_count > 1:
        texts = keep_frequent([word for text in texts for word in text.split()], options)
    kind = options.kind or DEFAULT_KIND
    if kind == "subword":
        texts = select_evenly(texts, options.sample or MAX_SAMPLE)
    elif options.sample is not None:
        raise ValueError(
            f"tokenizer.sample={options.sample} requires tokenizer.kind=subword, got {kind}; remove"
            " it from the recipe"
        )
    return train_tokenizer(kind, texts, options.vocabulary_size, options.lowercase)


def load_or_train_tokenizer(
    options: TokenizerOptions, examples: Any, columns: Sequence[str]
) -> Tokenizer:
    """Train a tokenizer on columns of a corpus, or load it from the cache.

    Args:
        options: options of the tokenizer.
        examples: the corpus.
        columns: names of its columns.
    """
    return load_or_train_tokenizers(options, examples, [columns])[0]


def make_tokenizer(recipe: Any, examples: Any, columns: Sequence[str]) -> Any:
    """Return the tokenizer of the public checkpoint in a recipe's `init`, or else a trained one.

    Args:
        recipe: the recipe.
        examples, columns: see `load_or_train_tokenizer`.

    Raises:
        ValueError: the recipe has `init` and a section `tokenizer`.
    """
    if recipe.init is None:
        return load_or_train_tokenizer(recipe.tokenizer, examples, columns)
    if recipe.tokenizer is not None:
        raise ValueError(
            f"tokenizer: the public checkpoint init={recipe.init} has a tokenizer; remove tokenizer"
            " from the recipe"
        )
    return load_tokenizer(resolve_folder(recipe.init))


def load_or_train_tokenizers(
    options: TokenizerOptions, examples: Any, column_lists: Sequence[Sequence[str]]
) -> list[Tokenizer]:
    """Train a tokenizer on each list of columns of a corpus, or load it from the cache.

    If processes share a cache, such as the hosts of a training, one of them trains each tokenizer.

    Args:
        options: options of the tokenizers.
        examples: the corpus.
        column_lists: names of the columns of each tokenizer.
    """

    def train(names: Sequence[str]) -> Tokenizer:
        return train_recipe_tokenizer(options, get_texts(examples, names))

    def save(names: Sequence[str], folder: Path) -> None:
        train(names).save(folder)

    cache = get_corpus_cache(examples)
    if cache is None or not is_builtin(TOKENIZERS.get(options.kind or DEFAULT_KIND)):
        return [*map(train, column_lists)]
    settings = asdict(options) | {"kind": options.kind or DEFAULT_KIND}
    del settings["vectors"], settings["shared"]  # the tokenizer does not depend on them
    entries = [
        ({"columns": [*names], "options": settings}, partial(save, names)) for names in column_lists
    ]
    return [*map(load_tokenizer, create_entries(cache, "tokenizer", entries))]


def load_vectors(model: Any, tokenizer: Tokenizer, path: str) -> None:
    """Initialize the embeddings with the word vectors of a file, and print how many it contains."""
    (file,) = find_files("tokenizer.vectors", [path])
    size = tokenizer.vocabulary_size
    count = model.load_word_vectors(file, tokenizer.tokens(range(size)))
    print(f"{path}: vectors of {count:,} of {size:,} tokens")


def build_task(task_class: Any, recipe: Any, examples: Any, *columns: str) -> Any:
    """Build a task whose model and tokenizer have one vocabulary.

    Args:
        task_class: class of the task.
        recipe: the recipe.
        examples: the corpus.
        columns: the columns of the corpus that the tokenizer is trained on.
    """
    tokenizer = load_or_train_tokenizer(recipe.tokenizer, examples, columns)
    model = build_model(recipe.model, vocabulary_size=tokenizer.vocabulary_size)
    with naming_preset(recipe.model):
        return task_class(model, tokenizer, **task_class.recipe_options(recipe))


def check_model(model: Any, required: type, example: str = "") -> None:
    """Raise ValueError unless the model is of the required class of `attention_zoo.models`."""
    if not isinstance(model, required):
        hint = f", such as models.{example}," if example else ","
        name, given = required.__name__, type(model).__name__
        raise ValueError(f"model must be a models.{name}{hint} got {given}")


def check_vocabulary_size(tokenizer: Any, known: int) -> None:
    """Raise ValueError unless the model's vocabulary has as many tokens as the tokenizer."""
    if known != tokenizer.vocabulary_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.vocabulary_size} tokens, but the model's"
            f" vocabulary_size is {known}; use the same size"
        )


@contextmanager
def naming_preset(section: dict[str, Any]) -> Iterator[None]:
    """Name the recipe's preset in a ValueError about its model."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"model.preset={section['preset']}: {error}") from None


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
    determined = [f"model.{key}" for key in section if key in given]
    if determined:
        raise ValueError(f"{determined[0]}: determined by the data; remove it from the recipe")
    overrides = {key: value for key, value in section.items() if key != "preset"}
    cls = _get_preset_class(section["preset"], given)
    for key, value in overrides.items():
        try:
            check_arguments(cls, {key: value})
        except ValueError as error:
            raise ValueError(f"model.{key}: {error}") from None
    check_option_types(overrides, cls)
    with locate_option_errors(overrides):
        return models.from_preset(section["preset"], **given, **overrides)


def check_option_types(options: Config, cls: type) -> None:
    """Raise ValueError for an option of another type than the argument's default in `cls`."""
    arguments = inspect.signature(cls).parameters
    for key, value in options.items():
        if key in arguments and not _has_type_of(value, arguments[key]):
            kind = type(arguments[key].default).__name__
            raise ValueError(f"model.{key}: expected {kind}, got {value!r}")


@contextmanager
def locate_option_errors(options: Collection[str]) -> Iterator[None]:
    """Prefix errors with the recipe key, `model.OPTION`, or else `model`."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = " ".join(str(error).split())
        is_about_option = message.split(" ")[0].partition(".")[0] in options
        raise ValueError(f"model{'.' if is_about_option else ': '}{message}") from error


def is_bert_preset(name: Any) -> bool:
    """Return whether `name` is a preset of `models.BERT`."""
    return name in models.list_presets() and models.preset_class(name) is models.BERT


def split_head_options(section: Config, cls: Any) -> tuple[Config, Config]:
    """Return the options of a `model` section for the backbone, and those for the model around it.

    Args:
        section: the section. The options in `cls.head_options` are the model's; those in the
            mapping named like the backbone (`bert`), and all others, are the backbone's.
        cls: class of the model.
    """
    backbone = f"model.{cls.backbone_name}"
    nested = check_options(backbone, section.get(cls.backbone_name))
    options = {key: x for key, x in section.items() if key != cls.backbone_name}
    head = {key: options.pop(key) for key in cls.head_options if key in options}
    for key in nested:
        if key in options:
            raise ValueError(f"{backbone}.{key}: model.{key} is the same option; remove one")
    check_option_types(head, cls)
    return {**options, **nested}, head


def build_around_bert(
    cls: Any, section: Config, init: str | None, size: int, use_pooler: bool, **given: Any
) -> Any:
    """Build the model of a recipe's `model` section around a BERT.

    Args:
        cls: class of the model.
        section: see `split_head_options` and, for a preset, `build_model`.
        init: a public checkpoint with the weights of the BERT; None for a preset with new weights.
        size: size of the token vocabulary.
        use_pooler: whether the model uses the pooler of a checkpoint that has one.
        **given: arguments of the model that the data determine.
    """
    options, head = split_head_options(section, cls)
    if init is None:
        bert = build_model(options, vocabulary_size=size, use_pooler=False)
    elif "preset" in options:
        raise ValueError(f"model.preset: init={init} has a model; remove preset from the recipe")
    else:
        options = options if use_pooler else {"use_pooler": False, **options}
        check_option_types(options, models.BERT)
        with locate_option_errors(options):
            bert = models.from_public(init, models.BERT, **options)
    with locate_option_errors(head):
        return cls(bert=bert, **given, **head)


def _get_preset_class(preset: str, given: Collection[str]) -> type:
    """Return the class of a preset; raise ValueError unless it has the given arguments."""
    try:
        cls = models.preset_class(preset)
    except ValueError as error:
        raise ValueError(f"model.preset={preset}: {error}") from None
    if not _has_arguments(cls, given):
        fitting = [
            n for n in models.list_presets() if _has_arguments(models.preset_class(n), given)
        ]
        raise ValueError(
            f"model.preset={preset} builds a model of another task ({cls.__name__}); use one of"
            f" {', '.join(fitting)}"
        )
    return cls


def _has_arguments(cls: type, names: Collection[str]) -> bool:
    return {*names} <= {*inspect.signature(cls).parameters}


def _has_type_of(value: Any, argument: inspect.Parameter) -> bool:
    """Return whether a value has the type of the default; integers are accepted as floats."""
    default = argument.default
    if default is None or default is inspect.Parameter.empty:
        return True
    if isinstance(value, list) and "Sequence" in str(argument.annotation):
        return True
    if isinstance(value, dict) and "Config" in str(argument.annotation):
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return type(value) is type(default)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))

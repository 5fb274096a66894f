"""Recipes: training jobs as YAML files, validated against dataclasses."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from attention_zoo.files import check_format_version
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks import Corpus, FileCorpus, SearchOptions, Task
from attention_zoo.tasks.building import TokenizerOptions
from attention_zoo.tasks.text_pair_corpora import Dates
from attention_zoo.training.recipe_merging import check_list, get_task, merge_sources
from attention_zoo.training.recipe_sources import (
    RecipeSource,
    find_text_keys,
    locate_errors,
    parse_overrides,
    read_recipe_file,
)
from attention_zoo.user_modules import import_user_modules
from attention_zoo.zoo import resolve_recipe

FORMAT_VERSION = 1
SECTIONS = ("data", "tokenizer", "model", "training", "search")

_CONDITIONS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "at least 1": (
        "steps batch_size batch_tokens evaluate_every checkpoint_every keep_checkpoints"
        " monitor_size patience accumulate",
        lambda count: count >= 1,
    ),
    "at least 0": ("warmup_steps", lambda count: count >= 0),
    "above 0": ("learning_rate clip_norm", lambda value: value > 0),
    "in [0, 1)": ("label_smoothing", lambda value: 0 <= value < 1),
    "in (0, 1]": ("layer_decay", lambda value: 0 < value <= 1),
    "between 0 and 1": ("ema", lambda value: 0 < value < 1),
    "true, false or auto": ("jit", lambda value: value in (True, False, "auto")),
    "auto or at least 1": ("devices", lambda n: n == "auto" or (isinstance(n, int) and n >= 1)),
}
"""Names of training options by the condition on their values; optional ones may be null."""


def _add_name(key: str, value: Any) -> dict[str, Any]:
    """Return options with their `name`, which may be given alone."""
    options = {"name": value} if isinstance(value, str) else value
    if not isinstance(options, Mapping) or not isinstance(options.get("name"), str):
        raise ValueError(f"{key} must be a name or a mapping with `name`, got {value!r}")
    return dict(options)


@dataclass
class TrainingOptions:
    """Training options. Counts are in steps (updates) unless noted otherwise.

    Args:
        steps: total number of updates.
        batch_size: examples per batch, summed over all devices and hosts.
        batch_tokens: maximum number of tokens per batch, padding included, in place of
            `batch_size`: number of examples x length of the longest example (of the longer side,
            for pairs). Null for batches of `batch_size`.
        optimizer: a name in `training.OPTIMIZERS`, or a mapping with `name` and any arguments of
            that Keras optimizer. With weight decay, biases and the weights of normalization layers
            are not decayed.
        learning_rate: the schedule's peak (for "noam": its factor, including `d_model ** -0.5`).
        schedule: a name in `training.SCHEDULES`.
        warmup_steps: warmup steps of the schedule.
        clip_norm: maximum global norm of the gradient, or null.
        label_smoothing: share of the probability spread over the vocabulary.
        evaluate_every: steps between evaluations on the validation split.
        checkpoint_every: steps between checkpoints; null saves at evaluations only.
        keep_checkpoints: number of newest checkpoints to keep, besides the best one. Before another
            one is written, the oldest one is deleted, if there are several.
        monitor: the value that selects the best checkpoint: "loss" (validation loss, lowest) or
            one of the task's metrics (highest), computed on predictions.
        monitor_size: number of validation examples to compute metrics on.
        patience: early stopping: evaluations without a new best before training stops, or null.
        frozen: parts of the model that are not trained: names of its attributes that hold layers
            ("encoder"), or attributes of these ("decoder.cell").
        cache_features: whether to compute the feature grids of the image encoder once, without
            dropout, instead of at every step; the encoder must be frozen. The grids are stored in
            float16 in the cache of the corpus (`data.cache`), or in memory if it has none.
        layer_decay: layer-wise learning rate decay: factor of the learning rate per layer from the
            top, or null. See `training.layer_decay.scale_learning_rates`.
        precision: the Keras dtype policy.
        jit: compile the training step with XLA: true, false, or "auto" (if there is an
            accelerator; on a CPU, compiling each shape costs more than it saves). Off with
            several devices.
        accumulate: gradient accumulation: micro-batches per update, equivalent to one large batch.
        ema: decay of moving averages of the weights, which are used for evaluation and saving,
            or null.
        on_nan: if loss or gradient are not finite: "stop", or "skip" the update and count it.
        devices: number of devices of this host; "auto" uses all its GPUs, or the CPU.
    """

    steps: int = 10000
    batch_size: int = 64
    batch_tokens: int | None = None
    optimizer: Any = field(default_factory=lambda: {"name": "adam"})
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 0
    clip_norm: float | None = 1.0
    label_smoothing: float = 0.0
    evaluate_every: int = 500
    checkpoint_every: int | None = None
    keep_checkpoints: int = 2
    monitor: str = "loss"
    monitor_size: int = 200
    patience: int | None = None
    frozen: list[str] = field(default_factory=list)
    cache_features: bool = False
    layer_decay: float | None = None
    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = "float32"
    jit: bool | str = "auto"
    accumulate: int = 1
    ema: float | None = None
    on_nan: Literal["stop", "skip"] = "stop"
    devices: int | str = "auto"

    def __post_init__(self) -> None:
        self.optimizer = _add_name("training.optimizer", self.optimizer)
        optional = {field.name for field in fields(self) if "None" in str(field.type)}
        for condition, (names, holds) in _CONDITIONS.items():
            for name in names.split():
                value = vars(self)[name]
                if not (name in optional if value is None else holds(value)):
                    raise ValueError(f"training.{name} must be {condition}, got {value}")


@dataclass
class Recipe:
    """Recipe of one training job.

    Args:
        task: a name in `tasks.TASKS`.
        run: the run folder; None is `runs/` and the recipe file's name.
        init: source of the initial weights in place of random ones: a run folder, an entry of the
            zoo, a folder saved by `task.save`, a public checkpoint, or `hf://`. Weights and
            tokenizers are those of its best checkpoint; optimizer, schedule, steps and data are
            this recipe's. It is used at the first start only. For classification, tagging and
            matching, the model is built around the encoder of a public checkpoint.
        seed: seed of weights, dropout and data order.
        imports: names of Python modules of your own, which register models, presets or tasks.
            Training imports them, from the current folder or `sys.path`.
        data: the corpus, one of the task's `corpora`.
        tokenizer: tokenizer options; with `init`, omit them or match its tokenizers.
        model: `preset` and any arguments of the model's constructor; with `init`, omit them or
            match its model. Only dropout, the options of the head of a BERT classifier or
            tagger, and a captioner's attention may differ.
        training: training options.
        search: search (decoding) options.
        format_version: version of the recipe's format.
    """

    task: str = "translation"
    run: str | None = None
    init: str | None = None
    seed: int = 1
    imports: list[str] = field(default_factory=list)
    data: Corpus = field(default_factory=Dates)
    tokenizer: TokenizerOptions | None = None
    model: dict[str, Any] = field(default_factory=dict)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    search: SearchOptions = field(default_factory=SearchOptions)
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        for options in (self, self.data, self.tokenizer or self):
            vars(options).update({name: _expand_home(one) for name, one in vars(options).items()})
        check_format_version("recipe", {"format_version": self.format_version}, FORMAT_VERSION)
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")
        if self.init is None and self.tokenizer is None:
            self.tokenizer = TokenizerOptions()
        task = get_task(self.task)
        corpus = _get_corpus(task, self.data.corpus)
        if not isinstance(self.data, corpus):
            raise ValueError(f"data must be a {corpus.__name__}, got {self.data!r}")
        for name in self.data.boolean_options:
            if vars(self.data)[name] and name not in task.boolean_options:
                raise ValueError(f"data.{name}=true: task {self.task} has no such option")
        if self.tokenizer is not None and self.tokenizer.kind is None:
            self.tokenizer.kind = task.tokenizer_kind


def _expand_home(value: Any) -> Any:
    """Return a path, or each path of a list, with `~` expanded."""
    if isinstance(value, list):
        return [_expand_home(item) for item in value]
    is_path = isinstance(value, str) and value.startswith("~") and "/" in value
    return os.path.expanduser(value) if is_path else value


def read_recipe(
    path: str | Path, overrides: Sequence[str] = (), import_modules: bool = False
) -> Recipe:
    """Read a recipe, a YAML file or a recipe of the zoo by name, and apply overrides.

    String options are read as written, such as `run: 007`. Relative paths start from the current
    folder.

    Args:
        path: the YAML file, or the name of a recipe of the zoo.
        overrides: the overrides.
        import_modules: whether to import the modules that the key `imports` names, as `fit` does.
            By default, no code is loaded.

    Raises:
        ValueError: the file is missing, the YAML is invalid, a key is unknown (with a suggestion),
            a value is wrong or a module cannot be imported. The message is one line that names
            file and line, or the override.
    """
    path = resolve_recipe(path)
    sources = read_sources(path, overrides)
    file = sources[0]
    check_format_version(file.locate("format_version"), file.content, FORMAT_VERSION)
    _check_sections(sources)
    if import_modules:
        _import_modules(sources)
    corpus = _find_corpus(sources, path)
    if len({source.get_text("data.corpus") for source in sources} - {None}) > 1:
        _remove_options_of_other_corpora(file.content, corpus)
    schema = OmegaConf.structured(Recipe)
    schema.data = OmegaConf.structured(corpus)
    recipe: Recipe = merge_sources(schema, sources, _find_text_keys(corpus), location=f"{path}: ")
    if recipe.run is None:
        recipe.run = str(Path("runs") / path.stem)
    return recipe


def read_sources(path: str | Path, overrides: Sequence[str] = ()) -> list[RecipeSource]:
    """Return the file of a recipe and the overrides as sources, which locate keys in messages."""
    return [read_recipe_file(resolve_recipe(path)), *parse_overrides(overrides)]


def override_recipe(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """Apply `key.key=value` overrides to a recipe; raise ValueError as `read_recipe` does."""
    schema, text_keys = OmegaConf.structured(recipe), _find_text_keys(type(recipe.data))
    changed: Recipe = merge_sources(schema, parse_overrides(overrides), text_keys)
    return changed


def load_recipe(
    recipe: str | Path | Recipe, overrides: Sequence[str], imports: Sequence[str]
) -> tuple[Recipe, list[RecipeSource]]:
    """Return a recipe with overrides and imported modules, and the sources of its keys."""
    sources: list[RecipeSource] = []
    import_user_modules(imports)
    if isinstance(recipe, Recipe):
        recipe = override_recipe(recipe, overrides)
        import_user_modules(recipe.imports)
    else:
        recipe = resolve_recipe(recipe)
        sources = read_sources(recipe, overrides)
        recipe = read_recipe(recipe, overrides, import_modules=True)
    recipe.imports = [*dict.fromkeys([*recipe.imports, *imports])]
    return recipe, sources


def override_task(task: Task, overrides: Sequence[str]) -> None:
    """Apply `search.key=value` and `data.key=value` overrides to a task's options.

    Raises:
        ValueError: for another key, or a value of the wrong type or range.
    """
    fields = [(name, type(value), value) for name, value in task.options.items()]
    options = make_dataclass("TaskOptions", fields)
    schema = OmegaConf.create({"data": options, "search": task.search})
    OmegaConf.set_struct(schema, True)
    text_keys = {*find_text_keys(SearchOptions, "search.")}
    changed = merge_sources(schema, parse_overrides(overrides), text_keys, type(task))
    task.set_options(search=changed["search"], **vars(changed["data"]))


def format_recipe(recipe: Recipe) -> str:
    """Return the whole recipe, including defaults, as YAML that `read_recipe` can read."""
    return OmegaConf.to_yaml(OmegaConf.structured(recipe))


def _check_sections(sources: Sequence[RecipeSource]) -> None:
    """Raise ValueError for an unknown section, or one that is no mapping."""
    known = {option.name: option for option in fields(Recipe)}
    for source in sources:
        for key, value in source.as_dict().items():
            if key not in known:
                hint = did_you_mean(key, known)
                raise ValueError(f"{source.locate(str(key))}: unknown key {str(key)!r}{hint}")
            if key in SECTIONS and value is None and key != "tokenizer":
                del source.content[key]
            elif key in SECTIONS and not isinstance(value, Mapping | None):
                raise ValueError(
                    f"{source.locate(key)}: {key} is a section of `key: value` lines, got {value!r}"
                )


def _import_modules(sources: Sequence[RecipeSource]) -> None:
    """Import the modules that `imports` names in the last source with this key."""
    named = [source for source in sources if source.get_text("imports") is not None]
    for source in named[-1:]:
        check_list(source, "imports")
        with locate_errors(sources):
            import_user_modules(source.get_text("imports"))


def _find_corpus(sources: Sequence[RecipeSource], path: Path) -> type[Corpus]:
    """Return the dataclass of the corpus that a recipe names, among those of its task."""
    for source in sources:
        source.restore_strings(("task", "data.corpus"))
    plain: Any = OmegaConf.merge(*(source.content for source in sources))
    with locate_errors(sources, f"{path}: "):
        task = get_task(plain.get("task", Recipe.task))
        data = plain.get("data")
        if not isinstance(data, DictConfig) or "corpus" not in data:
            known = ", ".join(task.corpora.names())
            raise ValueError(f"data.corpus is missing; name one of {known}")
        return _get_corpus(task, data.corpus)


def _find_text_keys(corpus: type[Corpus]) -> set[str]:
    """Return the keys of a recipe with this corpus whose values are strings."""
    keys = {*find_text_keys(Recipe), *find_text_keys(corpus, "data.")}
    keys |= {"model.preset", "training.optimizer.name"}
    return keys | {f"data.{name}" for name in corpus.splits if issubclass(corpus, FileCorpus)}


def _remove_options_of_other_corpora(content: DictConfig, corpus: type[Corpus]) -> None:
    """Remove the options of a file that belong to another corpus than the one of an override."""
    for name in {*content.get("data", {})} - {option.name for option in fields(corpus)}:
        del content.data[name]


def _get_corpus(task: type[Task], name: str) -> Any:
    """Return the dataclass of a task's corpus; raise ValueError for an unknown name."""
    try:
        return task.corpora.get(name)
    except ValueError as error:
        raise ValueError(f"data.corpus={name}: task {task.name}: {error}") from error

"""Base class of tasks: the interface that training, the command line, export and reports use."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import keras

from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.files import explain_outdated
from attention_zoo.registry import Registry
from attention_zoo.tasks.inputs import Input, Locations, add_locations, is_list, refuse_unused
from attention_zoo.tasks.metric_units import METRIC_UNITS
from attention_zoo.tasks.model_call import ModelCall
from attention_zoo.tasks.result import Result, check_plottable
from attention_zoo.tasks.served_examples import format_examples
from attention_zoo.tasks.streaming import predict_stream
from attention_zoo.tasks.task_file import FORMAT_VERSION, read_task_file

SEARCH_OPTIONS = tuple(field.name for field in fields(SearchOptions))


class Task(ABC):
    """A model with its preprocessing and postprocessing.

    The training loop, the command line, export and report pages call only the methods below. A
    subclass is registered in `TASKS` under its `name`, and implements `from_recipe`,
    `make_batches`, `predict` and `evaluate`. Its constructor takes the model and, as keyword
    arguments, the tokenizers, `search`, the limits and the boolean options.

    Attributes:
        name: the name in recipes and in `task.json`.
        metric_names: metrics of `evaluate` that can select a checkpoint; higher is better.
        corpora: the corpora that a recipe's `data.corpus` can name, subclasses of `Corpus`.
        inputs: the inputs of `predict`.
        limits: names of the limits on examples, such as `max_length`. The corpora have options of
            the same names.
        boolean_options: names of boolean options that the task shares with its corpora, such as
            `truncate_source`.
        example_noun: plural noun for examples in messages.
        tokenizer_names: attributes that hold tokenizers, and the folders that they are saved to.
        tokenizer_kind: the tokenizer kind if a recipe names none.
        has_attention_option: whether `predict` takes the argument `attention`.
        takes_words: whether `predict` takes lists of words as well as texts.
        uses_beam_search: whether `search.n_best` may not exceed `search.beam_width`; False for
            tasks without beam search, where setting `n_best` alone is enough.
        public_backbones: `model_type` of public checkpoints that `from_recipe` takes as `init`.
        used_search_options: names of the search options that have an effect; others are rejected.
        evaluation_search_options: the same for `evaluate`; None for `used_search_options`.
        result_class: the class of the results of `predict`.
        metric_modules: the optional modules that `evaluate` imports, such as "sacrebleu".
        row_options: options of `predict` that are lists with one entry for each input.
        card_metrics: the metrics on a model card, and their column headings.
        metric_units: the units of metrics, for display.
        model: the model.
        search: default search options of `predict`.
    """

    name: ClassVar[str]
    metric_names: ClassVar[tuple[str, ...]] = ()
    corpora: ClassVar[Registry]
    inputs: ClassVar[tuple[Input, ...]] = (Input("texts"),)
    limits: ClassVar[tuple[str, ...]] = ()
    boolean_options: ClassVar[tuple[str, ...]] = ()
    example_noun: ClassVar[str] = "examples"
    tokenizer_names: ClassVar[tuple[str, ...]] = ("tokenizer",)
    tokenizer_kind: ClassVar[str] = "subword"
    has_attention_option: ClassVar[bool] = False
    takes_words: ClassVar[bool] = False
    uses_beam_search: ClassVar[bool] = True
    public_backbones: ClassVar[tuple[str, ...]] = ()
    used_search_options: ClassVar[tuple[str, ...]] = SEARCH_OPTIONS
    evaluation_search_options: ClassVar[tuple[str, ...] | None] = None
    result_class: ClassVar[type[Result]] = Result
    metric_modules: ClassVar[tuple[str, ...]] = ()
    row_options: ClassVar[tuple[str, ...]] = ()
    card_metrics: ClassVar[Mapping[str, str]] = {}
    metric_units: ClassVar[Mapping[str, str]] = METRIC_UNITS
    model: Any
    search: SearchOptions = SearchOptions()

    # Construction from a recipe.

    @classmethod
    @abstractmethod
    def from_recipe(cls, recipe: Any, train: Any) -> Self:
        """Build an untrained task from a `training.Recipe`.

        Args:
            recipe: the recipe.
            train: the examples of the train split, on which tokenizers are trained.

        Raises:
            ValueError: if the recipe's model or tokenizer options are invalid.
        """

    @property
    def options(self) -> dict[str, Any]:
        """Limits and boolean options by name."""
        return {name: vars(self)[name] for name in (*self.limits, *self.boolean_options)}

    @classmethod
    def recipe_options(cls, recipe: Any) -> dict[str, Any]:
        """Return a recipe's search options, limits and boolean options as constructor arguments."""
        data = vars(recipe.data)
        shared = {name: data[name] for name in (*cls.limits, *cls.boolean_options)}
        return {"search": recipe.search, **shared}

    def set_options(self, **options: Any) -> None:
        """Set search options, limits and boolean options; raise ValueError for a limit below 1."""
        for name, value in options.items():
            if name in self.limits and value < 1:
                raise ValueError(f"data.{name} must be at least 1, got {value}")
            setattr(self, name, value)

    @property
    def tokenizers(self) -> dict[str, Any]:
        """Tokenizers by attribute name; empty for a task without tokenizers."""
        return {name: vars(self)[name] for name in self.tokenizer_names if name in vars(self)}

    # Training.

    @abstractmethod
    def make_batches(self, examples: Any, batch_size: int, seed: int) -> Any:
        """Return the examples as training batches (such as `data.PairBatches`).

        `examples` supports `len`, iteration and `take(rows)`, and has `origin` (its source, for
        messages) and `skipped` (the number of invalid examples that were skipped). The training
        loop hashes the strings, numbers and arrays of the examples to detect a changed corpus. The
        result has the interface of `data.Batches`: `len`, `num_examples` (distinct examples),
        `dataset(start)`, `dataset_in_order()`, `get_example_numbers(step)` and, for
        `training.batch_tokens`, `limit_tokens(batch_tokens)`.
        """

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the training loss; by default, that of the model's `make_loss`."""
        loss: keras.losses.Loss = self.model.make_loss(label_smoothing)
        return loss

    def adapt_to_recipe(self, recipe: Any, train: Any) -> None:  # noqa: B027 (optional)
        """Set what the training data determine besides the model, in the task of a recipe's `init`.

        Raises ValueError if the task does not fit the recipe. By default, nothing is set.
        """

    def select_monitored(self, examples: Any, size: int) -> Any:
        """Return about `size` validation examples to monitor; the first ones by default."""
        return examples.take(range(min(size, len(examples))))

    def filter_by_length(self, examples: Any) -> Any:
        """Return the examples within the task's limits; by default, all of them."""
        return examples

    # Prediction.

    @abstractmethod
    def predict(self, *inputs: Any, **options: Any) -> list[Any]:
        """Return one `Result` for each input, in order.

        Args:
            *inputs: see `inputs`; each is a list or another iterable, which is consumed once.
            **options: fields of `SearchOptions` for this call, and options of the task. With
                `on_error="skip"`, an input without a prediction does not raise: its result has
                `ok=False` and an `error`. See `inputs.predict_rows`, which implements this.
        """

    def predict_iter(
        self,
        inputs: Iterable[Any],
        *,
        chunk_size: int = 1024,
        on_error: str = "raise",
        **options: Any,
    ) -> Iterator[Any]:
        """Return an iterator over the results of inputs, in order, that needs bounded memory.

        After five seconds, the progress is shown on a terminal.

        Args:
            inputs: any iterable of texts or images, which is read as results are consumed.
            chunk_size: number of inputs that `predict` is called with.
            on_error, **options: as in `predict`; the results before a failed input are returned.
        """
        return predict_stream(self, inputs, chunk_size, on_error, options)

    def is_single_input(self, inputs: Any) -> bool:
        """Return whether `inputs` is one input instead of an iterable of inputs."""
        return not is_list(inputs)

    def name_input(self, number: int, value: Any) -> str:
        """Return the name of an input of `predict` in error messages."""
        return f"source {number}"

    def override_search(self, **changes: Any) -> SearchOptions:
        """Return the search options with changes.

        Raises:
            ValueError: if an option is unknown, invalid or has no effect in this task.
        """
        self.refuse_unused_options(changes)
        count = changes.get("n_best", 0)
        is_wider = isinstance(count, Integral) and int(count) > self.search.beam_width
        if is_wider and not self.uses_beam_search:
            changes = {**changes, "beam_width": count}  # the limit of `n_best`
        return self.search.override(**changes)

    def refuse_unused_options(self, names: Iterable[str], in_evaluate: bool = False) -> None:
        """Raise ValueError for a search option without effect in the task, or in `evaluate`."""
        used = (in_evaluate and self.evaluation_search_options) or self.used_search_options
        context = "the evaluation of task" if in_evaluate else "task"
        refuse_unused(names, used, f"{context} {self.name}")

    def read_batch_size(self, **search_overrides: Any) -> int:
        """Return the batch size for an `evaluate` without search; ValueError for other options."""
        self.refuse_unused_options(search_overrides, in_evaluate=True)
        return self.override_search(**search_overrides).batch_size

    def warm_up(  # noqa: B027 (tasks without a compiled search need no warm-up)
        self, batch_sizes: Sequence[int] = (1, 2), lengths: Sequence[int] = (8, 16)
    ) -> None:
        """Compile `predict` for common shapes, so that the first prediction is as fast as others.

        By default, nothing is compiled. Without XLA, two shapes are enough, and two
        more for inputs of 2,048 tokens or more.

        Args:
            batch_sizes: numbers of inputs.
            lengths: lengths of inputs, in tokens.
        """

    def check_sources(self, sources: Sequence[str], locations: Locations = None) -> None:
        """Raise ValueError if `predict` rejects one of the sources.

        The default implementation rejects empty sources.

        Args:
            sources: texts, or paths of images.
            locations: location of each source for error messages, such as file:line.
        """
        for location, source in add_locations(sources, locations):
            if not source:
                raise ValueError(f"{location}: the input is empty. Remove it.")

    def _limit_error(self, location: str, length: str, name: str, hint: str = "") -> ValueError:
        """Return the error for an input of this length, which exceeds the limit of this name."""
        return ValueError(
            f"{location}: {length}, the limit is {vars(self)[name]}; shorten it or raise the limit"
            f" (data.{name} on the command line, task.{name} in Python){hint}"
        )

    def find_unknown_characters(self, text: str) -> list[str]:
        """Return the characters of a text that the vocabulary does not contain."""
        return []

    def build_index(self, images: Sequence[Any], names: Sequence[str] | None = None) -> Any:
        """Encode images that `predict` searches, for a task with an "image_index" input."""
        raise ValueError(f"task {self.name} does not search images; remove the images")

    def get_predict_inputs(self, examples: Any) -> Sequence[Any]:
        """Return inputs of `predict` from examples; empty if examples do not contain them."""
        return ()

    def make_served_examples(self, examples: Any) -> list[dict[str, Any]]:
        """Return examples as inputs of the export's default signature, in JSON, for its demo page.

        By default, the columns of the examples that `inputs` needs. Texts that `predict` rejects
        are dropped.
        """
        served = format_examples(self.inputs, examples)
        return [one for one in served if "text" not in one or self._accepts(one["text"])]

    def _accepts(self, text: str) -> bool:
        try:
            self.check_sources([text])
        except ValueError:
            return False
        return True

    def make_model_call(self, source: Any, /, output: str | None = None) -> ModelCall:
        """Return the model's inputs for one input of `predict`, with labels of all positions.

        Args:
            source: one input of `predict`, such as a text.
            output: the text that the model is to generate; None for that of `predict`.

        Returns:
            `ModelCall`: inputs with a batch of 1, and the labels of their positions.

        Raises:
            ValueError: if the task does not implement it, or as in `predict`.
        """
        raise ValueError(
            f"task {self.name} cannot be inspected; use `inspection.record` on `task.model`"
        )

    def predict_example(self, examples: Any, row: int) -> tuple[Any, str]:
        """Return the result for one example, and a line with its reference and its prediction."""
        raise ValueError(f"task {self.name} does not implement predict_example; call predict")

    # Evaluation and reports.

    @abstractmethod
    def evaluate(self, examples: Any, **options: Any) -> dict[str, Any]:
        """Compute metrics on examples: at least `metric_names`."""

    def plot(self, result: Any, path: str | Path | None = None) -> Any:
        """Return a matplotlib figure of a result's attention; write it to `path` if given.

        Raises ValueError if the result has no prediction or no attention weights.
        """
        from attention_zoo import inspection

        check_plottable(result)
        labels = result.tokens, result.source_tokens
        return inspection.plot_alignment(result.attention, *labels, path)

    def write_report(self, results: Sequence[Any], path: str | Path) -> None:
        """Write results with their attention weights, or their errors, as one HTML page.

        Raises:
            ValueError: if the task has no HTML page.
        """
        raise ValueError(f"task {self.name} has no HTML page; use plot")

    @classmethod
    def has_report(cls) -> bool:
        """Return whether `write_report` is implemented."""
        return cls.write_report is not Task.write_report

    # Saving, loading and export.

    def get_saved_fields(self) -> dict[str, Any]:
        """Return additional fields of `task.json`."""
        return {}

    @classmethod
    def load_fields(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return additional constructor arguments from the content of `task.json`."""
        return {}

    def save(self, folder: str | Path, weights_dtype: str | None = None) -> None:
        """Write model, tokenizers and options to a folder; `task.json` is written last.

        `weights_dtype` is the type of the saved weights, as in `models.save_to_preset`.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, tokenizer in self.tokenizers.items():
            tokenizer.save(folder / name)
        self.model.save_to_preset(folder / "model", weights_dtype)
        self.write_task_file(folder)

    def write_task_file(self, folder: str | Path) -> None:
        """Write the name, options and `get_saved_fields` of the task to `task.json` in a folder."""
        content = {"format_version": FORMAT_VERSION, "task": self.name, **self.options}
        content |= {**self.get_saved_fields(), "search": self.search.as_dict()}
        text = json.dumps(content, indent=2) + "\n"
        (Path(folder) / "task.json").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load a folder written by `save`; raise ValueError if it is damaged."""
        folder = Path(folder)
        options = cls.read_options(folder)
        model = models.from_preset(folder / "model")
        return cls(model, **cls.load_tokenizers(folder), **options)  # type: ignore[call-arg]

    @classmethod
    def load_tokenizers(cls, folder: Path) -> dict[str, Any]:
        """Load the tokenizers that `save` wrote to a folder, by attribute name."""
        return {name: load_tokenizer(folder / name) for name in cls.tokenizer_names}

    @classmethod
    def read_options(cls, folder: str | Path) -> dict[str, Any]:
        """Return the constructor arguments in a folder's `task.json`, without the tokenizers."""
        content = read_task_file(folder)
        with explain_outdated(Path(folder) / "task.json"):
            options: dict[str, Any] = {name: int(content[name]) for name in cls.limits}
            options |= {name: bool(content[name]) for name in cls.boolean_options}
            options["search"] = SearchOptions(**content["search"])
            return options | cls.load_fields(content)

    def export_module(self, rules: Iterable[Rule] = ()) -> Any:
        """Return a `tf.Module` whose `serve` computes `predict` in TensorFlow operations.

        Raises:
            ValueError: if the task cannot be exported.
        """
        raise ValueError(f"task {self.name} does not support export; implement export_module")

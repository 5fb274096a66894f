"""A task outside the package: which of two letters is more frequent in a text.

`test_entry_point.py` installs this file in a folder of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from attention_zoo.data import Batches
from attention_zoo.registry import Registry
from attention_zoo.tasks import TASKS, GeneratedCorpus, Result, Task

LABELS = ("a", "b")


@dataclass
class Examples:
    """Texts with the index of their most frequent letter."""

    texts: list[str]
    labels: np.ndarray
    origin: str
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return zip(self.texts, self.labels.tolist(), strict=True)

    def take(self, rows: Iterable[int]) -> Examples:
        rows = list(rows)
        return Examples([self.texts[row] for row in rows], self.labels[rows], self.origin)


CORPORA = Registry("data.corpus")


@CORPORA.register("random_letters")
@dataclass
class RandomLetters(GeneratedCorpus):
    """Random strings of the letters a and b."""

    corpus: str = "random_letters"
    max_length: int = 9

    limits = ("max_length",)

    def _read(self, split: str) -> Examples:
        rng = np.random.default_rng([self.seed, self.splits.index(split)])
        letters = rng.integers(2, size=(self.size_of(split), 7))
        texts = ["".join(LABELS[letter] for letter in row) for row in letters]
        return Examples(texts, (letters.mean(axis=1) > 0.5).astype("int32"), f"letters {split}")


def count_letters(texts: Sequence[str]) -> np.ndarray:
    return np.array([[text.count(letter) for letter in LABELS] for text in texts], "float32")


class LetterBatches(Batches):
    """Batches of letter counts and labels."""

    def __init__(self, examples: Examples, batch_size: int, seed: int) -> None:
        lengths = np.ones(len(examples), "int64")  # equal lengths: one bucket
        super().__init__([lengths], batch_size, seed)
        self.counts, self.labels = count_letters(examples.texts), examples.labels

    def make_batch(self, rows: np.ndarray) -> Any:
        return self.counts[rows], self.labels[rows]


@TASKS.register("letters")
class Letters(Task):
    """Classification of texts by their most frequent letter."""

    name = "letters"
    metric_names = ("accuracy",)
    corpora = CORPORA
    limits = ("max_length",)
    tokenizer_names = ()
    example_noun = "texts"

    def __init__(self, model: keras.Model, max_length: int = 9, search: Any = None) -> None:
        self.model, self.max_length = model, max_length
        self.search = search or self.search

    @classmethod
    def from_recipe(cls, recipe: Any, train: Examples) -> Letters:
        layers = [keras.layers.Input((2,)), keras.layers.Dense(recipe.model["units"], "relu")]
        return cls(keras.Sequential([*layers, keras.layers.Dense(2)]), **cls.recipe_options(recipe))

    def make_batches(self, examples: Examples, batch_size: int, seed: int) -> LetterBatches:
        return LetterBatches(examples, batch_size, seed)

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def predict(self, texts: Sequence[str], **options: Any) -> list[Result]:
        log_probabilities = keras.ops.log_softmax(self.model(count_letters(texts)))
        return [
            Result(text=LABELS[row.argmax()], score=float(row.max()))
            for row in keras.ops.convert_to_numpy(log_probabilities)
        ]

    def evaluate(self, examples: Examples, **options: Any) -> dict[str, Any]:
        predicted = [LABELS.index(result.text) for result in self.predict(examples.texts)]
        return {"accuracy": 100.0 * float(np.mean(examples.labels == predicted))}

    def write_report(self, results: Sequence[Result], path: str | Path) -> None:
        Path(path).write_text("\n".join(result.text for result in results))

    def save(self, folder: str | Path) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.model.save(Path(folder) / "model.keras")
        self.write_task_file(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Letters:
        model = keras.models.load_model(Path(folder) / "model.keras", compile=False)
        return cls(model, **cls.read_options(folder))

    def export_module(self, rules: Any = ()) -> Any:
        import tensorflow as tf

        class Served(tf.Module):
            def __init__(self, model: keras.Model) -> None:
                super().__init__()
                self.model = model

            @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
            def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
                letters = [tf.strings.regex_replace(text, f"[^{letter}]", "") for letter in LABELS]
                counts = tf.stack(
                    [tf.cast(tf.strings.length(x), "float32") for x in letters], axis=1
                )
                return {"text": tf.gather(LABELS, tf.argmax(self.model(counts), axis=-1))}

        return Served(self.model)

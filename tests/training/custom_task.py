"""A task outside the package: a two-layer Keras model that fits points."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from attention_zoo.registry import Registry
from attention_zoo.tasks import TASKS, Corpus, Task
from attention_zoo.training import Recipe
from attention_zoo.training.recipe import TrainingOptions


@dataclass
class PointSet:
    """Inputs (N, 6) and targets (N, 3)."""

    x: np.ndarray
    y: np.ndarray
    origin: str = "points"
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.x)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return zip(self.x, self.y, strict=True)

    def take(self, rows: Iterable[int]) -> PointSet:
        rows = list(rows)
        return PointSet(self.x[rows], self.y[rows])


POINTS = Registry("data.corpus")


@POINTS.register("points")
@dataclass
class Points(Corpus):
    """Points of a smooth function; in one split, example number `poison` is NaN."""

    corpus: str = "points"
    source: str = "x"
    target: str = "y"
    size: int = 37
    poison: int = 0
    poisoned_split: str = "train"

    def _read(self, split: str) -> PointSet:
        x = np.random.default_rng(len(split)).normal(size=(self.size, 6)).astype("float32")
        y = np.sin(x[:, :3] + x[:, 3:])
        if self.poison and split == self.poisoned_split:
            x[self.poison - 1] = np.nan
        return PointSet(x, y)


class PointBatches:
    """The points in an order of their own every pass; the last batch holds the rest."""

    def __init__(self, points: PointSet, batch_size: int, seed: int) -> None:
        self.points, self.batch_size, self.seed = points, batch_size, seed
        self.steps_per_epoch = -(-len(points) // batch_size)

    def __len__(self) -> int:
        return len(self.points)

    num_examples = property(__len__)

    def get_rows(self, step: int) -> np.ndarray:
        number, index = divmod(step, self.steps_per_epoch)
        order = np.random.default_rng((self.seed, number)).permutation(len(self))
        return order[index * self.batch_size :][: self.batch_size]

    def get_example_numbers(self, step: int) -> list[int]:
        return sorted((self.get_rows(step) + 1).tolist())

    def dataset(self, start: int = 0) -> Any:
        def rows(step: Any) -> Any:
            picked = tf.numpy_function(self.get_rows, [step], tf.int64)
            return tf.ensure_shape(picked, (None,))

        def pick(rows: Any) -> Any:
            return tf.gather(self.points.x, rows), tf.gather(self.points.y, rows)

        return tf.data.Dataset.counter(start).map(rows).map(pick)

    def dataset_in_order(self) -> Any:
        return tf.data.Dataset.from_tensor_slices((self.points.x, self.points.y)).batch(
            self.batch_size
        )


class Regression(Task):
    """Points in, points out."""

    name: ClassVar[str] = "regression"
    corpora = POINTS

    def __init__(self, model: keras.Model) -> None:
        self.model = model

    @classmethod
    def from_recipe(cls, recipe: Recipe, train: PointSet) -> Regression:
        """Two dense layers, and between them those that the recipe's model section names."""
        between = [getattr(keras.layers, name)() for name in recipe.model.get("between", [])]
        if "dropout" in recipe.model:
            between.append(keras.layers.Dropout(recipe.model["dropout"]))
        layers = [keras.layers.Dense(8, "tanh"), *between, keras.layers.Dense(3, dtype="float32")]
        return cls(keras.Sequential([keras.layers.Input((6,)), *layers]))

    def make_batches(self, examples: PointSet, batch_size: int, seed: int) -> PointBatches:
        return PointBatches(examples, batch_size, seed)

    def make_loss(self, label_smoothing: float) -> keras.losses.Loss:
        return keras.losses.MeanSquaredError()

    def predict(self, points: Sequence[Any]) -> Any:
        return self.model(np.asarray(points))

    def evaluate(self, examples: PointSet) -> dict[str, float]:
        return {"error": float(np.mean((self.predict(examples.x) - examples.y) ** 2))}

    def save(self, folder: str | Path) -> None:
        self.model.save(Path(folder) / "model.keras")
        (Path(folder) / "task.json").write_text(json.dumps({"task": self.name}))

    @classmethod
    def load(cls, folder: str | Path) -> Regression:
        return cls(keras.models.load_model(Path(folder) / "model.keras", compile=False))


def register() -> None:
    """Register the task in a process of its own; tests take the fixture `custom_task`."""
    TASKS.register("regression")(Regression)


def recipe(folder: Path, data: dict[str, Any] | None = None, **training: Any) -> Recipe:
    """A run of 12 updates in a folder, with these options of data and training."""
    options = {"steps": 12, "evaluate_every": 4, "batch_size": 9, "learning_rate": 0.05}
    model = training.pop("model", {})
    return Recipe(
        task="regression",
        run=str(folder),
        data=Points(**(data or {})),
        model=model,
        training=TrainingOptions(**{**options, **training}),
    )

"""Classification of images from glimpses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_zoo.data import LabelledImages
from attention_zoo.losses import GlimpseLoss
from attention_zoo.models import RecurrentAttentionModel, RNNSearch
from attention_zoo.tasks import Glimpses
from tests.layers.running import randomise
from tests.refusals import refuses

CLASSES = ["dark", "grey", "light"]


def task_of(channels: int = 1, dtype: str = "float32", **options: Any) -> Glimpses:
    sizes = {"glimpse_size": 4, "glimpse_scales": 2, "glimpses": 3, "units": 8}
    model = RecurrentAttentionModel((12, 12, channels), 3, **sizes, seed=1, dtype=dtype)
    randomise(model)
    return Glimpses(model, CLASSES, **options)


def images(count: int = 5, channels: int = 1, seed: int = 0) -> np.ndarray:
    levels = np.random.default_rng(seed).integers(0, 256, (count, 12, 12, channels))
    return levels.astype("uint8")


def examples(**changes: Any) -> LabelledImages:
    fields = {
        "images": images(),
        "labels": np.array([0, 2, 1, 0, 2], "int32"),
        "classes": CLASSES,
        "names": list("abcde"),
        "origin": "a test",
    }
    return LabelledImages(**{**fields, **changes})


def test_fields_of_a_prediction() -> None:
    for image, answer in zip(images(), task_of().predict(list(images())), strict=True):
        assert list(answer.probabilities) == CLASSES
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.score == pytest.approx(np.log(answer.probabilities[answer.text]))
        assert answer.tokens[-1] == answer.text
        assert len(answer.tokens) == len(answer.locations) == len(answer.patches) == 3
        np.testing.assert_array_equal(answer.image, image)


def test_colour_images_become_grey_for_a_greyscale_model(tmp_path: Path) -> None:
    task = task_of()
    Image.new("RGB", (12, 12), (200, 100, 0)).save(tmp_path / "a.png")
    (answer,) = task.predict([tmp_path / "a.png"])
    assert np.unique(answer.image).tolist() == [round(0.299 * 200 + 0.587 * 100)]
    (coloured,) = task_of(3).predict([tmp_path / "a.png"])
    assert coloured.image[0, 0].tolist() == [200, 100, 0]
    grey = images(1)[0]
    np.testing.assert_array_equal(task.predict([grey])[0].image, grey)


def test_batches_and_loss() -> None:
    task = task_of()
    batches = task.make_batches(examples(), batch_size=2, seed=1)
    assert len(batches) == 5
    found, labels = batches.make_batch(np.array([1, 2]))
    np.testing.assert_array_equal(found, images()[[1, 2]])
    assert labels.tolist() == [2, 1]
    assert isinstance(task.make_loss(), GlimpseLoss)
    assert len(task.filter_by_length(examples())) == 5
    other = examples(classes=["light", "dark", "grey"])
    assert task.make_batches(other, 2, seed=1).make_batch(np.array([0, 1, 2]))[1].tolist() == [
        2,
        1,
        0,
    ]


def test_evaluate_agrees_with_predict() -> None:
    task, corpus = task_of(), examples()
    predictions = [answer.text for answer in task.predict(list(corpus.images))]
    classes = [CLASSES[label] for label in corpus.labels]
    right = np.mean([one == name for one, name in zip(predictions, classes, strict=True)])
    report = task.evaluate(corpus)
    assert report["images"] == 5
    assert report["accuracy"] == pytest.approx(100 * right)
    assert report["error"] == pytest.approx(100 - 100 * right)


@refuses(
    (lambda task: task.predict("a.png"), "predict takes a list of images"),
    (lambda task: task.predict(images()[0]), "predict takes a list of images"),
    (lambda task: task.predict(images()[0, ..., 0]), "predict takes a list of images"),
    (lambda task: task.check_sources([""], ["a:2"]), r"^a:2: is empty; give the path of an image"),
    (lambda task: task.check_sources(["nothing.png"], ["a:1"]), r"nothing\.png"),
    (
        lambda task: task.make_batches(examples(classes=["dark", "grey", "light one"]), 2, 1),
        r"^a test: unknown class 'light one'",
    ),
    (lambda task: Glimpses(task.model, ["a", "b"]), "^classes has 2 names, but .* 3 classes"),
    (
        lambda task: Glimpses(task.model, CLASSES, image_size=28),
        r"^the model takes images of 12 x 12 pixels",
    ),
    (
        lambda task: Glimpses(RNNSearch(9, 9, 4, 4, 4, 4), CLASSES),
        r"^model must be a models\.RecurrentAttentionModel, got RNNSearch",
    ),
)
def test_invalid_input_raises(call: Any) -> None:
    call(task_of())

"""Exported glimpse models predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from attention_zoo.export.graph_images import UNKNOWN_FORMAT, UNREADABLE, square_images
from attention_zoo.models import RecurrentAttentionModel
from attention_zoo.tasks import GlimpseResult, Glimpses
from attention_zoo.tasks.glimpses.export import GlimpsesModule, grey_images
from tests.export.alone import ExportedOutputs, export_by_command
from tests.layers.running import randomise
from tests.tasks.captioners import encoded, picture
from tests.tasks.test_glimpses import CLASSES, task_of
from tests.tiers import mark_others_full

ROTATED = Image.Exif()
ROTATED[0x0112] = 6

IMAGES = [
    encoded(picture(1)),
    encoded(picture(2, 9, 40), "JPEG"),
    encoded(np.asarray(Image.fromarray(picture(3, 33, 7)).convert("L"))),
    encoded(picture(4, 12, 12)),
    encoded(np.asarray(Image.fromarray(picture(5, 60, 60)).convert("L")), "JPEG"),
    encoded(picture(6, 9, 40), "JPEG", exif=ROTATED),
]
"""PNG, JPEG, grey PNG, one of the size of the model, grey JPEG, one with an EXIF orientation."""

EXPORT = export_by_command
BATCHES = [IMAGES, IMAGES[1:2], [], [IMAGES[0], b"GIF89a"], [IMAGES[0], IMAGES[0][:60]]]
KINDS = {"grey": (1, 1), "coloured": (3, 2)}
"""Channels, and a seed of weights whose answers differ."""


@functools.cache
def task(kind: str) -> Glimpses:
    """A model with random weights."""
    channels, seed = KINDS[kind]
    instance = task_of(channels)
    randomise(instance.model, seed)
    return instance


def assert_same(
    answers: dict[str, Any], wants: Sequence[GlimpseResult], bound: float = 1e-4
) -> None:
    assert len(answers["text"]) == len(wants)
    for row, expected in enumerate(wants):
        outputs = {name: of_all[row] for name, of_all in answers.items()}
        assert (outputs["text"], outputs["tokens"]) == (expected.text, list(expected.tokens))
        assert outputs["classes"] == sorted(CLASSES, key=lambda name: -expected.probabilities[name])
        assert outputs["classes"][0] == expected.text
        shares = [expected.probabilities[name] for name in outputs["classes"]]
        np.testing.assert_allclose(outputs["probabilities"], shares, rtol=bound, atol=bound / 100)
        np.testing.assert_allclose(outputs["scores"], expected.score, rtol=bound, atol=bound / 10)
        np.testing.assert_allclose(outputs["locations"], expected.locations, atol=bound)


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    (several, _), (one, _), *_ = exported_outputs[kind]
    wants = task(kind).predict(IMAGES)
    assert_same(several, wants)
    assert_same(one, wants[1:2])
    assert len({expected.text for expected in wants}) > 1
    assert len({expected.tokens for expected in wants}) > 2
    assert len({tuple(expected.locations[-1]) for expected in wants}) == len(IMAGES)


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_no_images(kind: str, exported_outputs: ExportedOutputs) -> None:
    _, shapes = exported_outputs[kind][BATCHES.index([])]
    assert shapes == {
        "ok": [0],
        "error": [0],
        "text": [0],
        "scores": [0],
        "classes": [0, 3],
        "probabilities": [0, 3],
        "locations": [0, 3, 2],
        "tokens": [0, 3],
    }


def test_an_invalid_image_does_not_affect_the_others(exported_outputs: ExportedOutputs) -> None:
    expected = task("grey").predict(IMAGES[:1])
    for answers, _ in exported_outputs["grey"][3:]:
        assert answers["ok"] == [True, False]
        assert re.search("image", answers["error"][1])
        assert (answers["text"][1], answers["scores"][1]) == ("", -np.inf)
        assert_same({name: rows[:1] for name, rows in answers.items()}, expected)


def test_rounding_of_grey_values_equals_the_task() -> None:
    levels = np.stack(np.meshgrid(*[np.arange(0, 256, 3)] * 3), -1).reshape(-1, 3)
    between = levels[levels @ [299, 587, 114] % 1000 == 500][: 4 * 12 * 12]
    squares = between.reshape(4, 12, 12, 3).astype("uint8")
    wants = [task("grey")._read_image(square, "") for square in squares]
    np.testing.assert_array_equal(grey_images(tf.constant(squares)), np.stack(wants))
    exact = between.reshape(4, 12, 12, 3) @ [299, 587, 114]
    down, odd = exact // 1000, exact // 1000 % 2
    np.testing.assert_array_equal(np.stack(wants)[..., 0], down + odd)  # to the even one


@pytest.mark.full
def test_double_precision() -> None:
    settings = task("coloured").model.settings
    model = RecurrentAttentionModel(**settings, dtype=keras.dtype_policies.get("float64"))
    randomise(model)
    own = Glimpses(model, CLASSES)
    module = GlimpsesModule(own)
    served = module.serve(tf.constant(IMAGES))
    assert {x.dtype.name for x in served.values()} == {"string", "float32", "bool"}
    plain = {name: x.numpy().tolist() for name, x in served.items()}
    for name in ("text", "classes", "tokens"):
        plain[name] = np.char.decode(np.array(plain[name], bytes)).tolist()
    assert_same(plain, own.predict(IMAGES), 1e-5)


def test_other_riff_files_are_of_an_unknown_format() -> None:
    files = [b"RIFF\0\0\0\0AVI LIST", b"RIFF", b"", b"RIFF\n\0\xff\0WEBPVP8 "]
    errors, images = square_images(tf.constant(files), 12)
    expected = [UNKNOWN_FORMAT] * 3 + [UNREADABLE]
    assert [error.decode() for error in errors.numpy()] == expected
    assert len(images) == 0

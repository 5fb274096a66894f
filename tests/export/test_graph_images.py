"""Batches of encoded images in a graph: pixels, errors of images, and the mapped function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from attention_zoo.data import read_image
from attention_zoo.export.graph_images import UNKNOWN_FORMAT, UNREADABLE, square_images
from tests.data.images.test_images import BAD, COLOURS, GOOD, REFUSED, TOO_LARGE, encoded
from tests.tiers import FULL

SIDE = 9
TRANSPARENT = COLOURS.convert("RGBA")
TRANSPARENT.putalpha(Image.linear_gradient("L").resize(COLOURS.size))
ROTATED = Image.Exif()
ROTATED[0x0112] = 6
IMAGES = {
    **GOOD,
    "transparent PNG": encoded(TRANSPARENT),
    "transparent WebP": encoded(TRANSPARENT, "WEBP", lossless=True),
    "WebP": encoded(COLOURS, "WEBP"),
    "rotated JPEG": encoded(COLOURS, "JPEG", exif=ROTATED),
    "rotated PNG": encoded(COLOURS, exif=ROTATED),
}
DAMAGED = ("damaged PNG", "PNG's header", "JPEG's header", "no side")
UNKNOWN = ("nothing", "text", "GIF", "BMP", "RIFF")


@pytest.fixture(scope="module")
def graph() -> Any:
    function = tf.function(
        lambda images: square_images(images, SIDE),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    concrete = function.get_concrete_function()  # not eager, as the fast tier is here
    concrete(tf.constant([GOOD["PNG"]]))  # the first call takes seconds
    return concrete


@pytest.fixture(scope="module")
def squares() -> dict[str, Any]:
    """The images as `read_image` reads them."""
    return {name: read_image(image, SIDE) for name, image in IMAGES.items()}


def test_bad_images_do_not_affect_the_others(graph: Any, squares: dict[str, Any]) -> None:
    """Every good image is between two bad ones."""
    bad = [*REFUSED, *TOO_LARGE, *DAMAGED]
    good = [*IMAGES]
    names = [name for pair in zip(bad, [*good, *good], strict=False) for name in pair]
    names.append(bad[0])
    assert {*good, *bad} <= {*names}
    files = {**IMAGES, **{name: BAD[name][0] for name in bad}}
    errors, found = graph(tf.constant([files[name] for name in names]))
    messages = [
        "" if name in IMAGES else UNKNOWN_FORMAT if name in UNKNOWN else UNREADABLE
        for name in names
    ]
    assert [error.decode() for error in errors.numpy()] == messages
    expected = [squares[name] for name in names if name in IMAGES]
    np.testing.assert_array_equal(found.numpy(), expected)


def test_damaged_bytes_do_not_affect_the_other_images(graph: Any, squares: dict[str, Any]) -> None:
    generator = np.random.default_rng(0)
    first, last = "PNG", "rotated JPEG"
    damaged = []
    for _ in range(300 if FULL else 30):
        file = bytearray(IMAGES[generator.choice([*IMAGES])])
        for _ in range(generator.integers(1, 6)):
            file[generator.integers(min(len(file), 200))] = generator.integers(256)
        damaged.append(bytes(file[: generator.integers(1, len(file) + 1)]))
    errors, found = graph(tf.constant([IMAGES[first], *damaged, IMAGES[last]]))
    assert not errors[0].numpy()
    assert not errors[-1].numpy()
    assert len(found) == np.count_nonzero(errors.numpy() == b"")
    np.testing.assert_array_equal(found[0], squares[first])
    np.testing.assert_array_equal(found[-1], squares[last])


@pytest.mark.parametrize("names", [[], ["text"], ["text", "bomb"]])
def test_batches_without_a_good_image(graph: Any, names: list[str]) -> None:
    errors, squares = graph(tf.constant([BAD[name][0] for name in names], tf.string))
    assert errors.shape == [len(names)]
    assert all(errors.numpy())
    assert squares.shape == [0, SIDE, SIDE, 3]


def test_the_dataset_only_decodes(graph: Any) -> None:
    """TensorFlow optimizes the mapped function in every call, in a time that grows with its size.

    With resizing, it took most of the time of a small model.
    """
    definition = graph.graph.as_graph_def()
    functions = {f.signature.name: f.node_def for f in definition.library.function}
    nodes = [*definition.node, *(node for part in functions.values() for node in part)]
    (mapped,) = {node.attr["f"].func.name for node in nodes if "MapDataset" in node.op}

    def count_nodes(name: str) -> int:
        called = [
            function.name
            for node in functions[name]
            for value in node.attr.values()
            for function in (value.func, *value.list.func)
            if function.name
        ]
        return len(functions[name]) + sum(map(count_nodes, called))

    assert 10 < count_nodes(mapped) < 80

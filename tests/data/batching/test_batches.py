"""Batches of every class: epochs, resuming, evaluation order, invalid arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.data import (
    CaptionBatches,
    ImageTextBatches,
    LabelledBatches,
    LineBatches,
    MaskedBatches,
    PairBatches,
    TaggedBatches,
)
from attention_zoo.data.batching.batching import split_by_tokens
from tests.data.batching import test_caption_batches, test_masked_batches, test_tagged_batches
from tests.data.batching.test_batching import make_corpus
from tests.refusals import refuses

IMAGES, TARGETS = test_caption_batches.IMAGES, test_caption_batches.TARGETS
IMAGE_INDICES = test_caption_batches.IMAGE_INDICES
ARGUMENTS: dict[type, tuple[Any, ...]] = {
    PairBatches: make_corpus(43),
    LineBatches: make_corpus(43)[:1],
    MaskedBatches: (test_masked_batches.LINES, test_masked_batches.IDS),
    TaggedBatches: test_tagged_batches.make_corpus(pieces=2, characters=True, marks=True),
    CaptionBatches: (IMAGES, TARGETS, IMAGE_INDICES),
    ImageTextBatches: (IMAGES, TARGETS, IMAGE_INDICES),
    LabelledBatches: (IMAGES, np.array([3, 1, 4, 1, 5, 0, 2])),
}
TOKEN_CLASSES = (PairBatches, LineBatches, MaskedBatches, TaggedBatches)
all_batch_classes = pytest.mark.parametrize("cls", ARGUMENTS, ids=lambda cls: cls.__name__)


def make_batches(cls: type, batch_size: int = 4, seed: int = 3) -> Any:
    return cls(*ARGUMENTS[cls], batch_size=batch_size, seed=seed)


def assert_same(batches: Any, expected: Any) -> None:
    for batch, other in zip(batches, expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, batch, other)


@all_batch_classes
def test_each_epoch_has_every_example_once_in_shuffled_order(cls: type) -> None:
    batches = make_batches(cls)
    steps = np.arange(batches.steps_per_epoch)
    epochs = [np.concatenate([*map(batches.get_rows, steps + n * len(steps))]) for n in range(2)]
    for rows in epochs:
        assert sorted(rows) == list(range(len(batches)))
    assert len(steps) == -(-len(batches) // 4)
    assert max(len(batches.get_rows(step)) for step in steps) == 4
    assert epochs[0].tolist() != epochs[1].tolist()
    assert batches.get_rows(0).tolist() != make_batches(cls, seed=4).get_rows(0).tolist()


@all_batch_classes
def test_dataset_starts_at_any_step(cls: type) -> None:
    expected = [make_batches(cls).get_batch(step) for step in (7, 6, 5, 4)][::-1]
    dataset = make_batches(cls).dataset(4, 8)
    assert int(dataset.cardinality()) == 4
    assert_same(dataset.as_numpy_iterator(), expected)
    assert_same(make_batches(cls).dataset(4).take(4).as_numpy_iterator(), expected)
    for leaf in tf.nest.flatten(expected):
        assert leaf.dtype in (np.int32, np.uint8)


@all_batch_classes
def test_evaluation_keeps_corpus_order(cls: type) -> None:
    batches = make_batches(cls)
    index_chunks = np.split(np.arange(len(batches)), range(4, len(batches), 4))
    for _ in range(2):
        in_order = batches.dataset_in_order()
        assert in_order.cardinality() == len(index_chunks)
        assert_same(in_order.as_numpy_iterator(), map(batches.make_batch, index_chunks))


@all_batch_classes
@refuses(
    (lambda cls: make_batches(cls, batch_size=0), "batch_size must be at least 1, got 0"),
    (lambda cls: make_batches(cls, seed=-1), "seed must be at least 0, got -1"),
    (lambda cls: cls(*ARGUMENTS[cls], 4, 1, bucket_width=0), "bucket_width must be at least 1"),
    (lambda cls: make_batches(cls).get_rows(-1), "step must be at least 0, got -1"),
    (lambda cls: make_batches(cls).dataset(5, 4), "expected 0 <= start <= stop"),
    (lambda cls: make_batches(cls).dataset(-1, 3), "expected 0 <= start <= stop"),
)
def test_invalid_arguments_raise(call: Any, cls: type) -> None:
    call(cls)


def count_tokens(batch: Any) -> int:
    """Return the number of tokens of a batch, padding included, of the longer side."""
    inputs, _ = batch
    arrays = [array for name, array in inputs.items() if name in ("source", "target", "tokens")]
    return max(array.size for array in arrays)


@all_batch_classes
def test_max_length(cls: type) -> None:
    batches = make_batches(cls, batch_size=1000)
    longest = 0
    if cls in TOKEN_CLASSES:
        longest = count_tokens(batches.get_batch(0)) // len(batches)
    assert batches.max_length == longest


@pytest.mark.parametrize("cls", TOKEN_CLASSES, ids=lambda cls: cls.__name__)
def test_limit_tokens(cls: type) -> None:
    by_size = make_batches(cls, batch_size=1000)
    longest = count_tokens(by_size.get_batch(0)) // len(by_size)
    batches = by_size.limit_tokens(3 * longest)
    steps = range(batches.steps_per_epoch)
    rows = [batches.get_rows(step) for step in steps]
    assert sorted(np.concatenate(rows)) == list(range(len(by_size)))
    assert by_size.steps_per_epoch == 1
    assert max(count_tokens(batches.get_batch(step)) for step in steps) <= 3 * longest
    assert min(map(len, rows)) < max(map(len, rows)), "more short examples than long ones"
    in_order = [*batches.dataset_in_order()]
    assert sum(len(labels) for _, labels in in_order) == len(by_size)
    whole = next(iter(by_size.dataset_in_order()))
    first = tf.nest.flatten(in_order[0])[0]
    np.testing.assert_array_equal(first, tf.nest.flatten(whole)[0][: len(first), : first.shape[1]])
    assert len(in_order) == int(batches.dataset_in_order().cardinality())
    later = [batches.get_rows(step + len(steps)) for step in steps]
    assert sorted(map(len, later)) == sorted(map(len, rows))


@refuses(
    (PairBatches, 3, r"^example \d+ has \d+ tokens with padding, the limit is 3; raise batch_tok"),
    (LineBatches, 0, "batch_tokens must be at least 1, got 0"),
    (LineBatches, 2.5, "batch_tokens must be an integer"),
    (CaptionBatches, 100, "^batches of images have no tokens; use batch_size"),
    (LabelledBatches, 100, "^batches of images have no tokens; use batch_size"),
)
def test_invalid_limits_of_tokens(cls: type, batch_tokens: Any) -> None:
    make_batches(cls).limit_tokens(batch_tokens)


@pytest.mark.parametrize("order", ["sorted", "random"])
def test_split_by_tokens_is_greedy(order: str) -> None:
    lengths = np.random.default_rng(2).integers(1, 12, 200)
    if order == "sorted":
        lengths.sort()
    for batch_tokens in (11, 12, 30, 200, 5000):
        expected, start = [0], 0
        for stop in range(1, len(lengths) + 1):
            if (stop - start) * lengths[start:stop].max() > batch_tokens:
                start = stop - 1
                expected.append(start)
        starts = split_by_tokens(lengths, batch_tokens)
        assert starts.tolist() == [*expected, len(lengths)]

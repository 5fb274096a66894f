"""Batches of every kind: epochs, resuming, evaluation order, bad arguments."""

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
from tests.data.batching import test_caption_batches, test_masking, test_tagged_batches
from tests.data.batching.test_batching import corpus
from tests.refusals import refuses

IMAGES, TARGETS = test_caption_batches.IMAGES, test_caption_batches.TARGETS
WHICH = test_caption_batches.WHICH
ARGUMENTS: dict[type, tuple[Any, ...]] = {
    PairBatches: corpus(43),
    LineBatches: corpus(43)[:1],
    MaskedBatches: (test_masking.LINES, test_masking.MARKS),
    TaggedBatches: test_tagged_batches.corpus(pieces=2, characters=True, marks=True),
    CaptionBatches: (IMAGES, TARGETS, WHICH),
    ImageTextBatches: (IMAGES, TARGETS, WHICH),
    LabelledBatches: (IMAGES, np.array([3, 1, 4, 1, 5, 0, 2])),
}
every_kind = pytest.mark.parametrize("cls", ARGUMENTS, ids=lambda cls: cls.__name__)


def make_batches(cls: type, batch_size: int = 4, seed: int = 3) -> Any:
    return cls(*ARGUMENTS[cls], batch_size=batch_size, seed=seed)


def assert_same(batches: Any, expected: Any) -> None:
    for batch, other in zip(batches, expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, batch, other)


@every_kind
def test_an_epoch_has_every_row_once_in_a_shuffled_order(cls: type) -> None:
    batches = make_batches(cls)
    steps = np.arange(batches.steps_per_pass)
    passes = [np.concatenate([*map(batches.rows, steps + n * len(steps))]) for n in range(2)]
    for rows in passes:
        assert sorted(rows) == list(range(len(batches)))
    assert len(steps) == -(-len(batches) // 4)
    assert max(len(batches.rows(step)) for step in steps) == 4
    assert passes[0].tolist() != passes[1].tolist()
    assert batches.rows(0).tolist() != make_batches(cls, seed=4).rows(0).tolist()


@every_kind
def test_a_dataset_starts_at_any_step(cls: type) -> None:
    expected = [make_batches(cls).at(step) for step in (7, 6, 5, 4)][::-1]
    dataset = make_batches(cls).dataset(4, 8)
    assert int(dataset.cardinality()) == 4
    assert_same(dataset.as_numpy_iterator(), expected)
    assert_same(make_batches(cls).dataset(4).take(4).as_numpy_iterator(), expected)
    for leaf in tf.nest.flatten(expected):
        assert leaf.dtype in (np.int32, np.uint8)


@every_kind
def test_evaluation_keeps_the_order_of_the_corpus(cls: type) -> None:
    batches = make_batches(cls)
    parts = np.split(np.arange(len(batches)), range(4, len(batches), 4))
    for _ in range(2):
        in_order = batches.in_order()
        assert in_order.cardinality() == len(parts)
        assert_same(in_order.as_numpy_iterator(), map(batches.batch, parts))


@every_kind
@refuses(
    (lambda cls: make_batches(cls, batch_size=0), "batch_size=0 must be at least 1"),
    (lambda cls: make_batches(cls, seed=-1), "seed=-1 must be at least 0"),
    (lambda cls: make_batches(cls).rows(-1), "step -1 must be at least 0"),
    (lambda cls: make_batches(cls).dataset(5, 4), "expected 0 <= start <= stop"),
    (lambda cls: make_batches(cls).dataset(-1, 3), "expected 0 <= start <= stop"),
)
def test_bad_arguments(call: Any, cls: type) -> None:
    call(cls)

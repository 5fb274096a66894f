"""What holds for batches of every kind: passes, resuming, the order of the corpus, bad input."""

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
from tests.data import test_caption_batches, test_masking, test_tagged_batches
from tests.data.test_batching import corpus
from tests.refusals import refuses

IMAGES, TARGETS = test_caption_batches.IMAGES, test_caption_batches.TARGETS
WHICH = test_caption_batches.WHICH
GIVEN: dict[type, tuple[Any, ...]] = {
    PairBatches: corpus(43),
    LineBatches: corpus(43)[:1],
    MaskedBatches: (test_masking.LINES, test_masking.MARKS),
    TaggedBatches: test_tagged_batches.corpus(pieces=2, characters=True, marks=True),
    CaptionBatches: (IMAGES, TARGETS, WHICH),
    ImageTextBatches: (IMAGES, TARGETS, WHICH),
    LabelledBatches: (IMAGES, np.array([3, 1, 4, 1, 5, 0, 2])),
}
every_kind = pytest.mark.parametrize("cls", GIVEN, ids=lambda cls: cls.__name__)


def made(cls: type, batch_size: int = 4, seed: int = 3) -> Any:
    return cls(*GIVEN[cls], batch_size=batch_size, seed=seed)


def assert_same(batches: Any, expected: Any) -> None:
    for batch, other in zip(batches, expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, batch, other)


@every_kind
def test_a_pass_takes_every_row_once_in_an_order_of_its_own(cls: type) -> None:
    batches = made(cls)
    steps = np.arange(batches.steps_per_pass)
    passes = [np.concatenate([*map(batches.rows, steps + n * len(steps))]) for n in range(2)]
    for rows in passes:
        assert sorted(rows) == list(range(len(batches)))
    assert len(steps) == -(-len(batches) // 4)
    assert max(len(batches.rows(step)) for step in steps) == 4
    assert passes[0].tolist() != passes[1].tolist()
    assert batches.rows(0).tolist() != made(cls, seed=4).rows(0).tolist()


@every_kind
def test_a_dataset_gives_the_batches_of_its_steps_from_any_step_on(cls: type) -> None:
    expected = [made(cls).at(step) for step in (7, 6, 5, 4)][::-1]
    dataset = made(cls).dataset(4, 8)
    assert int(dataset.cardinality()) == 4
    assert_same(dataset.as_numpy_iterator(), expected)
    assert_same(made(cls).dataset(4).take(4).as_numpy_iterator(), expected)
    for leaf in tf.nest.flatten(expected):
        assert leaf.dtype in (np.int32, np.uint8)


@every_kind
def test_evaluation_has_the_order_of_the_corpus(cls: type) -> None:
    batches = made(cls)
    parts = np.split(np.arange(len(batches)), range(4, len(batches), 4))
    for _ in range(2):
        in_order = batches.in_order()
        assert in_order.cardinality() == len(parts)
        assert_same(in_order.as_numpy_iterator(), map(batches.batch, parts))


@every_kind
@refuses(
    (lambda cls: made(cls, batch_size=0), "batch_size=0 must be at least 1"),
    (lambda cls: made(cls, seed=-1), "seed=-1 must be at least 0"),
    (lambda cls: made(cls).rows(-1), "step -1 must be at least 0"),
    (lambda cls: made(cls).dataset(5, 4), "expected 0 <= start <= stop"),
    (lambda cls: made(cls).dataset(-1, 3), "expected 0 <= start <= stop"),
)
def test_bad_numbers(call: Any, cls: type) -> None:
    call(cls)

"""Batches of labelled texts, of documents, and of pairs of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.data.batching.labelled_text_batches import LabelledTextBatches, pad_sentences
from attention_zoo.data.batching.matched_batches import MatchedBatches
from tests.refusals import refuses

TEXTS = {"tokens": [[5, 6, 7], [8], [9, 10]], "labels": [[2], [1], [2]]}
DOCUMENTS = {
    "tokens": [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]],
    "sentence_lengths": [[2, 1], [1, 5], [1]],
    "labels": [[1, 3], [0], [2]],
}


def test_texts_and_one_class() -> None:
    batches = LabelledTextBatches(TEXTS, 3, 1, bucket_width=2)
    inputs, labels = batches.make_batch(np.arange(3))
    assert inputs["tokens"].tolist() == [[5, 6, 7, 0], [8, 0, 0, 0], [9, 10, 0, 0]]
    assert labels.tolist() == [1, 0, 1]
    assert {array.dtype for array in (inputs["tokens"], labels)} == {np.dtype("int32")}
    assert batches.max_length == 4


def test_documents_and_several_classes() -> None:
    batches = LabelledTextBatches(DOCUMENTS, 3, 1, num_classes=3, bucket_width=1)
    inputs, labels = batches.make_batch(np.arange(3))
    assert inputs["tokens"].tolist() == [
        [[5, 6, 0, 0, 0], [7, 0, 0, 0, 0]],
        [[8, 0, 0, 0, 0], [9, 10, 11, 12, 13]],
        [[14, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
    ]
    assert labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert batches.max_length == 5


@pytest.mark.parametrize("limit", [10, 12, 20])
def test_batches_of_documents_have_a_maximum_number_of_tokens(limit: int) -> None:
    batches = LabelledTextBatches(DOCUMENTS, 3, 1, num_classes=3, bucket_width=1)
    limited = batches.limit_tokens(limit)
    shapes = [limited.get_batch(step)[0]["tokens"].shape for step in range(limited.steps_per_epoch)]
    assert sum(shape[0] for shape in shapes) == 3
    assert all(np.prod(shape) <= max(limit, 10) for shape in shapes)
    in_order = [inputs["tokens"].shape for inputs, _ in limited.dataset_in_order()]
    assert sum(shape[0] for shape in in_order) == 3
    assert all(np.prod(shape) <= max(limit, 10) for shape in in_order)
    assert refuses(["example 2 has 10 tokens"], batches.limit_tokens, 9)


def test_every_text_once_in_an_epoch() -> None:
    for columns in (TEXTS, DOCUMENTS):
        batches = LabelledTextBatches(columns, 2, 3, num_classes=3)
        numbers: list[int] = []
        for step in range(batches.steps_per_epoch):
            numbers += batches.get_example_numbers(step)
        assert sorted(numbers) == [1, 2, 3]


def test_a_text_without_tokens_is_an_error() -> None:
    columns = {"tokens": [[1], []], "labels": [[1], [1]]}
    assert refuses(["text 2 is empty"], LabelledTextBatches, columns, 1, 1)


def test_padding_of_sentences() -> None:
    lengths = np.array([[2, 1], [0, 0]], "int32")
    assert pad_sentences(np.array([4, 5, 6]), lengths, 4).tolist() == [
        [[4, 5, 0, 0], [6, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0]],
    ]


@pytest.mark.parametrize("labels", [np.array([1, 0, 2]), np.array([0.5, -1.0, 2.0])])
def test_pairs(labels: Any) -> None:
    first, second = [[5, 6], [7], [8, 9, 10]], [[11], [12, 13], [14]]
    batches = MatchedBatches(first, second, labels, 2, 1, bucket_width=1)
    inputs, targets = batches.make_batch(np.array([2, 0]))
    assert inputs["first"].tolist() == [[8, 9, 10], [5, 6, 0]]
    assert inputs["second"].tolist() == [[14], [11]]
    assert targets.tolist() == labels[[2, 0]].tolist()
    assert targets.dtype == ("float32" if labels.dtype.kind == "f" else "int32")
    words = [
        "expected two texts and a label for each pair, got 3 first texts, 3 second texts and 2"
    ]
    assert refuses(words, MatchedBatches, first, second, labels[:2], 2, 1)

"""The base class: a subclass that defines what it documents, and no more, is a complete model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo import models
from attention_zoo.models.classification.classifier import check_classes, left_align, masked_mean
from tests.layers.running import array, arrays
from tests.refusals import refuses


class BagOfWords(models.Classifier):
    """Mean of the token embeddings."""

    def __init__(
        self, vocabulary_size: int, classes: list[str], multi_label: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(models.collect_arguments(locals()))
        features = {"embedding_dim": 3, "word_dropout": 0.0, "characters": None, "marks": False}
        self.features = models.WordFeatures({**self.settings, **features})
        self.build_head(3)

    def build_layers(self) -> None:
        self.features.build()

    def encode(self, tokens: Any, training: bool, return_attention_scores: bool) -> Any:
        return masked_mean(self.features({"tokens": tokens}), ops.not_equal(tokens, 0)), {}


def test_subclass_is_a_complete_model() -> None:
    model = BagOfWords(5, ["a", "b"])
    logits, weights = model({"tokens": np.array([[2, 0, 3]])}, return_attention_scores=True)
    embeddings = array(model.token_embedding.embeddings)
    expected = (embeddings[2] + embeddings[3]) / 2 @ array(model.head.kernel)
    np.testing.assert_allclose(array(logits)[0], expected, rtol=1e-5)
    assert weights == {}
    assert (model.vocabulary_size, model.max_length) == (5, None)
    with pytest.raises(TypeError, match="Classifier does not define `encode`"):
        models.Classifier.encode(models.Classifier(), np.ones((1, 1)), False, False)


def test_padding_moves_to_the_end() -> None:
    tokens = np.array([[0, 7, 0, 8], [0, 0, 0, 0], [5, 6, 7, 8]], "int32")
    aligned, mask, positions = arrays(left_align(ops.convert_to_tensor(tokens)))
    assert aligned.tolist() == [[7, 8, 0, 0], [0, 0, 0, 0], [5, 6, 7, 8]]
    assert mask.astype(int).tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    np.testing.assert_array_equal(np.take_along_axis(aligned, positions, 1), tokens)
    shapes = [x.shape for x in arrays(left_align(ops.zeros((2, 0), "int32")))]
    assert shapes == [(2, 1), (2, 1), (2, 0)]


@refuses(
    ("sports", "classes must be a list of at least 2 names, got 'sports'"),
    (["sports"], r"classes must be a list of at least 2 names, got \['sports'\]"),
    ([], r"classes must be a list of at least 2 names, got \[\]"),
    (None, "classes must be a list of at least 2 names, got None"),
    (["a", "b", "a"], "classes must be distinct, got 'a' 2 times"),
    ([1, "1"], "classes must be distinct, got '1' 2 times"),
)
def test_invalid_classes_are_rejected(classes: Any) -> None:
    check_classes(classes, 2)


def test_one_class_is_valid_with_multi_label() -> None:
    assert BagOfWords(5, ["a"], multi_label=True).classes == ("a",)
    with pytest.raises(ValueError, match="classes must be a list of at least 1 names"):
        BagOfWords(5, [], multi_label=True)

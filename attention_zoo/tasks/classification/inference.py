"""Inference of classifiers on encoded texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo.data.batching.labelled_text_batches import pad_sentences
from attention_zoo.layers.attention.expected_lengths import (
    expect_long_sequences,
    expects_long_sequences,
)
from attention_zoo.tasks.classification.texts import EncodedText, TextEncoder
from attention_zoo.tasks.inference import Arrays, BatchedInference, Inference, PaddedShape
from attention_zoo.tasks.text_inputs import pad_batch, round_up
from attention_zoo.typing import Tensor


class ClassifierInference(Inference):
    """Inference of a classifier: log probabilities and attention weights.

    Args:
        classifier: a `models.Classifier`.
        attention: also return attention weights, if the classifier has attention.
        expect_long: whether texts may be long, see `expect_long_sequences`.
    """

    def __init__(
        self, classifier: keras.Model, attention: bool = False, expect_long: bool = False
    ) -> None:
        super().__init__(classifier, expect_long)
        self.use_attention = attention

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return log probabilities and attention weights, float32.

        `log_probabilities` `(B, K)` are those of the classes; with `multi_label`, `(B, K, 2)`: of
        the absence and of the presence of each class. Attention weights are `tokens` and
        `sentences`, see `models.Classifier`.
        """
        weights: dict[str, Tensor] = {}
        with expect_long_sequences(self.expect_long or expects_long_sequences()):
            if self.use_attention:
                logits, weights = self.model(inputs, training=False, return_attention_scores=True)
            else:
                logits = self.model(inputs, training=False)
        logits = ops.cast(logits, "float32")
        if self.model.multi_label:
            log_probabilities = ops.stack(
                [ops.log_sigmoid(-logits), ops.log_sigmoid(logits)], axis=-1
            )
        else:
            log_probabilities = ops.log_softmax(logits, axis=-1)
        cast = {name: ops.cast(values, "float32") for name, values in weights.items()}
        return {"log_probabilities": log_probabilities, **cast}


def run_classifier(
    inference: BatchedInference,
    classifier: keras.Model,
    encoder: TextEncoder,
    texts: Sequence[EncodedText],
    **options: Any,
) -> Iterator[tuple[int, Arrays]]:
    """Yield row number and `ClassifierInference` outputs of each text.

    Args:
        inference: the inference.
        classifier: a `models.Classifier`.
        encoder: encoder, which adds special tokens; the outputs contain no weights of these.
        texts: the texts.
        **options: `batch_size`, `compiled` and `attention`, see `BatchedInference`.
    """
    full = [one._replace(tokens=encoder.add_special_tokens(one.tokens)) for one in texts]
    shapes = [compute_shape(one, classifier.max_length) for one in full]

    def make_inputs(rows: list[int], shape: PaddedShape) -> Arrays:
        return {"tokens": pad_texts([full[row] for row in rows], shape)}

    for row, outputs in inference.run(classifier, shapes, make_inputs, **options):
        if encoder.has_class_token and "tokens" in outputs:
            outputs["tokens"] = outputs["tokens"][1:]
        yield row, outputs


def compute_shape(text: EncodedText, limit: int | None) -> PaddedShape:
    """Return the padded shape of a text: number of tokens, or of sentences and their tokens."""
    if text.lengths is not None:
        return round_up(len(text.lengths)), round_up(max(text.lengths))
    width = round_up(len(text.tokens))
    return (min(width, limit or width),)


def pad_texts(texts: Sequence[EncodedText], shape: PaddedShape) -> NDArray[np.int32]:
    """Return token ids `(B, P)`, or `(B, L, W)` of documents, padded to a shape."""
    rows = [text.tokens for text in texts]
    if len(shape) == 1:
        return pad_batch(rows, len(rows), *shape)
    lengths = pad_batch([text.lengths or () for text in texts], len(texts), shape[0])
    return pad_sentences(np.concatenate(rows), lengths, shape[1])

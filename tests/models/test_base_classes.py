"""A subclass that defines what a base class documents, and no more, is a complete model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import layers, ops

from attention_zoo import models
from attention_zoo.decoding import StepOutput
from attention_zoo.layers import Attention, AttentionCell, RecurrentDecoder
from attention_zoo.ops import Projection
from tests.layers.running import array

SOURCE = np.array([[4, 9, 5, 0]], "int32")
TARGET = np.array([[2, 5, 6]], "int32")


class WordTagger(models.Tagger):
    """Tags each word without its context."""

    def __init__(
        self,
        vocabulary_size: int,
        tags: list[str],
        embedding_dim: int = 4,
        head: dict[str, Any] | None = None,
        characters: dict[str, Any] | None = None,
        word_dropout: float = 0.0,
        marks: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(models.collect_arguments(locals()))
        self.features = models.WordFeatures(self.settings)
        self.build_head(self.features.width)

    def build_layers(self) -> None:
        self.features.build()

    def encode(self, inputs: Any, mask: Any, training: bool, attention_weights: Any = None) -> Any:
        return self.features(inputs, training=training)


class WordSummarizer(models.CopyingMixin, models.PrebuiltModel):
    """Attends from each target token to the source; without recurrence."""

    def __init__(self, vocabulary_size: int, copies: int = 2, units: int = 4, **kwargs: Any):
        super().__init__(**kwargs)
        self.init_settings(models.collect_arguments(locals()))
        self.embedding = layers.Embedding(vocabulary_size, units)
        self.attention = Attention(score="dot")
        self.vocabulary = layers.Dense(vocabulary_size)
        self.head = self.make_copy_head()
        self.build()

    def build_layers(self) -> None:
        shape = (None, None, self.settings["units"])
        self.embedding.build((None, None))
        self.attention.build(shape, shape)
        self.vocabulary.build(shape)
        self.head.build(shape, shape, shape)

    def decode_teacher_forced(self, source: Any, target: Any, training: bool = False) -> Any:
        x, memory = (self.embedding(self.to_vocabulary_ids(ids)) for ids in (target, source))
        context, weights = self.attention(
            x, memory, value_mask=ops.not_equal(source, 0), return_attention_scores=True
        )
        projection = Projection(context, self.vocabulary.kernel, self.vocabulary.bias)
        return models.DecoderOutput(projection, weights, self.head.gate(context, x, x))

    def start_decoding(self, source: Any, width: int, max_steps: Any) -> models.DecoderStart:
        memory = self.embedding(self.to_vocabulary_ids(source))
        memory = self.attention.prepare(memory, value_mask=ops.not_equal(source, 0))

        def step(tokens: Any, state: Any) -> StepOutput:
            x = self.embedding(self.to_vocabulary_ids(tokens))
            context, weights, _ = self.attention.attend(x, memory)
            return StepOutput(self.vocabulary(context), state, weights, context)

        return models.DecoderStart(step, ops.zeros(ops.shape(source)[0])).mask_special_tokens()


class Pixels(layers.Layer):
    """Image encoder whose grid is the image itself."""

    channels = 3

    def build(self, image_shape: Any) -> None:
        self.built = True

    def call(self, image: Any) -> Any:
        return ops.cast(image, "float32") / 255.0

    def compute_output_shape(self, image_shape: Any) -> Any:
        return image_shape


class PixelCaptioner(models.Captioner, models.EncoderDecoder):
    """Attends to pixels."""

    vocabulary_settings = ("vocabulary_size",)

    def __init__(self, vocabulary_size: int, units: int = 4, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        settings = models.collect_arguments(locals())
        self.encoder = Pixels()
        self.target_embedding = layers.Embedding(vocabulary_size, units)
        cell = AttentionCell(layers.GRUCell(units), Attention(score="additive", units=units))
        self.decoder = RecurrentDecoder(cell)
        self.vocabulary = layers.Dense(vocabulary_size, use_bias=False)
        self.drop = layers.Dropout(0.1)
        self.set_up(settings)

    def build_layers(self) -> None:
        units = self.settings["units"]
        self.encoder.build((None, None, None, 3))
        self.target_embedding.build((None, None))
        self.decoder.build((None, None, units), (None, None, 3), (None, units))
        self.vocabulary.build((None, None, 3))

    def encode(self, source: Any, training: bool) -> models.Encoded:
        grid = self.encoder(source)
        memory = ops.reshape(grid, (ops.shape(grid)[0], -1, 3))
        return models.Encoded(memory, None, None)

    def readout(self, record: Any, embedded: Any, encoded: Any, training: bool) -> Any:
        return self.drop(record["output"], training=training)

    def start_decoding(self, source: Any, width: int, max_steps: Any) -> models.DecoderStart:
        encoded = self.encode(source, False)
        start = self.make_decoder_start(encoded, ops.shape(source)[0])
        return self.make_image_start(source, encoded.memory, start)


def test_tagger() -> None:
    model = WordTagger(10, ["A", "B"])
    potentials = model({"tokens": SOURCE})
    tags, _ = model.decode(potentials)
    assert tuple(tags.shape) == (1, 4)
    loss = model.make_loss()(np.array([[0, 1, 1, -1]]), potentials)
    assert np.isfinite(array(loss))
    assert model.get_config()["tags"] == ["A", "B"]


def test_summarizer() -> None:
    model = WordSummarizer(8)
    inputs = {"source": SOURCE, "target": TARGET}  # token 9 is copied
    log_probs = model(inputs)
    np.testing.assert_allclose(np.exp(array(log_probs)).sum(-1), np.ones((1, 3)), atol=1e-5)
    assert log_probs.shape[-1] == 10
    assert np.isfinite(array(model.make_loss()(TARGET, log_probs)))
    result = model.search(SOURCE, max_length=3)
    assert tuple(result.attention.shape) == (1, 1, 3, 4)


def test_captioner() -> None:
    model = PixelCaptioner(9)
    image = np.arange(24, dtype="uint8").reshape((1, 2, 4, 3))
    assert tuple(model({"image": image, "target": TARGET}).shape) == (1, 3, 9)
    assert model.grid_shape(image) == (2, 4)
    result = model.search(image, max_length=3)
    assert tuple(result.attention.shape) == (1, 1, 3, 8)
    assert model.target_vocabulary_size == 9


class Unfinished(models.EncoderDecoder):
    """Defines nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.set_up({"source_vocabulary_size": 5, "target_vocabulary_size": 5})


def test_missing_methods_are_named() -> None:
    with pytest.raises(TypeError, match="Unfinished does not define `build_layers`"):
        Unfinished()

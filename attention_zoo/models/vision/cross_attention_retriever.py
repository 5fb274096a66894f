"""Image-text retrieval by cross-attention of words and regions (Lee et al. 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import RecurrentEncoder, StackedCrossAttention
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.losses import HardestNegatives
from attention_zoo.models.generation import check_vocabulary_size
from attention_zoo.models.prebuilt import PrebuiltModel, make_token_spec
from attention_zoo.models.presets import (
    Config,
    add_presets,
    check_arguments,
    check_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.vision.image_encoders import (
    check_image,
    complete_encoder_options,
    compute_grid_shape,
    drop_initial_weights,
    encode_image,
    make_encoder,
    make_image_spec,
)
from attention_zoo.typing import Shape, Tensor

ATTENTION_SETTINGS = ("direction", "inverse_temperature", "pooling", "pooling_sharpness")
MAX_BLOCK_WEIGHTS = 2**24
"""Approximate maximum number of word-region weights in memory in blockwise comparison."""


class EncodedTexts(NamedTuple):
    """Encoded texts.

    words: `(N, T, D)`, unit vectors. mask: `(N, T)`, True at words.
    """

    words: Tensor
    mask: Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class CrossAttentionRetriever(PrebuiltModel):
    """Similarity of every image and every text, by cross-attention of words and regions.

    `v_i = norm(W f_i + b)`, `e_j = norm((forward_j + backward_j) / 2)`, `similarity = S(v, e)`

    f are the features at the positions of the encoder's grid. forward and backward are the states
    of a bidirectional GRU over the word embeddings. norm scales a vector to length 1. S is
    `layers.StackedCrossAttention`. Train with `losses.HardestNegatives` (`make_loss()`), through
    `compile` and `fit` or the training loop.

    Args:
        vocabulary_size: V, text tokens, including the 4 special ones.
        embedding_dim: width of the word embeddings.
        units: D, width of the compared vectors.
        encoder: options of the image encoder, as in `ShowAttendTell`.
        direction, inverse_temperature, pooling, pooling_sharpness: as in `StackedCrossAttention`.
        dropout: dropout rate on embeddings and on the grid.
        ranking: options of the loss that `make_loss` returns, see `losses.HardestNegatives`:
            {"margin": 0.2, "sharpness": 20.0}. Training from scratch needs a sharpness.

    Call arguments:
        inputs: `{"image": (B, H, W, 3), "text": (B, T)}`: pixels from 0 to 255, or the encoder's
            feature grids `(B, h, w, C)`, and token ids. Image b and text b are a pair.
        training: enables dropout.

    Returns:
        Similarities `(B, B)`, float32 at least: row i is image i, column j is text j.

    Masking:
        Padding (0) in a text has no effect; a text of padding only has similarity 0.

    Reference:
        Lee et al. 2018, arXiv 1803.08024, sections 3.1 to 3.3. The paper's regions are boxes of an
        object detector (Anderson et al. 2018); with `encoder={"kind": "features", "width": 2048}`
        they can be passed as a grid of one row.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 300,
        units: int = 1024,
        encoder: Config | None = None,
        direction: str = "text_to_image",
        inverse_temperature: float = 9.0,
        pooling: str = "average",
        pooling_sharpness: float = 6.0,
        dropout: float = 0.0,
        ranking: Config | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        encoder = complete_encoder_options(encoder)
        ranking = check_options("ranking", ranking)
        size = collect_arguments(locals())
        check_vocabulary_size("vocabulary_size", vocabulary_size)
        zoo_ops.rate("dropout", dropout)
        check_arguments(HardestNegatives, ranking)
        self.settings = {**size, "encoder": drop_initial_weights(size["encoder"])}
        self.make_loss()  # raises for invalid values
        common: Config = {"dtype": self.dtype_policy}
        self.encoder = make_encoder(encoder, self.dtype_policy)
        self.input_projection = layers.Dense(size["units"], **common)
        self.embedding = layers.Embedding(size["vocabulary_size"], size["embedding_dim"], **common)
        self.text_encoder = RecurrentEncoder("gru", 2 * size["units"], bidirectional=True, **common)
        self.drop_regions, self.drop_words = (Dropout(dropout, **common) for _ in range(2))
        options = {name: size[name] for name in ATTENTION_SETTINGS}
        self.matching = StackedCrossAttention(**options, **common)
        self.build()

    def build_layers(self) -> None:
        image: Shape = (None, None, None, self.encoder.channels)
        vectors_shape = (None, None, self.settings["units"])
        self.encoder.build(image)
        self.input_projection.build(self.encoder.compute_output_shape(image))
        self.embedding.build((None, None))
        self.text_encoder.build((None, None, self.settings["embedding_dim"]))
        self.matching.build(vectors_shape, vectors_shape)

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        return {"image": make_image_spec(self.encoder), "text": make_token_spec("text")}

    # computation

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        regions = self.encode_images(inputs["image"], bool(training))
        words, mask = self.encode_texts(inputs["text"], bool(training))
        return self.matching.similarities(words, regions, mask)

    def encode_images(self, image: Tensor, training: bool = False) -> Tensor:
        """Return the regions `(B, S, D)` of images as unit vectors, row by row of the grid."""
        return self._regions(self._grid(image, training))

    def _grid(self, image: Tensor, training: bool) -> Tensor:
        """Return the encoder's feature grid `(B, h, w, C)`."""
        image = ops.convert_to_tensor(image)
        check_image(image, self.encoder)
        return self.drop_regions(encode_image(self.encoder, image, training), training=training)

    def _regions(self, grid: Tensor) -> Tensor:
        """Flatten and project a grid to unit vectors `(B, S, D)`."""
        batch, height, width, size = ops.shape(grid)
        return _normalize(self.input_projection(ops.reshape(grid, (batch, height * width, size))))

    def encode_texts(self, text: Tensor, training: bool = False) -> EncodedTexts:
        """Return the encoded words of texts `(B, T)` and their mask."""
        text = ops.cast(text, "int32")
        zoo_ops.check_shape("text", text.shape, ("batch", "tokens"))
        mask = ops.not_equal(text, 0)
        embedded = self.drop_words(self.embedding(text), training=training)
        states, _ = self.text_encoder(embedded, mask=mask, training=training)
        forward, backward = ops.split(states, 2, axis=-1)
        return EncodedTexts(_normalize((forward + backward) / 2), mask)

    def similarities(self, images: Tensor, texts: EncodedTexts) -> Tensor:
        """Return the similarities `(I, N)` of I images and N texts, float32 at least.

        They are computed block by block to limit memory, unless shapes are dynamic, as in a graph.

        Args:
            images: output of `encode_images`, `(I, S, D)`.
            texts: output of `encode_texts`.
        """
        words, mask = texts
        if not all(isinstance(size, int) for size in (*images.shape[:2], *words.shape[:2])):
            return self.matching.similarities(words, images, mask)
        weights_per_pair = max(1, images.shape[1] * words.shape[1])
        side = max(1, int((MAX_BLOCK_WEIGHTS / weights_per_pair) ** 0.5))
        rows = []
        for i in _make_block_starts(len(images), side):
            block = images[i : i + side]
            row = [
                self.matching.similarities(words[n : n + side], block, mask[n : n + side])
                for n in _make_block_starts(len(words), side)
            ]
            rows.append(ops.concatenate(row, axis=1))
        return ops.concatenate(rows, axis=0)

    def attention_weights(self, image: Tensor, text: Tensor) -> Tensor:
        """Return attention weights of words over the image of their row, `(B, T, h, w)`.

        With direction "image_to_text", each region attends to the words: entry (t, h,
        w) is the weight of word t for region (h, w).

        Args:
            image: `(B, H, W, 3)`.
            text: `(B, T)`.
        """
        grid = self._grid(image, False)
        weights = self.encoded_attention_weights(self._regions(grid), self.encode_texts(text))
        return ops.reshape(weights, (*ops.shape(weights)[:2], *ops.shape(grid)[1:3]))

    def encoded_attention_weights(self, images: Tensor, texts: EncodedTexts) -> Tensor:
        """Return the attention weights `(B, T, S)` for B encoded images and texts."""
        words, mask = texts
        weights = self.matching(words, images, mask, return_attention_scores=True)[2]
        is_transposed = self.settings["direction"] == "image_to_text"
        return ops.swapaxes(weights, 1, 2) if is_transposed else weights

    def grid_shape(self, image: Any) -> tuple[int, int]:
        """Return height and width of the grid of images or feature grids, or of such a shape."""
        return compute_grid_shape(self.encoder, image)

    # training

    def make_loss(self) -> keras.losses.Loss:
        """Return the training loss; its labels are image numbers `(B,)`."""
        return HardestNegatives(**self.settings["ranking"])


def _normalize(x: Tensor) -> Tensor:
    """Return `x / ||x||` in the dtype of x; 0 where x is 0."""
    return ops.cast(ops.normalize(zoo_ops.at_least_float32(x), axis=-1), x.dtype)


def _make_block_starts(count: int, side: int) -> range:
    """Return the start indices of blocks of `side` items; one block if `count` is 0."""
    return range(0, max(1, count), side)


# config

add_presets(
    CrossAttentionRetriever,
    # The authors' sizes, text to image, average; set `encoder` for detector regions.
    cross_attention_retriever_base=Config(
        embedding_dim=300, units=1024, encoder={"kind": "ResNet101"}
    ),
    # Sizes for small images and a CPU, trained from scratch; not the paper's.
    cross_attention_retriever_small=Config(
        embedding_dim=64, units=128, dropout=0.1, ranking={"sharpness": 20.0}
    ),
)

"""Images and texts that find each other, word by word and region by region (Lee et al. 2018)."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import RecurrentEncoder, StackedCrossAttention
from attention_zoo.losses import HardestNegatives
from attention_zoo.models.image_encoders import (
    check_image,
    encoder_options,
    make_encoder,
    saved_options,
)
from attention_zoo.models.presets import (
    Config,
    PresetMixin,
    check_arguments,
    model,
    options_of,
    plain,
    preset,
)

Tensor = Any
Shape = tuple[Any, ...]

LOOK = ("direction", "inverse_temperature", "pooling", "pooling_sharpness")
BLOCK = 2**24
"""About so many weights of words and regions are in memory at once where blocks are compared."""


class EncodedTexts(NamedTuple):
    """Texts as a retriever compares them.

    words: `(N, T, D)`, each of length 1. mask: `(N, T)`, True where there is a word.
    """

    words: Tensor
    mask: Tensor


@model
@keras.saving.register_keras_serializable("attention_zoo")
class CrossAttentionRetriever(PresetMixin, keras.Model):
    """How well every image and every text match: each word looks for its region of the image.

    `v_i = norm(W f_i + b)`, `e_j = norm((forward_j + backward_j) / 2)`, `similarity = S(v, e)`

    f are the places of the encoder's grid, forward and backward the states of two GRUs that read
    the embedded words from either end, norm brings a vector to length 1, and S is
    `layers.StackedCrossAttention`. Train it by `losses.HardestNegatives` (`make_loss()`), with
    `compile` and `fit` or by the training loop.

    Args:
        vocabulary_size: V, tokens of texts, the 4 special ones included.
        embedding_dim: width of the words' embeddings.
        units: D, width of what is compared.
        encoder: what makes the grid, as in `ShowAttendTell`.
        direction, inverse_temperature, pooling, pooling_sharpness: as in `StackedCrossAttention`.
        dropout: rate on embeddings and on the grid, in training.
        ranking: options of the loss that `make_loss` gives, see `losses.HardestNegatives`:
            {"margin": 0.2, "sharpness": 20.0}. What is learnt from scratch needs a sharpness.

    Call arguments:
        inputs: `{"image": (B, H, W, 3), "text": (B, T)}`, pixels from 0 to 255 and integers. Row b
            of both makes a pair.
        training: switches dropout on.

    Returns:
        Similarities `(B, B)`, float32 at least: row i and column j are of image i and text j.

    Masking:
        Padding (0) in a text changes nothing; a text of nothing else has similarity 0.

    Reference:
        Lee et al. 2018, arXiv 1803.08024, sections 3.1 to 3.3. The paper's regions are boxes that a
        detector found before (Anderson et al. 2018); with `encoder={"kind": "features", "width":
        2048}` they can be given as a grid of one row.
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
        encoder = encoder_options(encoder)
        settings: Config = {
            "vocabulary_size": zoo_ops.whole_number("vocabulary_size", vocabulary_size, 5),
            "embedding_dim": zoo_ops.whole_number("embedding_dim", embedding_dim),
            "units": zoo_ops.whole_number("units", units),
            "encoder": saved_options(encoder),
            "direction": direction,
            "inverse_temperature": inverse_temperature,
            "pooling": pooling,
            "pooling_sharpness": pooling_sharpness,
            "dropout": zoo_ops.rate("dropout", dropout),
            "ranking": options_of("ranking", ranking),
        }
        self.settings = size = plain(settings)
        check_arguments(HardestNegatives, self.settings["ranking"])
        self.make_loss()  # which refuses what is none of its numbers
        own: Config = {"dtype": self.dtype_policy}
        self.encoder = make_encoder(encoder, self.dtype_policy)
        self.enter = layers.Dense(size["units"], **own)
        self.embedding = layers.Embedding(size["vocabulary_size"], size["embedding_dim"], **own)
        self.reader = RecurrentEncoder("gru", 2 * size["units"], bidirectional=True, **own)
        self.drop_places, self.drop_words = (layers.Dropout(dropout, **own) for _ in range(2))
        look = {name: size[name] for name in LOOK}
        self.matching = StackedCrossAttention(**look, **own)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        image: Shape = (None, None, None, self.encoder.channels)
        compared = (None, None, self.settings["units"])
        self.encoder.build(image)
        self.enter.build(self.encoder.compute_output_shape(image))
        self.embedding.build((None, None))
        self.reader.build((None, None, self.settings["embedding_dim"]))
        self.matching.build(compared, compared)
        self.built = True

    # computation

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        regions = self.encode_images(inputs["image"], bool(training))
        words, mask = self.encode_texts(inputs["text"], bool(training))
        return self.matching.similarities(words, regions, mask)

    def encode_images(self, image: Tensor, training: bool = False) -> Tensor:
        """The regions `(B, S, D)` of images, each of length 1, row by row of the grid."""
        return self._regions(self._grid(image, training))

    def _grid(self, image: Tensor, training: bool) -> Tensor:
        """The encoder's places `(B, h, w, C)`."""
        image = ops.convert_to_tensor(image)
        check_image(image, self.encoder.channels)
        return self.drop_places(self.encoder(image, training=training), training=training)

    def _regions(self, grid: Tensor) -> Tensor:
        """Places in a row as they are compared, `(B, S, D)`."""
        batch, height, width, size = ops.shape(grid)
        return _unit(self.enter(ops.reshape(grid, (batch, height * width, size))))

    def encode_texts(self, text: Tensor, training: bool = False) -> EncodedTexts:
        """The words of texts `(B, T)`, and where there are any."""
        text = ops.cast(text, "int32")
        zoo_ops.check_shape("text", text.shape, ("batch", "tokens"))
        mask = ops.not_equal(text, 0)
        embedded = self.drop_words(self.embedding(text), training=training)
        both, _ = self.reader(embedded, mask=mask, training=training)
        forward, backward = ops.split(both, 2, axis=-1)
        return EncodedTexts(_unit((forward + backward) / 2), mask)

    def similarities(self, images: Tensor, texts: EncodedTexts) -> Tensor:
        """How well I images and N texts match, `(I, N)`, float32 at least, block by block.

        Args:
            images: what `encode_images` gave, `(I, S, D)`.
            texts: what `encode_texts` gave.
        """
        words, mask = texts
        places = max(1, int(images.shape[1]) * int(words.shape[1]))
        side = max(1, int((BLOCK / places) ** 0.5))
        rows = [
            ops.concatenate(
                [
                    self.matching.similarities(
                        words[n : n + side], images[i : i + side], mask[n : n + side]
                    )
                    for n in _begins(len(words), side)
                ],
                axis=1,
            )
            for i in _begins(len(images), side)
        ]
        return ops.concatenate(rows, axis=0)

    def look(self, image: Tensor, text: Tensor) -> Tensor:
        """Where each word of a text looks in the image of its row: `(B, T, h, w)`.

        Of a model whose regions look at words, how much each region looks at the word.

        Args:
            image: `(B, H, W, 3)`.
            text: `(B, T)`.
        """
        grid = self._grid(image, False)
        weights = self.looks(self._regions(grid), self.encode_texts(text))
        batch, count = ops.shape(weights)[:2]
        return ops.reshape(weights, (batch, count, *ops.shape(grid)[1:3]))

    def looks(self, images: Tensor, texts: EncodedTexts) -> Tensor:
        """The weights of `look` `(B, T, S)`, of B images and texts that are encoded."""
        words, mask = texts
        weights = self.matching(words, images, mask, return_attention_scores=True)[2]
        turned = self.settings["direction"] == "image_to_text"
        return ops.swapaxes(weights, 1, 2) if turned else weights

    def grid_shape(self, image: Any) -> tuple[int, int]:
        """Height and width of the grid of images `(B, H, W, 3)`, or of such a shape."""
        shape = tuple(getattr(image, "shape", image))
        height, width = self.encoder.compute_output_shape(shape)[1:3]
        return height, width

    # training

    def make_loss(self) -> keras.losses.Loss:
        """What it trains by: the numbers of the images, `(B,)`."""
        return HardestNegatives(**self.settings["ranking"])


def _unit(x: Tensor) -> Tensor:
    """`x / ||x||` in the type of x; 0 where x is 0."""
    return ops.cast(ops.normalize(zoo_ops.at_least_float32(x), axis=-1), x.dtype)


def _begins(count: int, side: int) -> range:
    """Where blocks of so many begin; there is one even of nothing."""
    return range(0, max(1, count), side)


# config


@preset(CrossAttentionRetriever, "cross_attention_retriever_base")
def cross_attention_retriever_base() -> Config:
    """The authors' sizes, text to image and average; for regions of a detector, give `encoder`."""
    return {"embedding_dim": 300, "units": 1024, "encoder": {"kind": "ResNet101"}}


@preset(CrossAttentionRetriever, "cross_attention_retriever_small")
def cross_attention_retriever_small() -> Config:
    """Sizes for small images and a CPU, all learnt from scratch; not the paper's."""
    return {"embedding_dim": 64, "units": 128, "dropout": 0.1, "ranking": {"sharpness": 20.0}}

"""Base class of tasks on images and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress
from typing import Any, ClassVar

import keras
import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import CaptionedImages, ImageTextBatches, Tokenizer
from attention_zoo.data.progress import log_progress
from attention_zoo.decoding import SearchOptions
from attention_zoo.metrics import mass_in_boxes
from attention_zoo.models.vision.image_encoders import count_features
from attention_zoo.registry import Registry
from attention_zoo.tasks.building import build_task, check_model, check_vocabulary_size
from attention_zoo.tasks.caption_corpora import CAPTIONED_IMAGES
from attention_zoo.tasks.encoding import EncodedPart, load_or_encode
from attention_zoo.tasks.image_features import load_or_compute_features
from attention_zoo.tasks.images import ImageTask
from attention_zoo.tasks.text_inputs import PART

Tokens = list[int]
CHANNELS = 3


class ImageTextTask(ImageTask):
    """Base class of tasks on images and texts: a model and its tokenizer.

    Args:
        model: a model with a `grid_shape` method and the tokenizer's vocabulary size.
        tokenizer: `data.Tokenizer`.
        search: default search options of `predict`.
        image_size: every image is resized to a square with this side, in pixels.
        max_target_length: maximum number of tokens of a text, including the end token if the model
            generates it.

    Raises:
        ValueError: if the model is of another class, its vocabulary size is not the tokenizer's, or
            its encoder does not take RGB images of `image_size`.
    """

    corpora: ClassVar[Registry] = CAPTIONED_IMAGES
    limits: ClassVar[tuple[str, ...]] = ("image_size", "max_target_length")
    tokenizer_kind: ClassVar[str] = "word"
    batch_class: ClassVar[type[ImageTextBatches]] = ImageTextBatches
    num_end_tokens: ClassVar[int] = 0
    """Number of special tokens that count toward `max_target_length`."""
    model_class: ClassVar[Any]
    """Required model class."""
    model_example: ClassVar[str] = ""
    """Example of it for an error message."""

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchOptions | None = None,
        image_size: int = 224,
        max_target_length: int = 40,
    ) -> None:
        check_model(model, self.model_class, self.model_example)
        self.model: Any = model
        check_vocabulary_size(tokenizer, self.model.settings["vocabulary_size"])
        channels = self.model.encoder.channels
        if channels != CHANNELS:
            raise ValueError(
                f"the model's encoder takes grids of {channels} features, but images have"
                f" {CHANNELS} channels; train the model with `fit` on such grids, or use another"
                " encoder"
            )
        self.tokenizer = tokenizer
        self.search = search or SearchOptions()
        self.image_size = image_size
        self.max_target_length = max_target_length
        self._check_limits()

    def _check_limits(self) -> None:
        """Raise ValueError if the encoder does not take images of `image_size`."""
        self.model.grid_shape((1, self.image_size, self.image_size, 3))

    def set_options(self, **options: Any) -> None:
        """Set search options and limits; see `Task.set_options`."""
        before = self.options
        super().set_options(**options)
        if self.options != before:
            self._check_limits()

    @classmethod
    def from_recipe(cls, recipe: Any, train: CaptionedImages) -> Any:
        """Build the model and train its tokenizer on the captions."""
        return build_task(cls, recipe, train, "captions")

    # Training.

    def make_batches(
        self, examples: CaptionedImages, batch_size: int, seed: int
    ) -> ImageTextBatches:
        """Return batches of image-caption pairs; captions over the limit are dropped.

        Raises:
            ValueError: if no caption is left.
        """
        return self._make_batches(examples, examples.images, batch_size, seed)

    def make_feature_batches(
        self, examples: CaptionedImages, batch_size: int, seed: int
    ) -> ImageTextBatches:
        """Return the batches of `make_batches` with the encoder's feature grids in place of images.

        Raises:
            ValueError: the encoder has trainable weights or no more features than images have
                channels, the decoder attends to a class token, or no caption is left.
        """
        if self.model.encoder.trainable_variables:
            raise ValueError(
                "training.cache_features requires a frozen image encoder; set"
                " training.frozen=[encoder] or training.cache_features=false"
            )
        if count_features(self.model.encoder) == CHANNELS:
            raise ValueError(
                f"training.cache_features: the encoder has {CHANNELS} features, so that its grids"
                " would be mistaken for images; set training.cache_features=false"
            )
        if getattr(self.model, "has_class_token", False):
            raise ValueError(
                "training.cache_features: the decoder attends to the class token, which is not in"
                " the feature grid; set training.cache_features=false"
            )
        features = load_or_compute_features(self.model, examples)
        return self._make_batches(examples, features, batch_size, seed)

    def _make_batches(
        self, examples: CaptionedImages, images: Any, batch_size: int, seed: int
    ) -> ImageTextBatches:
        """Return batches of the captions with `images`, which may be feature grids."""
        encoded = load_or_encode(self, examples, self._encode_captions)
        rows = encoded.rows
        if not len(rows):
            raise ValueError(
                f"{examples.origin}: every caption has more tokens than the limit"
                f" max_target_length={self.max_target_length}. Raise data.max_target_length."
            )
        texts = encoded["captions"]
        return self.batch_class(images, texts, rows, batch_size, seed, numbers=rows + 1)

    def filter_by_length(self, examples: CaptionedImages) -> CaptionedImages:
        """Return the images with a caption within the limit, each with all its captions."""
        rows = load_or_encode(self, examples, self._encode_captions).rows
        return examples.take(np.unique(rows).tolist())

    @property
    def encoding_options(self) -> dict[str, Any]:
        """Options that, with the tokenizer, determine the token ids of a corpus."""
        return {"max_target_length": self.max_target_length}

    def _encode_captions(self, examples: CaptionedImages, rows: range) -> Iterator[EncodedPart]:
        """Yield image rows and token ids of the captions within the limit, in parts."""
        limit = self.max_target_length - self.num_end_tokens
        starts = range(rows.start, rows.stop, PART)
        for begin in log_progress(starts, "encoding", "images", PART):
            part = examples.captions[begin : min(begin + PART, rows.stop)]
            image_rows = [row for row, texts in enumerate(part, begin) for _ in texts]
            encoded = self.tokenizer.encode([*chain.from_iterable(part)])
            fits = [0 < len(ids) <= limit for ids in encoded]
            yield list(compress(image_rows, fits)), {"captions": list(compress(encoded, fits))}


def flatten_captions(examples: CaptionedImages) -> tuple[list[int], list[str]]:
    """Return the image row of each caption, and all captions, in order."""
    pairs = [(row, text) for row, texts in enumerate(examples.captions) for text in texts]
    return [row for row, _ in pairs], [text for _, text in pairs]


def score_boxes(
    attention: Sequence[NDArray[np.floating]], words: Sequence[Sequence[str]], boxes: Sequence[Any]
) -> dict[str, float]:
    """Compute the mean attention mass inside the boxes of the objects that words name.

    Returns:
        `mass_in_boxes`, and `area_of_boxes`, the same for uniform attention; nothing if no word
        names an object with a box.
    """
    inside = mass_in_boxes(attention, words, boxes)
    return {"mass_in_boxes": inside.mass, "area_of_boxes": inside.area} if inside.words else {}

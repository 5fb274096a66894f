"""Captioners with fixed random weights."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

from attention_zoo import models
from attention_zoo.data import CaptionedImages, train_tokenizer
from attention_zoo.tasks import Captioning

KNOWN = ["a Dog runs .", "two dogs run in the park", "a red ball"]
SIDE = 12
"""Side of the resized images in pixels; their grids are 3 x 3."""

SIZES: dict[str, dict[str, Any]] = {
    "show_attend_tell_small": {"units": 8, "attention_units": 6},
    "caption_transformer_small": {"units": 8, "num_heads": 2, "num_layers": 1},
}


def with_normal_weights(model: Any) -> Any:
    for seed, weight in enumerate(model.trainable_weights):
        weight.assign(np.random.default_rng(seed).normal(size=weight.shape).astype("float32"))
    return model


def make_untrained_task(
    preset: str = "show_attend_tell_small", attention: str = "soft", **task: Any
) -> Captioning:
    """Return a captioner with the vocabulary of `KNOWN` and normal random weights."""
    tokenizer = train_tokenizer("whitespace", KNOWN, 60, lowercase=True)
    sizes = {"embedding_dim": 8, "encoder": {"kind": "cnn", "filters": [4, 6]}, **SIZES[preset]}
    if preset.startswith("show"):
        sizes["attention"] = {"kind": attention}
    model = models.from_preset(preset, vocabulary_size=tokenizer.vocabulary_size, **sizes)
    model = with_normal_weights(model)
    return Captioning(model, tokenizer, **{"image_size": SIDE, "max_target_length": 8, **task})


def picture(seed: int, height: int = 20, width: int = 15) -> np.ndarray:
    """Return an image of coarse patches with random colours, `(height, width, 3)`."""
    patches = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    return np.asarray(Image.fromarray(patches).resize((width, height), Image.Resampling.NEAREST))


def encoded(image: np.ndarray, kind: str = "PNG", **options: Any) -> bytes:
    """Return the image as an encoded file; greyscale if it has one channel."""
    file = io.BytesIO()
    Image.fromarray(image.squeeze()).save(file, kind, **options)
    return file.getvalue()


def captioned(count: int = 4, side: int = SIDE, **parts: Any) -> CaptionedImages:
    """Return images that have all captions of `KNOWN`."""
    images = np.stack([picture(seed, side, side) for seed in range(count)])
    names = [f"{row}.png" for row in range(count)]
    fields = {"captions": [tuple(KNOWN)] * count, "names": names, "origin": "test images", **parts}
    return CaptionedImages(images, **fields)

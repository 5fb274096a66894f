"""Data of an attention page: types, validation and JSON encoding."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attention_zoo.inspection.labels import find_gaps, is_special, strip_prefix

LEVELS = 255
"""Number of steps from 0 to the largest weight in the encoded weights."""

# Control characters, line separators, bidirectional controls (they would reorder the tokens around
# them) and surrogates. Joiners stay: Arabic and Indic scripts need them.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class AttentionMap(NamedTuple):
    """The attention weights of one layer for one example.

    Attributes:
        name: path of the layer.
        weights: `(H, T, S)`, finite and at least 0.
        targets: the T tokens that attend (queries).
        sources: the S tokens that they attend to; in self-attention, the targets.
    """

    name: str
    weights: ArrayLike
    targets: Sequence[str]
    sources: Sequence[str]


class TokenAttribution(NamedTuple):
    """The attribution scores of the tokens of one text by one method.

    Attributes:
        name: the method.
        tokens: the T tokens.
        scores: `(T,)`, finite, of either sign.
    """

    name: str
    tokens: Sequence[str]
    scores: ArrayLike


class ImageOverlay(NamedTuple):
    """The attention weights of output tokens over an image.

    Attributes:
        image: `(H, W, 3)`, uint8.
        tokens: the T output tokens.
        weights: `(T, rows, columns)` over a grid that covers the image, finite and at least 0.
    """

    image: ArrayLike
    tokens: Sequence[str]
    weights: ArrayLike


def check_maps(maps: Sequence[AttentionMap]) -> list[NDArray[Any]]:
    """Return the weights of each layer as an array; raise ValueError if they are invalid."""
    arrays = []
    for name, weights, targets, sources in maps:
        array = np.asarray(weights, "float64")
        if array.shape[1:] != (len(targets), len(sources)) or not array.size:
            raise ValueError(
                f"weights of layer {name!r} must be (H, {len(targets)}, {len(sources)}) for "
                f"{len(targets)} targets and {len(sources)} sources, got shape {array.shape}"
            )
        check_nonnegative(f"weights of layer {name!r}", array)
        arrays.append(array)
    return arrays


def check_attributions(attributions: Sequence[TokenAttribution]) -> list[NDArray[Any]]:
    """Return the scores of each method as an array; raise ValueError if they are invalid."""
    arrays = []
    for name, tokens, scores in attributions:
        array = np.asarray(scores, "float64")
        if array.shape != (len(tokens),) or not array.size:
            raise ValueError(
                f"scores of attribution {name!r} must be ({len(tokens)},) for {len(tokens)} tokens,"
                f" got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            wrong = array[~np.isfinite(array)][0]
            raise ValueError(f"scores of attribution {name!r} must be finite, got {wrong}")
        arrays.append(array)
    return arrays


def check_overlays(overlays: Sequence[ImageOverlay]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return image and weights of each overlay as arrays; raise ValueError if they are invalid."""
    arrays = []
    for number, (image, tokens, weights) in enumerate(overlays, 1):
        pixels, array = np.asarray(image), np.asarray(weights, "float64")
        if pixels.ndim != 3 or pixels.shape[-1] != 3 or not pixels.size or pixels.dtype != "uint8":
            raise ValueError(
                f"image {number} must be (H, W, 3) of dtype uint8, got shape {pixels.shape} of "
                f"dtype {pixels.dtype}"
            )
        if array.ndim != 3 or len(array) != len(tokens) or not array.size:
            raise ValueError(
                f"weights of image {number} must be ({len(tokens)}, rows, columns) for "
                f"{len(tokens)} tokens, got shape {array.shape}"
            )
        check_nonnegative(f"weights of image {number}", array)
        arrays.append((pixels, array))
    return arrays


def check_hypotheses(hypotheses: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the hypotheses with their scores as numbers; raise ValueError if one is NaN."""
    checked = [(text, float(score)) for text, score in hypotheses]
    for number, (_, score) in enumerate(checked, 1):
        if np.isnan(score):
            raise ValueError(f"score of hypothesis {number} must be a number, got {score}")
    return checked


def check_nonnegative(name: str, weights: NDArray[Any]) -> None:
    """Raise ValueError if a weight is negative or not finite."""
    is_valid = np.isfinite(weights) & (weights >= 0)
    if not is_valid.all():
        raise ValueError(f"{name} must be finite and at least 0, got {weights[~is_valid][0]}")


def encode_data(
    maps: Sequence[AttentionMap],
    arrays: Sequence[NDArray[Any]],
    overlays: Sequence[ImageOverlay],
    grids: Sequence[NDArray[Any]],
) -> str:
    """Return the data of the page's script as JSON that is safe inside a script element.

    Weights are bytes in base64: the weight times 255 / the largest weight of its head (of an
    overlay: of all words), rounded. The rounding error is at most half of 1/255 of that largest
    weight. Texts that occur several times are stored once.

    Args:
        maps: the layers.
        arrays: their checked weights.
        overlays: the images.
        grids: their checked weights.
    """
    texts: dict[tuple[str, ...], int] = {}

    def find_text(tokens: Sequence[str]) -> int:
        return texts.setdefault(tuple(map(str, tokens)), len(texts))

    layers = [
        {
            "name": clean_label(one.name),
            "targets": find_text(one.targets),
            "sources": find_text(one.sources),
            "largest": (largest := weights.max(axis=(1, 2))).tolist(),
            "weights": _encode(weights, largest[:, None, None]),
        }
        for one, weights in zip(maps, arrays, strict=True)
    ]
    images = [
        {
            "text": find_text(one.tokens),
            "rows": weights.shape[1],
            "columns": weights.shape[2],
            "largest": float(weights.max()),
            "weights": _encode(weights, weights.max()),
        }
        for one, weights in zip(overlays, grids, strict=True)
    ]
    data = {"texts": list(map(_describe_text, texts)), "layers": layers, "images": images}
    # ASCII only, so that U+2028 is an escape sequence; without `<`, no `</script>` ends the data.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def clean_label(text: str) -> str:
    """Replace characters that are invisible or change the order of others by U+FFFD."""
    return _HIDDEN.sub("\ufffd", text)


def label_token(token: str) -> str:
    """Return the label of a token: without the tokenizer's prefix, and never empty."""
    return clean_label(strip_prefix(token)) or "▁"


def _describe_text(tokens: Sequence[str]) -> dict[str, Any]:
    """Return the labels of tokens, which follow a space, and which are special tokens."""
    return {
        "labels": list(map(label_token, tokens)),
        "gaps": list(map(int, find_gaps(tokens))),
        "special": [int(is_special(token)) for token in tokens],
    }


def _encode(weights: NDArray[Any], largest: NDArray[Any]) -> str:
    """Return the weights as bytes in base64, 255 for the largest weight."""
    shares = weights / np.where(largest > 0, largest, 1)
    return base64.b64encode(np.rint(LEVELS * shares).astype("uint8").tobytes()).decode()

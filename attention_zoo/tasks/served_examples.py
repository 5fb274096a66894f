"""Examples of a corpus as inputs of an exported model, in the JSON of its server."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.examples import Examples
from attention_zoo.tasks.inputs import Input

COLUMNS = {
    "text": ("sources", "texts", "words", "captions"),
    "document": ("texts",),
    "text_pair": ("firsts", "seconds"),
    "image": ("images",),
    "image_index": ("images",),
}
"""Columns of examples that can hold inputs of a kind; a pair has two."""


def format_examples(inputs: Sequence[Input], examples: Any) -> list[dict[str, Any]]:
    """Return examples as inputs of the default signature of an export.

    Args:
        inputs: the inputs of the task.
        examples: the examples.

    Returns:
        For each example, the values by input name: a string for a text, `{"b64": ...}` for an
        image. Empty if the examples lack a column for an input.
    """
    columns: dict[str, list[Any]] = {}
    for one in inputs:
        known = examples.columns if isinstance(examples, Examples) else ()
        found = [name for name in COLUMNS[one.kind] if name in known]
        if not found:
            return []
        if one.kind == "text_pair":
            columns |= {"first": list(examples.firsts), "second": list(examples.seconds)}
        elif one.kind in ("image", "image_index"):
            columns["image"] = [_encode_image(image) for image in examples.images]
        else:
            columns["text"] = [_join_text(found[0], text) for text in getattr(examples, found[0])]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _join_text(column: str, value: Any) -> str:
    """Return a text, the words of a sentence, or the first of several captions as a string."""
    if isinstance(value, str):
        return value
    return " ".join(value) if column == "words" else str(value[0])


def _encode_image(image: NDArray[np.uint8]) -> dict[str, str]:
    """Return an image `(H, W, C)` as a PNG file."""
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(content, "PNG")
    return {"b64": base64.b64encode(content.getvalue()).decode()}

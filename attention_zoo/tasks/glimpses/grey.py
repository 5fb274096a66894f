"""Conversion of colour images to grey."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LUMINANCE = (299, 587, 114)
"""Weights of red, green and blue (ITU-R BT.601) in thousandths; integer sums are exact."""


def to_grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert an image `(..., 3)` to grey `(..., 1)`."""
    light = image @ np.array(LUMINANCE)
    return np.rint(light / sum(LUMINANCE))[..., None].astype(np.uint8)

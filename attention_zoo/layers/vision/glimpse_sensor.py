"""Glimpse sensor: image patches of decreasing resolution around a location."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class GlimpseSensor(BaseLayer):
    """Glimpse sensor: square patches of an image, each twice as wide as the previous one.

    `glimpse_s = pool(patch of side g 2^s around the location)`, s = 0 .. scales - 1, where pool is
    the mean over blocks of `2^s` by `2^s` pixels

    All patches are pooled to g by g. Pixels outside the image are 0. Between pixels, the image is
    interpolated bilinearly, so the output has a gradient with respect to the location. Apply
    `ops.stop_gradient` to the location to disable it.

    Args:
        size: g, side in pixels of the smallest patch and of every pooled patch.
        scales: number of patches.

    Call arguments:
        images: `(B, H, W, C)`, integers or floats.
        locations: `(B, 2)`, centre of the patches as (vertical, horizontal): (0, 0) is the middle
            of the image, (-1, -1) its upper left corner, (1, 1) its lower right corner.

    Returns:
        `(B, scales, g, g, C)`, the smallest patch first, in the compute dtype.

    Weights:
        None.

    Masking:
        None: images have no padding.

    Cost:
        O(scales g W C (H + g)) time per image, in two matrix products.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import GlimpseSensor
        >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
        >>> glimpse = GlimpseSensor(2, scales=2)(image, np.zeros((1, 2)))
        >>> np.array(glimpse)[0, :, :, :, 0].tolist()
        [[[5.0, 6.0], [9.0, 10.0]], [[2.5, 4.5], [10.5, 12.5]]]

    Reference:
        Mnih et al. 2014, arXiv 1406.6247, section 3.1, "Glimpse sensor": rho(x_t, l_{t-1}), where
        g_w is g and k is scales. The paper specifies neither the pooling nor the interpolation.
    """

    def __init__(self, size: int, scales: int = 1, **kwargs: Any) -> None:
        # No autocast: in half precision, a location would be off by a pixel.
        super().__init__(**{"autocast": False, **kwargs})
        self.size = zoo_ops.whole_number("size", size)
        self.scales = zoo_ops.whole_number("scales", scales)

    def build(self, images_shape: Shape, locations_shape: Shape) -> None:
        _check(images_shape, locations_shape)

    def call(self, images: Tensor, locations: Tensor) -> Tensor:
        _check(images.shape, locations.shape)
        height, width = ops.shape(images)[1:3]
        images = ops.cast(images, self.compute_dtype)
        rows = ops.einsum(
            "bsih,bhwc->bsiwc", self._pooling_weights(locations[:, 0], height), images
        )
        return ops.einsum("bsjw,bsiwc->bsijc", self._pooling_weights(locations[:, 1], width), rows)

    def _pooling_weights(self, centres: Tensor, length: Any) -> Tensor:
        """Compute pooling weights along one axis of the image, `(B, scales, g, length)`.

        A block of n pixels that starts at a gives each pixel the weight 1 / n, and the pixels at
        both ends a smaller one if a is not an integer.
        """
        centres = zoo_ops.at_least_float32(centres)
        dtype = centres.dtype
        widths = ops.cast([[2.0**scale] for scale in range(self.scales)], dtype)
        blocks = ops.cast(ops.arange(self.size), dtype) - self.size / 2
        middles = (centres + 1) * ops.cast(length, dtype) / 2
        starts = (middles[:, None, None] + widths * blocks)[..., None]
        pixels, widths = ops.cast(ops.arange(length), dtype), widths[..., None]
        overlap = ops.minimum(pixels - starts + 1, starts + widths - pixels)
        return ops.cast(ops.clip(overlap, 0.0, 1.0) / widths, self.compute_dtype)

    def compute_output_shape(self, images_shape: Shape, locations_shape: Shape) -> Shape:
        return (images_shape[0], self.scales, self.size, self.size, images_shape[-1])


def _check(images: Shape, locations: Shape) -> None:
    """Raise ValueError unless the shapes are those of images and of one location per image."""
    zoo_ops.check_shape("images", images, ("batch", "height", "width", "channels"))
    zoo_ops.check_shape("locations", locations, (*zoo_ops.sizes_or(("batch",), images[:1]), 2))

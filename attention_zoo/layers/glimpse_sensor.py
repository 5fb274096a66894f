"""A retina: sharp in the middle of what it looks at, coarse around it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops

Tensor = Any
Shape = tuple[Any, ...]


@keras.saving.register_keras_serializable("attention_zoo")
class GlimpseSensor(keras.layers.Layer):
    """Square patches around a place of an image, each twice as wide as the one before.

    `seen_s = pool(patch of side g 2^s around the location)`, pool the mean of blocks of `2^s` by
    `2^s` pixels, s = 0 .. scales - 1

    All patches are g by g in the end. What lies outside of the image is 0. A location between
    pixels reads between them (bilinear), so that what is seen has a gradient by the location;
    `ops.stop_gradient` of the location cuts it, where it is not wanted.

    Args:
        size: g, the side of the smallest patch in pixels, and of every patch in what is seen.
        scales: how many patches.

    Call arguments:
        images: `(B, H, W, C)`, integers or floats.
        locations: `(B, 2)`, of the centre, downwards and to the right: (0, 0) is the middle of the
            image, (-1, -1) its upper left corner, (1, 1) its lower right one.

    Returns:
        `(B, scales, g, g, C)`, the smallest patch first, in the policy's dtype.

    Weights:
        None.

    Masking:
        None: an image is all there.

    Cost:
        O(scales g H C (W + g)) time a row in two products of matrices.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import GlimpseSensor
        >>> image = np.arange(16.0).reshape(1, 4, 4, 1)
        >>> seen = GlimpseSensor(2, scales=2)(image, np.zeros((1, 2)))
        >>> np.array(seen)[0, :, :, :, 0].tolist()
        [[[5.0, 6.0], [9.0, 10.0]], [[2.5, 4.5], [10.5, 12.5]]]

    Reference:
        Mnih et al. 2014, arXiv 1406.6247, section 3.1, "Glimpse sensor": rho(x_t, l_{t-1}), whose
        g_w is g and whose k is scales. How patches are made smaller, and what lies between pixels,
        it does not say.
    """

    def __init__(self, size: int, scales: int = 1, **kwargs: Any) -> None:
        # In half precision a location would be a pixel off.
        super().__init__(**{"autocast": False, **kwargs})
        self.size = zoo_ops.whole_number("size", size)
        self.scales = zoo_ops.whole_number("scales", scales)

    def build(self, images_shape: Shape, locations_shape: Shape) -> None:
        _check(images_shape, locations_shape)
        self.built = True

    def call(self, images: Tensor, locations: Tensor) -> Tensor:
        _check(images.shape, locations.shape)
        height, width = ops.shape(images)[1:3]
        images = ops.cast(images, self.compute_dtype)
        rows = ops.einsum("bsih,bhwc->bsiwc", self._shares(locations[:, 0], height), images)
        return ops.einsum("bsjw,bsiwc->bsijc", self._shares(locations[:, 1], width), rows)

    def _shares(self, centres: Tensor, length: Any) -> Tensor:
        """What each pixel of an axis gives to each of what is seen, `(B, scales, g, length)`.

        A block of n pixels that begins at a gives 1 / n to each of them, less at both ends where
        a is no whole number.
        """
        centres = zoo_ops.at_least_float32(centres)
        dtype = centres.dtype
        wide = ops.cast([[2.0**scale] for scale in range(self.scales)], dtype)
        blocks = ops.cast(ops.arange(self.size), dtype) - self.size / 2
        middles = (centres + 1) * ops.cast(length, dtype) / 2
        starts = (middles[:, None, None] + wide * blocks)[..., None]
        places, wide = ops.cast(ops.arange(length), dtype), wide[..., None]
        inside = ops.minimum(places - starts + 1, starts + wide - places)
        return ops.cast(ops.clip(inside, 0.0, 1.0) / wide, self.compute_dtype)

    def compute_output_shape(self, images_shape: Shape, locations_shape: Shape) -> Shape:
        return (images_shape[0], self.scales, self.size, self.size, images_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "size": self.size, "scales": self.scales}


def _check(images: Shape, locations: Shape) -> None:
    """ValueError for tensors that are no images and a place in each."""
    zoo_ops.check_shape("images", images, ("batch", "height", "width", "channels"))
    zoo_ops.check_shape("locations", locations, (*zoo_ops.sizes_or(("batch",), images[:1]), 2))

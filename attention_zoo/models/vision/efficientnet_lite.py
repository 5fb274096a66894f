"""EfficientNet-Lite (Tan and Le 2019, without squeeze-and-excitation), an image encoder."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo.models.vision.image_encoders import (
    IMAGE_ENCODERS,
    copy_weights,
    load_encoder,
)
from attention_zoo.ops import finite_number, pad_empty_batch
from attention_zoo.typing import Shape, Tensor

STEM_WIDTH, HEAD_WIDTH = 32, 1280
"""Widths of the stem and of the head, which `width_coefficient` does not scale."""


class Stage(NamedTuple):
    """A row of table 1 of the paper: `repeats` blocks; all but the first have stride 1."""

    repeats: int
    kernel_size: int
    stride: int
    expansion: int
    width: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


@IMAGE_ENCODERS.register("efficientnet_lite")
class EfficientNetLite(layers.Layer):
    """EfficientNet-Lite: a CNN of inverted residual blocks with depthwise convolutions.

    A block is a 1 x 1 convolution to `expansion` times its width, a depthwise convolution, and a
    1 x 1 convolution; its input is added if the shapes are equal. All convolutions are followed by
    batch normalization and, except for the last one of a block, by ReLU6.

    | name | `width_coefficient` | `depth_coefficient` | image size |
    |---|---|---|---|
    | lite0 | 1.0 | 1.0 | 224 |
    | lite1 | 1.0 | 1.1 | 240 |
    | lite2 | 1.1 | 1.2 | 260 |
    | lite3 | 1.2 | 1.4 | 280 |
    | lite4 | 1.4 | 1.8 | 300 |

    Args:
        width_coefficient: factor of the widths of all blocks, which are rounded to multiples of 8.
        depth_coefficient: factor of the numbers of blocks, which are rounded up, of all stages but
            the first and the last.
        use_head: whether to include the 1 x 1 convolution to 1280 features that precedes the
            classifier.
        weights: initial weights: a public checkpoint (see `models.public.efficientnet_lite`); or a
            run, an entry of the zoo or the folder of a model with such an encoder; or the address
            `hf://owner/name` of one of these. Its coefficients must equal those given here. None
            for random weights.

    Call arguments:
        image: `(B, H, W, 3)`, 0 to 255.
        training: whether batch normalization uses the statistics of the batch and updates its
            moving averages; it does not if the encoder is frozen.

    Returns:
        `(B, ceil(H / 32), ceil(W / 32), C)`, where C is 1280 with the head, or else the width
        of the last block, 320 for a coefficient of 1.

    Raises:
        ValueError: a coefficient is not a finite number above 0; or `weights` cannot be loaded, has
            other coefficients, or has no head where there is one here.

    Reference:
        Tan and Le 2019, arXiv 1905.11946, table 1 and equation 3. The Lite variants are those of
        github.com/tensorflow/tpu (models/official/efficientnet/lite): without
        squeeze-and-excitation, with ReLU6 in place of swish, pixels `(x - 127) / 128`.
    """

    channels = 3

    def __init__(
        self,
        width_coefficient: float = 1.0,
        depth_coefficient: float = 1.0,
        use_head: bool = True,
        weights: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.structure = {
            "width_coefficient": finite_number("width_coefficient", width_coefficient, 0.0),
            "depth_coefficient": finite_number("depth_coefficient", depth_coefficient, 0.0),
        }
        self.initial_weights = weights
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.stem = ConvolutionWithNorm(STEM_WIDTH, 3, 2, **common)
        self.blocks = []
        for number, stage in enumerate(STAGES):
            is_scaled = 0 < number < len(STAGES) - 1
            repeats = math.ceil(stage.repeats * depth_coefficient) if is_scaled else stage.repeats
            width = _round_width(stage.width * width_coefficient)
            for index in range(repeats):
                stride = 1 if index else stage.stride
                options = stage.kernel_size, stride, stage.expansion
                self.blocks.append(InvertedResidual(width, *options, **common))
        self.head: Any = ConvolutionWithNorm(HEAD_WIDTH, 1, 1, **common) if use_head else None
        self.width = HEAD_WIDTH if use_head else width

    def get_parts(self) -> list[Any]:
        """Return the layers in the order of the computation."""
        return [self.stem, *self.blocks, *([] if self.head is None else [self.head])]

    def build(self, image_shape: Shape) -> None:
        shape: Shape = (None, None, None, image_shape[-1])
        for part in self.get_parts():
            part.build(shape)
            shape = part.compute_output_shape(shape)
        if self.initial_weights is not None:
            self._load_weights(self.initial_weights)
        self.built = True

    def _load_weights(self, source: str) -> None:
        """Copy the weights of a pretrained encoder; without a head here, its head is ignored."""
        pretrained = load_encoder(source, self, "efficientnet_lite")
        if self.head is not None and pretrained.head is None:
            raise ValueError(
                f"encoder.weights: {source}: its encoder has no head, but encoder.use_head is true;"
                " set encoder.use_head=false"
            )
        for part, other in zip(self.get_parts(), pretrained.get_parts(), strict=False):
            copy_weights(other, part)

    def call(self, image: Tensor, training: bool = False) -> Tensor:
        x = (ops.cast(pad_empty_batch(image), "float32") - 127) / 128
        x = ops.cast(x, self.compute_dtype)
        for part in self.get_parts():
            x = part(x, training=training)
        return x[: ops.shape(image)[0]]

    def compute_output_shape(self, image_shape: Shape) -> Shape:
        sides = [None if side is None else -(-side // 32) for side in image_shape[1:3]]
        return (image_shape[0], *sides, self.width)


class InvertedResidual(layers.Layer):
    """Inverted residual block: `y = x + project(depthwise(expand(x)))`.

    x is added only if y has the same shape.

    Args:
        width: number of output features.
        kernel_size: side of the depthwise kernel.
        stride: stride of the depthwise convolution.
        expansion: factor of the width inside the block; 1 for no expansion.

    Call arguments:
        x: `(B, H, W, C)`.

    Returns:
        `(B, ceil(H / stride), ceil(W / stride), width)`.
    """

    def __init__(
        self, width: int, kernel_size: int, stride: int, expansion: int, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.width, self.expansion, self.stride = width, expansion, stride
        self.kernel_size = kernel_size

    def build(self, shape: Shape) -> None:
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        inner = shape[-1] * self.expansion
        expand = [ConvolutionWithNorm(inner, 1, 1, **common)] if self.expansion > 1 else []
        depthwise = ConvolutionWithNorm(None, self.kernel_size, self.stride, **common)
        project = ConvolutionWithNorm(self.width, 1, 1, use_activation=False, **common)
        self.convolutions = [*expand, depthwise, project]
        self.is_residual = self.stride == 1 and shape[-1] == self.width
        for convolution in self.convolutions:
            convolution.build(shape)
            shape = convolution.compute_output_shape(shape)
        self.built = True

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        hidden = x
        for convolution in self.convolutions:
            hidden = convolution(hidden, training=training)
        return hidden + x if self.is_residual else hidden

    def compute_output_shape(self, shape: Shape) -> Shape:
        sides = [None if side is None else -(-side // self.stride) for side in shape[1:3]]
        return (shape[0], *sides, self.width)


class ConvolutionWithNorm(layers.Layer):
    """Convolution without bias, batch normalization and, optionally, ReLU6.

    Args:
        width: number of output features; None for a depthwise convolution.
        kernel_size: side of the kernel.
        stride: stride in both directions.
        use_activation: whether ReLU6 follows.
    """

    def __init__(
        self,
        width: int | None,
        kernel_size: int,
        stride: int,
        use_activation: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        initializer = keras.initializers.VarianceScaling(2.0, "fan_out")
        options = {"strides": stride, "padding": "same", "use_bias": False, **common}
        self.convolution: Any = (
            layers.DepthwiseConv2D(kernel_size, depthwise_initializer=initializer, **options)
            if width is None
            else layers.Conv2D(width, kernel_size, kernel_initializer=initializer, **options)
        )
        self.norm = layers.BatchNormalization(epsilon=1e-3, **common)
        self.width, self.use_activation = width, use_activation

    def build(self, shape: Shape) -> None:
        self.convolution.build(shape)
        self.norm.build(self.compute_output_shape(shape))
        self.built = True

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        x = self.norm(self.convolution(x), training=training)
        return ops.relu6(x) if self.use_activation else x

    def compute_output_shape(self, shape: Shape) -> Shape:
        output: Shape = self.convolution.compute_output_shape(shape)
        return output


def _round_width(width: float) -> int:
    """Round a width to the nearest multiple of 8, but to at least 8 and at least 90 % of it."""
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * width else rounded + 8

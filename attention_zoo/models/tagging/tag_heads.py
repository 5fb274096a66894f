"""Output heads of taggers: from word states to potentials, and the loss on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import CRF
from attention_zoo.losses import CRFLoss, TagCrossEntropy
from attention_zoo.models.presets import Config, check_options
from attention_zoo.ops.linear_chain import FORBIDDEN
from attention_zoo.registry import Registry
from attention_zoo.typing import Tensor

HEADS = Registry("tagger's head")
"""Registry of heads, built with `(tags, tag_scheme, dtype=...)`."""


@HEADS.register("crf")
class CRFHead(layers.Layer):
    """Emissions of each tag, and a CRF over them.

    Args:
        tags: names of the K tags.
        tag_scheme: sequences that it forbids have probability 0, in training too; or None.
    """

    def __init__(self, tags: Sequence[str], tag_scheme: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        common: Config = {"dtype": self.dtype_policy}
        self.emit = layers.Dense(len(tags), **common)
        self.crf = CRF(tag_scheme=tag_scheme, tags=tags, **common)

    def build(self, inputs_shape: Any) -> None:
        self.emit.build(inputs_shape)
        self.crf.build((*inputs_shape[:-1], self.emit.units))
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return self.crf(self.emit(inputs), mask=mask)

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the loss; raise ValueError for label smoothing, which a CRF does not support."""
        if label_smoothing:
            raise ValueError(
                f"label_smoothing must be 0 with the head 'crf', got {label_smoothing!r}; set it "
                "to 0, or use the head 'softmax'"
            )
        return CRFLoss()


@HEADS.register("softmax")
class SoftmaxHead(layers.Layer):
    """Emissions of each tag, and a softmax for each word; a scheme constrains decoding only.

    Args:
        tags: names of the K tags.
        tag_scheme: sequences that it forbids are never decoded; or None.
    """

    def __init__(self, tags: Sequence[str], tag_scheme: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        size = len(tags)
        self.emit = layers.Dense(size, dtype=self.dtype_policy)
        self.scores = [np.zeros(shape, "float32") for shape in ((size, size), (size,), (size,))]
        if tag_scheme is not None:
            allowed = zoo_ops.tag_constraints(tag_scheme, tags)
            self.scores = [np.where(x, 0.0, FORBIDDEN).astype("float32") for x in allowed]

    def build(self, inputs_shape: Any) -> None:
        self.emit.build(inputs_shape)
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor) -> Tensor:
        return self.pack(self.emit(inputs), mask)

    def pack(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Return the potentials of words with emissions `(B, W, K)` and mask `(B, W)`."""
        transitions, starts, ends = self.scores
        emissions = ops.cast(emissions, "float32")
        return zoo_ops.pack(zoo_ops.make_chain(emissions, transitions, starts, ends, mask))

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        return TagCrossEntropy(label_smoothing)


def complete_head_options(value: Config | None) -> Config:
    """Return kind and tag scheme with defaults filled in; raise ValueError for other options."""
    defaults = {"kind": "softmax", "tag_scheme": None}
    options = {**defaults, **check_options("head", value, defaults)}
    HEADS.get(options["kind"])
    return options

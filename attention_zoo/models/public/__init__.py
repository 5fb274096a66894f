"""Publicly released checkpoints, loaded as models of this library."""

from attention_zoo.models.public import (  # noqa: F401  (they register their families)
    bart,
    efficientnet_lite,
    encoder_families,
    gpt2,
    marian,
    t5,
    vision,
)
from attention_zoo.models.public.loading import FAMILIES, from_public, read_config

__all__ = ["FAMILIES", "from_public", "read_config"]

"""Checkpoints that others have released, as models of this library."""

from attention_zoo.models.public import bert  # noqa: F401  (registers its family)
from attention_zoo.models.public.loading import FAMILIES, from_public, read_config

__all__ = ["FAMILIES", "from_public", "read_config"]

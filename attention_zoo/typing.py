"""Type aliases."""

from __future__ import annotations

from typing import Any

Tensor = Any
"""A tensor of any Keras backend, a NumPy array or a symbolic `KerasTensor`."""

Shape = tuple[Any, ...]
"""Sizes of the axes of a tensor: integers, None or scalar tensors."""

State = tuple[Any, ...]
"""State of a score, an alignment or an attention: a nest of tensors."""

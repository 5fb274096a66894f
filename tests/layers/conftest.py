"""The laws are asserted in modules that pytest does not collect: let it explain their failures."""

from __future__ import annotations

import sys

import pytest

LAWS = (
    "layer_laws",
    "attention_laws",
    "mask_laws",
    "part_laws",
    "decoder_laws",
    "remembering",
    "structure_laws",
)

for law in LAWS:
    if f"tests.layers.{law}" not in sys.modules:
        pytest.register_assert_rewrite(f"tests.layers.{law}")

GENERAL = ("TestAttention", "TestMultiHeadAttention", "TestAttentionCell", "TestRecurrentDecoder")
"""The cases that run the laws of the interface on every backend."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On JAX the laws of the interface run for the general layers alone (see JAX_EXCEPTIONS)."""
    from tests.layers.layer_laws import INTERFACE_LAWS
    from tests.layers.mask_laws import MaskLaws
    from tests.layers.running import JAX

    if not JAX:
        return
    laws = {name for name in vars(MaskLaws) if name.startswith("test_")} | INTERFACE_LAWS
    left = [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and hasattr(item.cls, "covers")
        and item.cls.__name__ not in GENERAL
        and item.originalname in laws
    ]
    config.hook.pytest_deselected(items=left)
    dropped = set(left)
    items[:] = [item for item in items if item not in dropped]

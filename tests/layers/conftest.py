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

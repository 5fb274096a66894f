"""Rewriting of the assertions in conformance modules, so that failures show their values."""

from __future__ import annotations

import sys

import pytest

KINDS = ("layer", "keras", "attention", "mask", "part", "decoder", "stateful", "structure")

for name in (f"tests.layers.{kind}_conformance" for kind in KINDS):
    if name not in sys.modules:
        pytest.register_assert_rewrite(name)

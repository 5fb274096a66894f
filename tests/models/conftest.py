"""Tests with the argument `preset` run for every preset of their model."""

from tests.models.conformance import pytest_generate_presets as pytest_generate_tests

__all__ = ["pytest_generate_tests"]

"""Tests with the argument `preset` run for every preset of their model, which is built once."""

import pytest

from tests.models.conformance import depth, presets_of
from tests.models.conformance import pytest_generate_presets as pytest_generate_tests

__all__ = ["pytest_generate_tests"]


@pytest.fixture(scope="class", autouse=True)
def _shipped_models(request: pytest.FixtureRequest) -> None:
    """Builds the presets of the fast tier before the first test of a model."""
    if hasattr(request.cls, "shipped"):
        for name in presets_of(request.cls.covers):
            if depth(name) <= 2:
                request.cls().shipped(name)

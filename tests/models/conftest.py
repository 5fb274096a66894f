"""Parametrization by preset, and models that are built once for each preset."""

import pytest

from tests.models.generation_conformance import depth, presets_of
from tests.models.generation_conformance import pytest_generate_presets as pytest_generate_tests

__all__ = ["pytest_generate_tests"]


@pytest.fixture(scope="class", autouse=True)
def _build_presets(request: pytest.FixtureRequest) -> None:
    """Build the presets of the fast tier before the first test of a model."""
    if hasattr(request.cls, "make_preset"):
        for name in presets_of(request.cls.covers):
            if depth(name) <= 2:
                request.cls().make_preset(name)

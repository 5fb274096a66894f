"""Modules and predictions run eagerly in the fast tier."""

import pytest

from tests.eager import eager_in_fast_tier
from tests.export.alone import Answers

__all__ = ["eager_in_fast_tier"]


@pytest.fixture(scope="module")
def answered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What exports of all tasks of a test module answer to all its batches."""
    return Answers(request.module, tmp_path_factory.mktemp("served"))

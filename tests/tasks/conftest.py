"""Predictions run eagerly in the fast tier, of a run that is trained once."""

import pytest

from tests.eager import eager_in_fast_tier
from tests.training.small import small_run

__all__ = ["eager_in_fast_tier"]


@pytest.fixture(scope="session", autouse=True)
def _trained() -> None:
    small_run()

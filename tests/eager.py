"""Fixtures: eager execution in the fast tier, and one training run that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest

from tests.tiers import FULL


@pytest.fixture(scope="session", autouse=True)
def shared_run() -> None:
    """Train the shared run, or copy it, before the first test."""
    from tests.training.small import small_run

    small_run()


@pytest.fixture(autouse=True)
def eager_in_fast_tier() -> Iterator[None]:
    if FULL or keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)

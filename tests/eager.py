"""Fixture: the fast tier runs searches and models eagerly; nothing is traced for one prediction."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest

from tests.tiers import FULL


@pytest.fixture(autouse=True)
def eager_in_fast_tier() -> Iterator[None]:
    if FULL or keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)

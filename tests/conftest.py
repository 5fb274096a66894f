"""What every test starts from: float32, the same seeds, no drawing window, no chatter."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")

from collections.abc import Iterator
from unittest import mock

import keras
import pytest
from hypothesis import settings

pytest.register_assert_rewrite(
    "tests.layers.conformance",
    "tests.models.conformance",
    "tests.models.reading",
    "tests.models.tagging",
)
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def _same_start() -> Iterator[None]:
    """Seeds Python, NumPy and Keras; puts the dtype policy back that a test has changed.

    What `fit` shuffles by is not seeded: a test that asks for what was learnt gives it
    `shuffle=False`.
    """
    keras.config.set_dtype_policy("float32")
    with mock.patch("tensorflow.random.set_seed"):  # drops all kernels; only shuffles draw by it
        keras.utils.set_random_seed(1)
    yield
    keras.config.set_dtype_policy("float32")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The pass on JAX is a selection unless it is asked for whole."""
    parser.addoption("--whole", action="store_true", help="on JAX too, every case of every test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out of the pass on JAX what the pass on TensorFlow says of both."""
    if keras.backend.backend() != "jax" or config.getoption("--whole"):
        return
    from tests.jax_pass import left_out

    left = left_out(items)
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]

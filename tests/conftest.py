"""Defaults of all tests: float32, a fixed seed, no plot windows, no log messages."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")

from tests.tiers import FULL

if not FULL:  # halves XLA's compile time; the compiled code is slower
    flags = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    os.environ.setdefault("XLA_FLAGS", flags)

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import pytest
from hypothesis import settings

from tests.cpu_time import CPUTime

pytest.register_assert_rewrite(
    "tests.layers.conformance",
    "tests.models.model_conformance",
    "tests.models.generation_conformance",
    "tests.models.encoder_conformance",
    "tests.models.tagger_conformance",
    "tests.models.classifier_conformance",
    "tests.models.matcher_conformance",
)
FAST_TIER = "not full and not slow and not soak and not zoo"
FULL_TIER = "not soak and not zoo"


@pytest.fixture(autouse=True)
def _same_start(request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed Python, NumPy and Keras; restore the dtype policy that a test has changed.

    The generator by which `fit` shuffles is not seeded: tests that train pass `shuffle=False`.
    """
    seed = request.config.getoption("--seed")
    keras.config.set_dtype_policy("float32")
    with mock.patch("tensorflow.random.set_seed"):  # drops all kernels; only shuffling needs it
        keras.utils.set_random_seed(seed)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture(autouse=True, scope="module")
def _freeze_garbage() -> None:
    """Collect garbage and freeze the remaining objects, so that later collections are fast.

    Otherwise their time counts for an arbitrary test.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def tfds(request: pytest.FixtureRequest) -> Any:
    """TensorFlow Datasets without its warnings; the test is skipped if it is not installed."""
    request.node.add_marker(pytest.mark.filterwarnings("ignore"))
    return pytest.importorskip("tensorflow_datasets")


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Current folder for modules of users; what these register and import is undone."""
    from attention_zoo.models.presets import MODELS, PRESETS
    from attention_zoo.tasks import TASKS

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    for registry in (MODELS, PRESETS, TASKS):
        monkeypatch.setattr(registry, "_factories", {**registry._factories})
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for tier, seed and reports."""
    parser.addoption("--full", action="store_true", help="run the full tier with the fast one")
    parser.addoption("--seed", type=int, default=1, help="seed of every test (default 1)")
    parser.addoption("--whole", action="store_true", help="on JAX, run every case of every test")
    parser.addoption("--cpu-report", metavar="FILE", help="write the CPU time of each test as JSON")
    parser.addoption("--fail-slow", action="store_true", help="fail if a test is slow in two runs")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set tier and seed before hypothesis reads its options and test modules are imported."""
    config.pluginmanager.register(CPUTime(config), "cpu_time")
    full = config.getoption("--full")
    if full:
        os.environ["ATTENTION_ZOO_FULL_TESTS"] = "1"
    if not hasattr(config, "workerinput"):
        folder = os.environ["ATTENTION_ZOO_TEST_FOLDER"] = tempfile.mkdtemp(prefix="attention_zoo_")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    config.option.markexpr = config.option.markexpr or (FULL_TIER if full else FAST_TIER)
    from tests.tiers import EXAMPLES

    settings.register_profile("tier", deadline=None, database=None, max_examples=EXAMPLES)
    settings.load_profile("tier")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(config.getoption("--seed"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the full tier; on JAX, deselect tests whose result does not depend on the backend."""
    from tests.jax_pass import find_deselected
    from tests.tiers import runs_in_full_tier

    if keras.backend.backend() != "jax":
        for item in filter(runs_in_full_tier, items):
            item.add_marker(pytest.mark.full)
    elif config.getoption("--full") and not config.getoption("--whole"):
        deselected = find_deselected(items)
        config.hook.pytest_deselected(items=list(deselected))
        items[:] = [item for item in items if item not in deselected]

"""Training under XLA with dynamic shapes: the losses are those of training without it."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest

from tests.training.processes import end, start
from tests.training.xla_runs import CORPORA, GROUPS, SMALL_RECIPES

RUN = "import sys; from tests.training.xla_runs import main; main(int(sys.argv[1]))"
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
"""Halve the time of compilation; the compiled code is slower."""


@functools.cache
def train_group(number: int) -> dict[str, Any]:
    """Return the losses of each case of a group, with and without XLA, or its error."""
    output = end(start(RUN, [str(number)], XLA_FLAGS=FLAGS), within=590)
    return dict(json.loads(line) for line in output.splitlines() if line.startswith("["))


def test_every_task_has_recipes() -> None:
    assert {json.loads(recipe)["task"] for recipe in SMALL_RECIPES} == set(CORPORA)


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first case of a group trains all its cases
@pytest.mark.parametrize("recipe", SMALL_RECIPES, ids=SMALL_RECIPES.values())
def test_losses_equal_those_without_xla(recipe: str) -> None:
    """A seed gives the same dropout masks and noise with and without XLA."""
    (number,) = (n for n, group in enumerate(GROUPS) if recipe in group)
    losses = train_group(number)[SMALL_RECIPES[recipe]]
    assert isinstance(losses, list), losses
    with_xla, without_xla = losses
    np.testing.assert_allclose(with_xla[:3], without_xla[:3], rtol=1e-4)
    np.testing.assert_allclose(with_xla[-2:], without_xla[-2:], rtol=1e-2)

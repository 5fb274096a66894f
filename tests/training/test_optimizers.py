"""Arguments of the optimizer in a recipe, and what weight decay applies to."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.cli import main
from attention_zoo.layers import MultiHeadAttention
from attention_zoo.training import read_recipe
from attention_zoo.training.optimizers import (
    OPTIMIZERS,
    build_optimizer,
    exclude_from_weight_decay,
)
from attention_zoo.training.recipe import TrainingOptions
from tests.refusals import refuses

ADAMW = {"name": "adamw", "weight_decay": 0.01, "beta_2": 0.98, "epsilon": 1e-9}


def read(tmp_path: Path, optimizer: str, *overrides: str) -> dict[str, Any]:
    """Return the optimizer of a recipe that contains a line of YAML."""
    path = tmp_path / "recipe.yaml"
    path.write_text(f"data: {{corpus: dates}}\ntraining:\n  optimizer: {optimizer}\n")
    return read_recipe(path, overrides).training.optimizer


def test_arguments_reach_the_optimizer() -> None:
    optimizer = build_optimizer(TrainingOptions(optimizer=ADAMW, learning_rate=0.5))
    assert isinstance(optimizer, keras.optimizers.AdamW)
    config = optimizer.get_config()
    assert {key: config[key] for key in ADAMW if key != "name"} == {
        key: value for key, value in ADAMW.items() if key != "name"
    }
    assert float(optimizer.learning_rate) == 0.5
    plain = build_optimizer(TrainingOptions(optimizer="sgd"))
    assert plain.get_config()["momentum"] == 0.0


class ConstructorCalledError(Exception):
    """Raised by a constructor to end the run."""


def test_contributing_lists_the_files_from_the_recipe_to_the_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, None] = {}

    def record_files() -> None:
        for frame in traceback.extract_stack():
            _, package, path = frame.filename.partition("/attention_zoo/")
            if package and "tests" not in path:
                files[path] = None

    def construct(learning_rate: float = 0.0, momentum: float = 0.0) -> None:
        record_files()
        raise ConstructorCalledError(momentum)

    check = TrainingOptions.__post_init__
    monkeypatch.setattr(
        TrainingOptions, "__post_init__", lambda options: (record_files(), check(options))
    )
    monkeypatch.setitem(OPTIMIZERS._factories, "recorded", construct)
    (tmp_path / "recipe.yaml").write_text(
        "data: {corpus: dates, size: 4, validation_size: 2}\n"
        "training: {optimizer: {name: recorded, momentum: 0.5}}\n"
    )
    with pytest.raises(ConstructorCalledError, match=r"0\.5"):
        main(["train", str(tmp_path / "recipe.yaml"), f"run={tmp_path / 'run'}"])
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("reaches the constructor of the optimizer:")[2].partition("##")[0]
    assert re.findall(r"^\d\. `(\S+\.py)`", section, re.MULTILINE) == list(files)
    assert len(files) <= 8


def test_names_mappings_and_overrides(tmp_path: Path) -> None:
    mapping = "{name: adamw, weight_decay: 0.01, beta_2: 0.98, epsilon: 1e-9}"
    assert read(tmp_path, mapping) == ADAMW
    assert read(tmp_path, "sgd") == {"name": "sgd"}
    changed = read(tmp_path, "sgd", "training.optimizer.momentum=0.9")
    assert changed == {"name": "sgd", "momentum": 0.9}
    changed = read(tmp_path, mapping, "training.optimizer.beta_2=0.9")
    assert changed == {**ADAMW, "beta_2": 0.9}
    for other in ("training.optimizer=sgd", "training.optimizer={name: sgd}"):
        assert read(tmp_path, mapping, other) == {"name": "sgd"}


@refuses(
    ({"name": "adam", "beta2": 0.9}, r"^training\.optimizer\.beta2: unknown .*mean 'beta_2'"),
    (
        {"name": "adam", "beta_2": "high"},
        r"^training\.optimizer\.beta_2 must be a number of at least 0, got 'h",
    ),
    ({"name": "adam", "beta_2": True}, r"^training\.optimizer\.beta_2 must be a number .*got True"),
    (
        {"name": "adamw", "weight_decay": -0.1},
        "weight_decay must be a number of at least 0, got -0.1",
    ),
    ({"name": "adam", "epsilon": float("nan")}, "epsilon must be a number of at least 0, got nan"),
    ({"name": "adam", "amsgrad": 1}, r"^training\.optimizer\.amsgrad must be true or false, got 1"),
    ({"name": "sgd", "momentum": 2.0}, r"^training\.optimizer: .*momentum"),
    ({"name": "adam", "learning_rate": 1.0}, r"learning_rate: set training\.learning_rate instead"),
    ({"name": "adam", "use_ema": True}, r"use_ema: set training\.ema instead"),
    ({"name": "adm"}, "unknown optimizer 'adm'; did you mean 'adam'"),
    ({"beta_2": 0.9}, r"^training\.optimizer must be a name or a mapping with `name`, got {'be"),
    (3, r"^training\.optimizer must be a name or a mapping with `name`, got 3"),
)
def test_bad_optimizers(optimizer: Any) -> None:
    build_optimizer(TrainingOptions(optimizer=optimizer))


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_weight_decay_excludes_biases_and_normalization(name: str) -> None:
    """Without gradients, weight decay alone changes a weight."""
    query = keras.Input((3, 4))
    outputs = keras.layers.LayerNormalization()(MultiHeadAttention(2, 4)(query, query))
    model = keras.Model(query, keras.layers.Dense(2)(outputs))
    for variable in model.variables:
        variable.assign(np.ones(variable.shape))
    options = {"name": name, "weight_decay": 0.5}
    optimizer = build_optimizer(TrainingOptions(optimizer=options, learning_rate=0.1))
    exclude_from_weight_decay(optimizer, model)
    optimizer.build(model.trainable_variables)
    optimizer.apply([np.zeros(v.shape, "float32") for v in model.trainable_variables])
    for variable in model.trainable_variables:
        normalization = "layer_normalization" in variable.path
        decays = not normalization and "bias" not in variable.name
        expected = 0.95 if decays else 1.0
        np.testing.assert_allclose(keras.ops.convert_to_numpy(variable), expected, rtol=1e-6)

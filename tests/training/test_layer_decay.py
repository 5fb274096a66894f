"""Layer-wise learning rate decay: the factors, every optimizer, and runs that resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models, training
from attention_zoo.training import read_recipe
from attention_zoo.training.layer_decay import compute_factors, scale_learning_rates
from attention_zoo.training.optimizers import build_optimizer, exclude_from_weight_decay
from attention_zoo.training.recipe import TrainingOptions
from attention_zoo.training.step import CompiledSteps
from tests.refusals import refuses
from tests.tiers import mark_full, mark_others_full
from tests.training import custom_task
from tests.training.processes import end, start
from tests.training.small import arrays, assert_same_run, assert_similar_run, write_recipe
from tests.training.test_devices import FIT_PAGE
from tests.training.test_fitting import StopAfter
from tests.training.test_step import batches_of

SIZES: dict[str, Any] = {"embedding_dim": 4, "units": 6, "num_heads": 2, "num_layers": 3}
X = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
Y = X[:, :2] * 3


class Stack(keras.Model):
    """Dense layers, the last of which is the output layer."""

    def __init__(self, ordered: bool = True) -> None:
        super().__init__()
        self.lower = [keras.layers.Dense(4, "tanh", name=f"lower_{n}") for n in range(2)]
        self.head = keras.layers.Dense(2, name="head")
        if ordered:
            self.layers_by_depth = [[layer] for layer in self.lower]
        self(X)

    def call(self, x: Any) -> Any:
        for layer in self.lower:
            x = layer(x)
        return self.head(x)


def stack(**options: Any) -> Any:
    keras.utils.set_random_seed(3)
    return Stack(**options)


def values(model: keras.Model) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight) for weight in model.trainable_variables]


def layer_of(variable: Any) -> str:
    return str(variable.path.split("/")[-2])


def named_factors(model: Any, decay: float) -> dict[str, float]:
    """Return the factor of each group, which all of its weights have, by its first layer."""
    factors = compute_factors(model, decay)
    groups = model.layers_by_depth
    for group in groups:
        assert len({factors[id(w)] for layer in group for w in layer.weights}) == 1
    assert len(factors) == len({id(w) for group in groups for x in group for w in x.weights})
    return {group[0].name: factors[id(group[0].weights[0])] for group in groups}


def test_rates_decay_from_the_top_down() -> None:
    bert = models.BERT(9, max_length=8, use_pooler=True, **SIZES)
    assert list(named_factors(bert, 0.5).values()) == [1 / 16, 1 / 8, 1 / 4, 1 / 2]
    factors = compute_factors(bert, 0.5)
    lowest = (bert.token_embedding, bert.segment_embedding, bert.positions, bert.norm)
    assert {factors[id(w)] for layer in lowest for w in layer.weights} == {1 / 16}
    assert not {id(weight) for weight in bert.pooler.weights} & {*factors}
    classifier = models.TransformerClassifier(bert, ["no", "yes"])
    assert compute_factors(classifier, 0.5) == factors
    above = (bert.final_norm, bert.pooler, classifier.head)
    others = {*map(id, classifier.trainable_variables)} - {*factors}
    assert others == {id(weight) for layer in above for weight in layer.weights}
    gpt = models.GPT(9, max_length=8, positions="rotary", **SIZES)
    assert list(named_factors(gpt, 0.1).values()) == pytest.approx([1e-4, 1e-3, 1e-2, 0.1])


OPTIMIZERS: tuple[Any, ...] = (
    {"name": "adamw", "weight_decay": 0.5},
    "adam",
    {"name": "adadelta", "epsilon": 0.1},
    {"name": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.5},
    {"name": "adam", "amsgrad": True, "clipvalue": 0.01},
)


@pytest.mark.parametrize("optimizer", mark_others_full(OPTIMIZERS), ids=str)
@pytest.mark.parametrize("mode", ["eager", mark_full("graph"), "xla"])
def test_update_equals_that_of_one_optimizer_per_layer(optimizer: Any, mode: str) -> None:
    options = TrainingOptions(
        optimizer=optimizer, learning_rate=0.1, schedule="cosine", warmup_steps=2, steps=9
    )
    gradients = [
        [tf.random.stateless_normal(w.shape, (step, n)) for n, w in enumerate(values(stack()))]
        for step in range(2)
    ]

    def update(model: Any, rates: dict[str, float], decay: float | None) -> list[np.ndarray]:
        """Update the layers with these rates by an optimizer of their own."""
        for rate in {*rates.values()}:
            changed = {**vars(options), "learning_rate": rate}
            weights = [v for v in model.trainable_variables if rates[layer_of(v)] == rate]
            made = build_optimizer(TrainingOptions(**changed))
            exclude_from_weight_decay(made, model)
            scale_learning_rates(made, model, decay)
            made.build(weights)
            rows = [
                n for n, v in enumerate(model.trainable_variables) if rates[layer_of(v)] == rate
            ]
            apply = made.apply
            if mode != "eager":
                apply = tf.function(apply, autograph=False, jit_compile=mode == "xla")
            for step in gradients:
                apply([step[row] for row in rows])
        return values(model)

    names = ["lower_0", "lower_1", "head"]
    expected = update(stack(), dict(zip(names, (0.025, 0.05, 0.1), strict=True)), None)
    actual = update(stack(), dict.fromkeys(names, 0.1), 0.5)
    before = values(stack())
    for one, other, start_value in zip(actual, expected, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
        assert np.abs(one - start_value).max() > 1e-4


def test_the_optimizer_has_no_other_variables_and_the_same_rate() -> None:
    model = stack()
    plain, scaled = (build_optimizer(TrainingOptions(learning_rate=0.5)) for _ in range(2))
    scale_learning_rates(scaled, model, 0.5)
    for optimizer in (plain, scaled):
        optimizer.build(model.trainable_variables)
    assert [v.name for v in scaled.variables] == [v.name for v in plain.variables]
    scaled.apply([tf.ones(v.shape) for v in model.trainable_variables])
    assert float(scaled.learning_rate) == 0.5
    graph = tf.function(lambda *g: scaled.apply(list(g), model.trainable_variables))
    concrete = graph.get_concrete_function(*(tf.ones(v.shape) for v in model.trainable_variables))
    types = [operation.type for operation in concrete.graph.get_operations()]
    assert types.count("ResourceApplyAdam") == 6
    assert "AssignSubVariableOp" not in types


@pytest.mark.parametrize("decay", [None, 1.0])
def test_no_decay_changes_nothing(decay: float | None) -> None:
    optimizer = build_optimizer(TrainingOptions())
    before = {**vars(optimizer)}
    scale_learning_rates(optimizer, stack(ordered=False), decay)
    assert vars(optimizer) == before


def test_frozen_layers_are_skipped() -> None:
    model = stack()
    model.lower[0].trainable = False
    optimizer = build_optimizer(TrainingOptions(optimizer="sgd", learning_rate=1.0))
    scale_learning_rates(optimizer, model, 0.5)
    before = values(model)
    optimizer.apply(
        [tf.ones(v.shape) for v in model.trainable_variables], model.trainable_variables
    )
    steps = [float((old - new).max()) for old, new in zip(before, values(model), strict=True)]
    assert steps == pytest.approx([0.5, 0.5, 1, 1], abs=1e-6)


def test_gradients_of_micro_batches_are_added_and_clipped_before() -> None:
    """Without the factors, the update has the norm of the clipped gradient."""
    model = stack()
    optimizer = build_optimizer(TrainingOptions(optimizer="sgd", learning_rate=0.1))
    model.compile(optimizer, keras.losses.MeanSquaredError(), auto_scale_loss=False)
    scale_learning_rates(optimizer, model, 0.5)
    optimizer.build(model.trainable_variables)
    steps = CompiledSteps(model, tf.distribute.get_strategy(), accumulate=3, clip_norm=0.3)
    before = values(model)
    steps.train(batches_of(X, Y, 4))
    changes = [new - old for new, old in zip(values(model), before, strict=True)]
    factors = (0.25, 0.25, 0.5, 0.5, 1, 1)
    unscaled = [change / factor for change, factor in zip(changes, factors, strict=True)]
    norm = np.sqrt(sum((change**2).sum() for change in unscaled))
    assert norm == pytest.approx(0.1 * 0.3, rel=1e-4)


PAGE = """\
task: masked_language_modeling
data: {corpus: date_lines, size: 60, validation_size: 10, test_size: 5, max_length: 64}
tokenizer: {kind: word}
model: {preset: bert_tiny, embedding_dim: 8, units: 12, num_heads: 2, num_layers: 1, max_length: 64}
training:
  steps: 4
  evaluate_every: 4
  batch_size: 8
  learning_rate: 0.01
  layer_decay: 0.5
  optimizer: {name: adamw, weight_decay: 0.1}
"""


@pytest.mark.usefixtures("no_run_folder")
def test_model_without_an_order_of_its_layers_raises(tmp_path: Path) -> None:
    page, run = write_recipe(tmp_path), tmp_path / "run"
    message = r"^training\.layer_decay=0\.9: RNNSearch defines no order of its layers .* Remove"
    with pytest.raises(ValueError, match=message) as caught:
        training.fit(page, [f"run={run}", "training.layer_decay=0.9"])
    assert "\n" not in str(caught.value)


@refuses(
    ("training.layer_decay=0", r"training\.layer_decay must be in \(0, 1\], got 0"),
    ("training.layer_decay=1.1", r"training\.layer_decay must be in \(0, 1\], got 1\.1"),
    ("training.layer_decay=half", "layer_decay"),
)
def test_invalid_decay_raises(override: str, tmp_path: Path) -> None:
    read_recipe(write_recipe(tmp_path, PAGE), [override])


@pytest.mark.full
@pytest.mark.usefixtures("custom_task")
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_stopped_run_resumes_exactly(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = property(lambda model: [[layer] for layer in model.layers[:-1]])
    monkeypatch.setattr(keras.Sequential, "layers_by_depth", order, raising=False)
    options = {"precision": precision, "layer_decay": 0.5, "accumulate": 2, "ema": 0.9}
    options |= {"optimizer": OPTIMIZERS[0], "schedule": "cosine", "checkpoint_every": 3}
    whole, stopped, plain = (tmp_path / name for name in ("whole", "stopped", "plain"))
    training.fit(custom_task.recipe(whole, **options))
    with pytest.raises(KeyboardInterrupt):
        training.fit(custom_task.recipe(stopped, **options), callbacks=[StopAfter(7)])
    training.fit(custom_task.recipe(stopped, **options))
    assert_same_run(whole, stopped)
    training.fit(custom_task.recipe(plain, **{**options, "layer_decay": None}))
    one, other = arrays(whole), arrays(plain)
    assert one.keys() == other.keys()
    assert any((one[name] != other[name]).any() for name in one)
    with pytest.raises(ValueError, match=r"training\.layer_decay 0\.5 -> 0\.9"):
        training.fit(custom_task.recipe(stopped, **{**options, "layer_decay": 0.9}))


@pytest.mark.slow
def test_two_devices_equal_one(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, PAGE)
    words = ["model.dropout=0", "training.optimizer={name: sgd, weight_decay: 0.1}"]
    words += ["training.learning_rate=0.5", "training.clip_norm=0.2"]
    end(start(FIT_PAGE, [str(path), f"run={tmp_path / 'two'}", *words, "training.devices=2"]))
    training.fit(path, [f"run={tmp_path / 'one'}", *words])
    assert_similar_run(tmp_path / "one", tmp_path / "two")

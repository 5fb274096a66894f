"""The compiled step: sums over counts, clipping, accumulation, averages, precision, NaN."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models, training
from attention_zoo.data.batching.batching import LineBatches
from attention_zoo.layers import MultiHeadAttention
from attention_zoo.layers.attention import blockwise
from attention_zoo.layers.attention import steps as attention_steps
from attention_zoo.losses import SequenceCrossEntropy
from attention_zoo.training import fitting
from attention_zoo.training.averages import Averages
from attention_zoo.training.devices import distribute_batches
from attention_zoo.training.loss_scale import LossScale
from attention_zoo.training.step import FAULT, OVERFLOW, CompiledSteps, check_loss, may_be_long
from tests.tiers import mark_full
from tests.training import custom_task
from tests.training.small import (
    RESUMED,
    arrays,
    assert_same_run,
    fit,
    newest,
    records,
    small_run,
    weights,
    write_recipe,
)
from tests.training.test_fitting import StopAfter

X = np.random.default_rng(0).normal(size=(10, 4)).astype("float32")
Y = X[:, :2] * 3


def compiled_steps(model: Any, optimizer: Any, loss: Any = None, **options: Any) -> CompiledSteps:
    model.compile(optimizer, loss or keras.losses.MeanSquaredError(), auto_scale_loss=False)
    model.optimizer.build(model.trainable_variables)
    return CompiledSteps(model, tf.distribute.get_strategy(), **options)


def steps_of(*layers: keras.layers.Layer, rate: float = 0.1, **options: Any) -> CompiledSteps:
    """The steps of a small model with plain gradient descent."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Input((4,)), *layers, keras.layers.Dense(2)])
    return compiled_steps(model, keras.optimizers.SGD(rate), **options)


def batches_of(x: np.ndarray, y: np.ndarray, size: int) -> Any:
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(size).repeat()
    return iter(distribute_batches(tf.distribute.get_strategy(), data))


def values(steps: CompiledSteps) -> list[np.ndarray]:
    return [weight.numpy() for weight in steps.model.weights]


@pytest.mark.parametrize("clip_norm", [None, 0.5], ids=["whole", "clipped"])
def test_update_is_the_mean_gradient_clipped_by_its_norm(clip_norm: float | None) -> None:
    steps = steps_of(clip_norm=clip_norm)
    kernel, bias = values(steps)
    outcome = steps.train(batches_of(X, Y, 10))
    error = X @ kernel + bias - Y
    assert outcome.loss / outcome.count == pytest.approx((error**2).mean(), rel=1e-5)
    assert outcome.count == 10
    gradients = [X.T @ error / 10, error.mean(0)]
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients))
    assert norm > 0.5
    factor = 1.0 if clip_norm is None else clip_norm / norm
    for after, before, gradient in zip(values(steps), (kernel, bias), gradients, strict=True):
        np.testing.assert_allclose(after, before - 0.1 * factor * gradient, atol=1e-6)


class Counted(keras.layers.Layer):
    """Adds the number of its calls in training."""

    def build(self, input_shape: Any) -> None:
        self.steps = self.add_weight(shape=(), dtype="int", initializer="zeros", trainable=False)

    def call(self, x: Any, training: bool = False) -> Any:
        on = keras.ops.cast(self.steps, x.dtype)
        if training:
            self.steps.assign_add(1)
        return x + on


class Uncompilable(keras.layers.Layer):
    """Calls Python, which XLA cannot compile."""

    def call(self, x: Any) -> Any:
        nothing = tf.numpy_function(np.zeros_like, [x], tf.float32)
        return x + tf.ensure_shape(nothing, x.shape)


def test_xla_is_used_on_request_only() -> None:
    assert steps_of(Uncompilable()).train(batches_of(X, Y, 10)).count == 10
    with pytest.raises(tf.errors.InvalidArgumentError, match="compil"):
        steps_of(Uncompilable(), jit=True).train(batches_of(X, Y, 10))


@pytest.mark.parametrize("layers", [(), (Counted,)], ids=["plain", "counting updates"])
@pytest.mark.parametrize("jit", [False, mark_full(True)], ids=["graph", "XLA"])
def test_accumulated_batches_equal_one_large_batch(jit: bool, layers: Any) -> None:
    """Micro-batches of 4, 4 and 2 examples weigh by their size; layers count updates."""
    results = {}
    for accumulate, size in ((1, 10), (3, 4)):
        made = [layer() for layer in layers]
        steps = steps_of(*made, accumulate=accumulate, clip_norm=0.5, jit=jit)
        stream = batches_of(X, Y, size)
        outcomes = [steps.train(stream) for _ in range(4)]
        results[accumulate] = [*values(steps), np.array([outcome.loss for outcome in outcomes])]
        assert [outcome.count for outcome in outcomes] == [10] * 4
        assert [int(layer.steps) for layer in made] == [4] * len(made)
    for one, other in zip(results[1], results[3], strict=True):
        np.testing.assert_allclose(one, other, **{"rtol": 1e-5} if layers else {"atol": 1e-6})


@pytest.mark.full
def test_accumulated_sentences_equal_one_large_batch(tmp_path: Path) -> None:
    """Masked token losses: a pass of 300 pairs is one batch, or 3 of different token counts."""
    words = ["training.steps=3", "training.evaluate_every=3", "model.dropout=0"]
    words += ["training.optimizer=sgd", "training.learning_rate=0.5"]  # Adam enlarges tiny sums
    path, folders = write_recipe(tmp_path), []
    for size, accumulate in ((300, 1), (128, 3)):
        sizes = [f"training.batch_size={size}", f"training.accumulate={accumulate}"]
        folder = tmp_path / str(size)
        training.fit(path, [f"run={folder}", *words, *sizes])
        folders.append(folder)
    for one, other in zip(weights(folders[0]), weights(folders[1]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    one, other = (records(folder)[0]["loss"] for folder in folders)
    assert one == pytest.approx(other, rel=1e-6)


def test_repeated_embedding_rows_are_added_before_clipping() -> None:
    tokens = np.array([[1, 1, 1, 2]])
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Embedding(5, 2), keras.layers.Flatten()]
    )
    steps = compiled_steps(model, keras.optimizers.SGD(1.0), clip_norm=0.01)
    (before,) = values(steps)
    steps.train(batches_of(tokens, np.ones((1, 8), "float32"), 1))
    np.testing.assert_allclose(np.linalg.norm(values(steps)[0] - before), 0.01, rtol=1e-5)


def test_weight_penalty_counts_once_and_apart_from_the_loss() -> None:
    def penalized() -> keras.layers.Layer:
        start = keras.initializers.GlorotUniform(seed=1)
        return keras.layers.Dense(3, kernel_initializer=start, kernel_regularizer="l2")

    steps = steps_of(penalized(), accumulate=2)
    outcome = steps.train(batches_of(X, Y, 5))
    fresh = steps_of(penalized())
    whole = fresh.test(batches_of(X, Y, 10))
    assert outcome.loss == pytest.approx(whole.loss, rel=1e-5)
    assert steps.has_auxiliary_loss
    error = float(fresh.model.loss(Y, fresh.model(X)))
    penalty = float(sum(fresh.model.losses))
    assert penalty > 0.01
    assert whole.loss == pytest.approx(10 * error, rel=1e-5)
    assert outcome.auxiliary_loss == pytest.approx(10 * penalty, rel=1e-5)


def test_gradient_includes_the_auxiliary_loss() -> None:
    class Penalized(keras.layers.Dense):
        def call(self, inputs: Any, training: bool = False) -> Any:
            if training:
                self.add_loss(3.0 * keras.ops.sum(self.kernel))
            return 0.0 * super().call(inputs)

    steps = steps_of(Penalized(3, use_bias=False))
    before = values(steps)[0]
    outcome = steps.train(batches_of(X, Y, 10))
    np.testing.assert_allclose(before - values(steps)[0], 0.1 * 3.0, rtol=1e-4)
    assert outcome.auxiliary_loss == pytest.approx(30 * before.sum(), rel=1e-4)
    assert not steps_of().has_auxiliary_loss


def test_auxiliary_loss_that_is_not_finite_is_a_fault() -> None:
    class Broken(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            self.add_loss(keras.ops.log(-keras.ops.mean(inputs**2)))
            return inputs

    outcome = steps_of(Broken()).train(batches_of(X, Y, 10))
    assert outcome.code == FAULT
    assert np.isfinite(outcome.loss)
    assert np.isnan(outcome.auxiliary_loss)


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.parametrize("name", ["train", "test"])
def test_the_garbage_collector_is_paused_during_a_step(
    name: str, is_enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, states = steps_of(), []

    def step(batches: Any) -> Any:
        states.append(gc.isenabled())
        raise ValueError("no batch")

    monkeypatch.setattr(steps, f"_{name}", step)
    was_enabled = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        with pytest.raises(ValueError, match="no batch"):
            getattr(steps, name)(iter(()))
        assert states == [False]
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_loss_that_is_not_a_mean_raises() -> None:
    check_loss(keras.losses.MeanSquaredError())
    for loss in (keras.losses.MeanSquaredError(reduction="sum"), "mse"):
        with pytest.raises(ValueError, match=r"must be a keras\.losses\.Loss that averages"):
            check_loss(loss)


@pytest.mark.full
@pytest.mark.usefixtures("custom_task")
def test_custom_model_is_trained(tmp_path: Path) -> None:
    result = training.fit(custom_task.recipe(tmp_path / "run", steps=40, evaluate_every=20))
    log = records(result.folder)
    assert [line["step"] for line in log] == [20, 40]
    assert log[1]["val_loss"] < log[0]["val_loss"] < 0.6
    assert log[0]["examples_per_second"] > 0
    points = custom_task.Points().read("validation")
    error = np.square(np.asarray(result.task.predict(points.x)) - points.y).mean()
    assert error == pytest.approx(log[1]["val_loss"], rel=1e-5)


def test_moving_averages_follow_the_formula() -> None:
    weight = keras.Variable(np.array([1.0, -2.0], "float32"))
    averages = Averages([weight], 0.5)
    expected = weight.numpy()
    for n in range(1, 20):
        weight.assign(weight.numpy() * -1.1)
        averages.update(tf.distribute.get_strategy(), n)
        decay = min(0.5, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * weight.numpy()
    np.testing.assert_allclose(averages.variables[0].numpy(), expected, rtol=1e-5)
    raw, average = weight.numpy(), averages.variables[0].numpy()
    with averages.in_use(), averages.in_use():
        np.testing.assert_array_equal(weight.numpy(), average)
    np.testing.assert_array_equal(weight.numpy(), raw)


@pytest.mark.full
@pytest.mark.usefixtures("custom_task")
def test_averages_are_evaluated_and_saved_while_weights_are_trained(tmp_path: Path) -> None:
    plain, averaged = (
        training.fit(custom_task.recipe(tmp_path / name, ema=ema)).folder
        for name, ema in (("plain", None), ("averaged", 0.99))
    )
    for one, other in zip(records(plain), records(averaged), strict=True):
        assert one["loss"] == other["loss"]
        assert one["val_loss"] != other["val_loss"]
    saved = arrays(averaged)
    raw = [saved[f"averages.{number}"] for number in range(4)]
    from attention_zoo import tasks

    for value, weight in zip(raw, tasks.load(newest(plain)).model.weights, strict=True):
        np.testing.assert_array_equal(value, weight.numpy())
    points = custom_task.Points().read("validation")
    error = np.square(np.asarray(tasks.load(newest(averaged)).predict(points.x)) - points.y).mean()
    assert error == pytest.approx(records(averaged)[-1]["val_loss"], rel=1e-5)


EVERYTHING = (*RESUMED, "training.accumulate=2", "training.ema=0.9", "training.optimizer=adamw")


@pytest.mark.full
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_averages_accumulation_and_loss_scale_resume_exactly(
    precision: str, tmp_path: Path
) -> None:
    words = [*EVERYTHING, f"training.precision={precision}", "training.steps=24"]
    path = write_recipe(tmp_path)
    training.fit(path, [f"run={tmp_path / 'whole'}", *words])
    for batches in (11, 10):  # between two evaluations, then after one
        with pytest.raises(KeyboardInterrupt):
            training.fit(path, [f"run={tmp_path / 'run'}", *words], [StopAfter(batches)])
    training.fit(path, [f"run={tmp_path / 'run'}", *words])
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_within_five_percent_after_50_steps(
    precision: str, tmp_path: Path
) -> None:
    losses = []
    for policy in ("float32", precision):
        (tmp_path / policy).mkdir()
        options = {"steps": 50, "evaluate_every": 10, "precision": policy}
        losses.append(records(fit(tmp_path / policy, "model.dropout=0", **options).folder)[-1])
        assert keras.config.dtype_policy().name == "float32"
    for name in ("loss", "val_loss"):
        assert losses[1][name] == pytest.approx(losses[0][name], rel=0.05)
        assert losses[1][name] != losses[0][name]


def test_overflow_lowers_the_loss_scale_and_nothing_else() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    steps = steps_of(accumulate=1, ema=0.9)
    assert steps.scale is not None
    steps.scale.variables[0].assign(2.0**40)
    before, stream = values(steps), batches_of(X, Y, 10)
    outcome = steps.train(stream)
    assert outcome.code == OVERFLOW
    assert float(steps.scale.value) == 2.0**39
    for one, other in zip(before, values(steps), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(steps.model.optimizer.iterations) == 0
    steps.scale.variables[0].assign(2.0**10)
    assert steps.train(stream).code == 0
    assert int(steps.model.optimizer.iterations) == 1


def test_loss_scale_is_raised_after_2000_good_steps_and_never_below_1() -> None:
    scale = LossScale()
    scale.variables[1].assign(1998)
    scale.update(tf.constant(False))
    assert float(scale.value) == 2.0**15
    scale.update(tf.constant(False))
    assert float(scale.value) == 2.0**16
    scale.variables[0].assign(1.5)
    scale.update(tf.constant(True))
    assert float(scale.value) == 1.0


@pytest.mark.parametrize("jit", [False, mark_full(True)], ids=["graph", "XLA"])
def test_non_finite_step_changes_nothing(jit: bool) -> None:
    steps = steps_of(keras.layers.BatchNormalization(), ema=0.5, jit=jit)
    stream = batches_of(np.concatenate([X, X * np.nan]), np.concatenate([Y, Y]), 10)
    assert steps.train(stream).code == 0
    kept = [*steps.model.variables, *steps.model.optimizer.variables, *steps.averages.variables]
    before = [variable.numpy() for variable in kept]
    outcome = steps.train(stream)
    assert outcome.code == FAULT
    assert np.isnan(outcome.loss)
    for variable, value in zip(kept, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)
    assert steps.train(stream).code == 0
    assert np.isfinite(np.concatenate([value.ravel() for value in values(steps)])).all()


@pytest.mark.usefixtures("custom_task")
def test_nan_stops_the_run_before_the_update_and_names_the_batch(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recipe = custom_task.recipe(folder, {"poison": 5}, checkpoint_every=1)
    message = r"^step (\d+): the loss is nan on training examples (.*); the update was not applied"
    with pytest.raises(ValueError, match=message) as caught:
        training.fit(recipe)
    step = int(str(caught.value).split(":")[0].split()[1])
    batches = custom_task.PointBatches(recipe.data.read("train"), 9, recipe.seed)
    assert 5 in batches.get_example_numbers(step - 1)
    assert f"examples {', '.join(map(str, batches.get_example_numbers(step - 1)))};" in str(
        caught.value
    )
    assert step > 2
    kept = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert kept == [f"step-{n:08d}" for n in (step - 2, step - 1)]
    for weight in weights(folder):
        assert np.isfinite(weight).all()


NAN_IN_VALIDATION = {"poison": 5, "poisoned_split": "validation"}


@pytest.mark.usefixtures("custom_task")
def test_validation_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    recipe = custom_task.recipe(tmp_path / "run", NAN_IN_VALIDATION, steps=1)
    with pytest.raises(ValueError, match=r"^step 1: the validation loss is nan, so no checkpoint"):
        training.fit(recipe)
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


@pytest.mark.usefixtures("custom_task")
def test_checkpoint_with_a_validation_loss_that_is_not_finite_is_not_best(tmp_path: Path) -> None:
    recipe = custom_task.recipe(tmp_path / "run", NAN_IN_VALIDATION, steps=1, on_nan="skip")
    result = training.fit(recipe)
    assert (result.step, result.best, result.diverged) == (1, None, True)
    assert newest(tmp_path / "run").name == "step-00000001"


@pytest.mark.usefixtures("custom_task")
def test_skipped_updates_are_counted_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = custom_task.recipe(tmp_path / "run", {"poison": 5}, on_nan="skip", steps=15)
    result = training.fit(recipe)
    log = records(result.folder)
    assert log[-1]["skipped"] == 3  # three passes of five batches
    assert np.isfinite([line["loss"] for line in log]).all()
    assert capsys.readouterr().out.count("the loss is nan on training examples") == 3
    state = json.loads((newest(result.folder) / "training.json").read_text())
    assert state["skipped"] == 3
    assert arrays(result.folder)["optimizer.0"] == 12


@pytest.mark.usefixtures("custom_task")
def test_endless_skipping_raises(tmp_path: Path) -> None:
    recipe = custom_task.recipe(
        tmp_path / "run", {"poison": 5, "size": 9}, on_nan="skip", steps=70, evaluate_every=70
    )
    with pytest.raises(ValueError, match=r"^step 50: .*; the 49 updates before were skipped too"):
        training.fit(recipe)


@pytest.mark.full
def test_losses_are_averaged_over_all_tokens() -> None:
    """The mean that is logged is the whole split's, whatever its batches."""
    folder = small_run()
    task = training.fit(folder / "recipe.yaml", [f"run={folder}"]).task
    recipe = training.read_recipe(folder / "recipe.yaml")
    batches = task.make_batches(recipe.data.read("validation"), 1000, 1)
    inputs, labels = next(iter(batches.dataset_in_order()))
    expected = float(task.make_loss()(labels, task.model(inputs, training=False)))
    assert records(folder)[-1]["val_loss"] == pytest.approx(expected, rel=1e-5)


class Doubled(SequenceCrossEntropy):
    """A formula of its own, and no sum of it."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return 2.0 * super().call(y_true, y_pred)


@pytest.mark.full
def test_loss_that_overrides_call_is_trained() -> None:
    model = models.from_preset(
        "transformer_tiny",
        source_vocabulary_size=7,
        target_vocabulary_size=7,
        embedding_dim=8,
        units=8,
        num_layers=1,
    )
    tokens = tf.constant([[2, 4, 5]])
    batch = ({"source": tokens, "target": tokens}, tokens, True)
    losses = []
    for loss in (SequenceCrossEntropy(), Doubled()):
        steps = compiled_steps(model, keras.optimizers.SGD(0.0), loss)
        assert bool(steps._options) is (type(loss) is SequenceCrossEntropy)
        losses.append(steps.test(iter(tf.data.Dataset.from_tensors(batch))).loss)
    assert losses[1] == pytest.approx(2 * losses[0], rel=1e-5)


@pytest.mark.full
def test_copying_model_is_trained_on_the_label_probability_only() -> None:
    """The step's loss and count are those of the whole distribution, coverage added once."""
    model = models.PointerGenerator(8, 6, 8, copies=4, coverage={"from_step": 1, "weight": 0.5})
    steps = compiled_steps(model, "adam", model.make_loss())
    rng = np.random.default_rng(0)
    source, target, labels = (rng.integers(4, 12, size=(2, n)).astype("int32") for n in (6, 3, 3))
    inputs = {"source": source, "target": target}
    assert steps._options == {"project": False}
    stream = batches_of(inputs, labels, 2)
    expected = float(model.make_loss()(labels, model(inputs)))
    outcome = steps.train(stream)
    assert outcome.count == 6
    assert outcome.loss / 6 == pytest.approx(expected, rel=1e-5)
    expected = float(model.make_loss()(labels, model(inputs)))
    assert steps.test(stream).loss / 6 == pytest.approx(expected, rel=1e-5)
    outcome = steps.train(stream)
    assert outcome.loss / 6 > expected + 1e-3, "the second step counts the coverage loss"
    assert int(model.switch.steps) == 2
    assert not np.allclose(model.attention.score.coverage_kernel, 0)


def test_frozen_weights_are_not_statistics() -> None:
    layers = [keras.layers.Dense(2), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dropout(0.5)])
    layers[0].trainable = False
    steps = compiled_steps(model, keras.optimizers.SGD())
    kept = [variable.path.rpartition("/")[2] for variable in steps.statistics]
    assert kept == ["moving_mean", "moving_variance"]


@pytest.mark.full
def test_long_examples_make_attention_blockwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with dynamic lengths; short examples are traced without the loops."""
    calls = []
    real = blockwise.attend_blockwise
    monkeypatch.setattr(
        blockwise, "attend_blockwise", lambda *a, **k: calls.append(1) or real(*a, **k)
    )
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    data = tf.data.Dataset.from_generator(
        lambda: iter([(x, x)]), output_signature=(tf.TensorSpec((None, None, 4)),) * 2
    ).repeat()
    batches = iter(distribute_batches(tf.distribute.get_strategy(), data))
    losses = []
    for expect_long in (True, False):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((None, 4))
        model = keras.Model(inputs, MultiHeadAttention(2, 4)(inputs, inputs))
        calls.clear()
        steps = compiled_steps(model, keras.optimizers.SGD(0.1), expect_long=expect_long)
        losses.append([steps.train(batches).loss for _ in range(3)])
        assert bool(calls) == expect_long
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0][2] < losses[0][0]


def test_batches_may_be_long_from_2048_tokens() -> None:
    for length, expected in ((2047, True), (2043, False)):  # with the start token
        lines = [[5, 6], [7] * length]
        assert may_be_long(LineBatches(lines, 2, 1)) == expected
    assert not may_be_long(object())  # of a class of one's own


@pytest.mark.parametrize("min_scores", [1, 10**9])
def test_training_expects_the_lengths_of_its_batches(
    min_scores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_steps, "BLOCKWISE_MIN_SCORES", min_scores)
    real = CompiledSteps
    expected = []

    def compile_steps(*arguments: Any) -> CompiledSteps:
        steps = real(*arguments)
        expected.append(steps.expect_long)
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "CompiledSteps", compile_steps)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path)
    assert expected == [min_scores == 1]

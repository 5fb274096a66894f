from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    ESTIMATORS,
    Attention,
    GumbelAlignment,
    HardAlignment,
    HardAttention,
    ReinforceAlignment,
)
from attention_zoo.losses import Reinforce
from tests.layers.attention_case import B, S, T, Weights, additive_scores, hard, numbers
from tests.layers.conformance import NumericConformance
from tests.layers.running import array, randomise, same
from tests.layers.wrapper_conformance import WrapperConformance


class TestHardAttention(WrapperConformance):
    covers = HardAttention
    options = {"units": 8}
    changed = {"estimator": "argmax", "score": "concat", "units": 9, "dropout": 0.3, "seed": 5}

    def equivalent(self) -> Attention:
        return Attention("additive", "gumbel")


class TestHardAttentionNumerics(NumericConformance):
    """At inference every estimator takes the argmax."""

    covers = HardAttention
    options = {"units": 8}

    def tensors(
        self, batch: int = B, steps: int = T, sources: int = S, seed: int = 0, scale: float = 1.0
    ) -> tuple[np.ndarray, ...]:
        """Each mask hides a position that would be selected, and no two top scores are close."""
        return super().tensors(batch, steps, sources, seed + 347, scale)

    def scores(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return additive_scores(weights, query, key)

    def align(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return hard(scores, mask)

    @pytest.mark.parametrize(("policy", "tolerance"), [("float16", 2e-3), ("bfloat16", 2e-2)])
    def test_half_precision_over_a_long_memory(self, policy: str, tolerance: float) -> None:
        """The position selected among 8192 has the best score up to rounding, and its exact value.

        (Rounding may decide between positions with nearly equal scores.)
        """
        keras.config.set_dtype_policy(policy)
        layer = self.make()
        tensors = self.tensors(1, 2, 8192, scale=0.5)
        rounded = [ops.cast(ops.convert_to_tensor(x), policy) for x in tensors]
        context, weights = self.attend(layer, *rounded)
        query, value, key = (array(x) for x in rounded)
        same(context, weights @ value)
        scores = self.scores(numbers(layer), query, key)
        chosen = (weights * scores).sum(-1)
        assert (chosen >= scores.max(-1) - tolerance * np.abs(scores).max()).all()


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_dropout_acts_in_training_only(estimator: str) -> None:
    """In training positions are sampled, so the weights before dropout differ from inference."""
    case = TestHardAttentionNumerics()
    plain = case.make_random(estimator=estimator)
    layer = case.make_random(estimator=estimator, dropout=0.5, seed=3)
    tensors = case.tensors(sources=40)
    context, _ = case.attend(plain, *tensors)
    for training in (None, False):
        same(case.attend(layer, *tensors, training=training)[0], context)
    first, chosen = case.attend(layer, *tensors, training=True)
    second, _ = case.attend(layer, *tensors, training=True)
    assert np.abs(first - second).max() > 1e-3
    assert set(np.unique(chosen)) == {0, 1}
    assert (chosen.sum(-1) == 1).all()
    is_kept = np.abs(first).max(-1) > 0
    assert 0 < is_kept.mean() < 1
    np.testing.assert_allclose(first[is_kept], (2 * chosen @ tensors[1])[is_kept], rtol=1e-6)


def test_estimators_are_found_by_name() -> None:
    kinds = {"argmax": HardAlignment, "gumbel": GumbelAlignment, "reinforce": ReinforceAlignment}
    assert ESTIMATORS.names() == sorted(kinds)
    for name, kind in kinds.items():
        layer = HardAttention(name, seed=3, dtype="mixed_bfloat16")
        assert type(layer.alignment) is kind
        assert layer.alignment.dtype_policy.name == "mixed_bfloat16"
        assert getattr(layer.alignment, "seed", 3) == 3
    own = HardAttention(GumbelAlignment(0.3, seed=8), seed=3)
    assert (own.alignment.initial_temperature, own.alignment.seed) == (0.3, 8)


def test_by_hand() -> None:
    """Scores 2, 6 and 4: selects the second, and the third if the second is masked."""
    layer = HardAttention(score="dot")
    value = np.array([[[1.0], [3.0], [2.0]]], "float32")
    query = np.array([[[2.0]]], "float32")
    assert array(layer(query, value)).tolist() == [[[3]]]
    mask = np.array([[True, False, True]])
    assert array(layer(query, value, value_mask=mask)).tolist() == [[[2]]]


PLACES, LABELS = 6, 4


def make_pointing_data(count: int, seed: int = 0) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return query, value and key: the label is at the position whose key equals the query."""
    rng = np.random.default_rng(seed)
    keys = np.stack([rng.permutation(PLACES) for _ in range(count)])
    labels = rng.integers(0, LABELS, size=(count, PLACES))
    targets = rng.integers(0, PLACES, size=count)
    position = (keys == targets[:, None]).argmax(1)
    inputs = (np.eye(PLACES)[targets][:, None], np.eye(LABELS)[labels], np.eye(PLACES)[keys])
    return tuple(x.astype("float32") for x in inputs), labels[np.arange(count), position]


@keras.saving.register_keras_serializable("attention_zoo_tests")
class Pointer(keras.Model):
    """Predicts from the attended position; adds a reward if the estimator needs one."""

    def __init__(self, estimator: str, seed: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.estimator, self.seed = estimator, seed
        self.attention = HardAttention(estimator, score="general", seed=seed)
        self.answer = keras.layers.Dense(LABELS)
        self.reinforce = Reinforce(entropy_bonus=0.01)

    def call(self, inputs: Any, training: bool = False) -> Any:
        query, value, key = inputs
        context, state = self.attention(query, value, key, return_state=True, training=training)
        logits = self.answer(context[:, 0])
        if self.estimator != "reinforce":
            return {"logits": logits}
        return {"logits": logits, **self.attention.alignment.choice(state)._asdict()}

    def compute_loss(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None, training: bool = True
    ) -> Any:
        losses = ops.sparse_categorical_crossentropy(y, y_pred["logits"], from_logits=True)
        loss = ops.mean(losses)
        if self.estimator != "reinforce":
            return loss
        chosen = y_pred["log_probability"], y_pred["entropy"]
        return loss + self.reinforce(-losses, *chosen, training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "estimator": self.estimator, "seed": self.seed}


def train_pointer(
    estimator: str, epochs: int, kernel: np.ndarray | None = None
) -> tuple[Pointer, float]:
    """Train a pointer, whose score starts from a kernel; return it and its test accuracy."""
    model = Pointer(estimator)
    model.compile(keras.optimizers.Adam(0.03))
    inputs, labels = make_pointing_data(2048)
    if kernel is not None:
        model(inputs)
        model.attention.score.set_weights([kernel])
    model.fit(inputs, labels, batch_size=64, epochs=epochs, shuffle=False, verbose=0)
    inputs, labels = make_pointing_data(500, seed=1)
    predictions = model.predict(inputs, verbose=0)["logits"].argmax(-1)
    return model, float((predictions == labels).mean())


@pytest.mark.full
@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_learns_where_to_attend_with_fit(estimator: str, tmp_path: Any) -> None:
    model, accuracy = train_pointer(estimator, 10)
    assert accuracy > 0.95
    model.save(tmp_path / "pointer.keras")
    repeated = keras.models.load_model(tmp_path / "pointer.keras")
    inputs, _ = make_pointing_data(20, seed=2)
    same(repeated(inputs)["logits"], model(inputs)["logits"])
    same(repeated.reinforce.baseline, model.reinforce.baseline)
    assert bool(array(model.reinforce.baseline) < 0) is (estimator == "reinforce")


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_without_estimator_the_pointer_does_not_learn() -> None:
    """The argmax has no gradient, so a score that points to wrong positions stays wrong."""
    wrong = np.roll(np.eye(PLACES, dtype="float32"), 1, axis=1)
    model, accuracy = train_pointer("argmax", 4, wrong)
    same(model.attention.score.weights[0], wrong)
    assert accuracy < 0.6


def test_conformance_weights_are_random() -> None:
    """The case of the oracle attends to different positions for different queries."""
    case = TestHardAttentionNumerics()
    layer, tensors = case.make_random(), case.tensors()
    randomise(layer, 4, scale=2)
    _, weights = case.attend(layer, *tensors)
    assert len(np.unique(weights.argmax(-1))) > 2

# ruff: noqa: RUF012
from __future__ import annotations

import keras

import attention_zoo as az
from attention_zoo.models import PointerGenerator
from tests.layers.running import JAX, randomise
from tests.models.conformance import ModelConformance

SIZES = {"vocabulary_size": 8, "embedding_dim": 6, "units": 8, "copies": 4}
COVERED = {**SIZES, "coverage": {"from_step": 2, "weight": 0.5}}


class TestPointerGenerator(ModelConformance):
    """Of the 12 ids the last four are words that the vocabulary lacks."""

    covers = PointerGenerator
    vocabulary = {"vocabulary_size": 8}
    options = {"embedding_dim": 6, "units": 8, "copies": 4}
    half = "float32"
    rate = 0.01
    changed = {
        "vocabulary_size": 13,
        "embedding_dim": 4,
        "units": 6,
        "copies": 3,
        "coverage": {"from_step": 3, "weight": 0.5},
        "dropout": 0.25,
    }

    @staticmethod
    def fill(model: PointerGenerator) -> None:
        randomise(model, scale=0.4)
        if model.switch is not None:
            model.switch.steps.assign(model.switch.from_step)

    def loss(self, model: PointerGenerator, label_smoothing: float) -> keras.losses.Loss:
        return model.make_loss()


def test_sizes_are_the_papers() -> None:
    """Section 4: 21,499,600 without the pointer, which has 1153 more, and coverage 512."""
    count = 50_000 * 128 + 2 * 4 * 256 * (128 + 256 + 1)
    assert count == 6_400_000 + 788_480
    sizes = {"vocabulary_size": 50_000, "embedding_dim": 128, "units": 256}
    weights = {
        name: sum(v.shape.num_elements() if not JAX else v.size for v in made.trainable_variables)
        for name, made in {
            "plain": PointerGenerator(**sizes, copies=0),
            "pointer": PointerGenerator(**sizes),
            "coverage": az.models.from_preset("pointer_generator_base", vocabulary_size=50_000),
        }.items()
    }
    assert weights == {"plain": 21_499_600, "pointer": 21_500_753, "coverage": 21_501_265}

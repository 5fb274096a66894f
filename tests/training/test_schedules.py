"""Learning rate schedules, by hand."""

from __future__ import annotations

import math

import keras
import pytest

from attention_zoo.training import SCHEDULES, Schedule


def rates(name: str, at: list[int], rate: float = 2.0, warmup: int = 4) -> list[float]:
    schedule = Schedule(name, rate, warmup_steps=warmup, steps=20)
    return [float(schedule(update - 1)) for update in at]


# Updates are counted from 1; warmup ends at the 4th, training at the 20th.
CASES = {
    "constant": ([1, 2, 4, 20], [0.5, 1.0, 2.0, 2.0]),
    "linear": ([1, 4, 12, 20], [0.5, 2.0, 1.0, 0.0]),
    "cosine": ([1, 4, 8, 12, 20], [0.5, 2.0, 1.0 + math.sqrt(0.5), 1.0, 0.0]),
    "inverse_square_root": ([1, 4, 16], [0.5, 2.0, 1.0]),
    "noam": ([1, 4, 16], [0.25, 1.0, 0.5]),
}


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_formula(name: str) -> None:
    updates, expected = CASES[name]
    assert rates(name, updates) == pytest.approx(expected, abs=1e-6)


def test_without_warmup_the_first_update_has_the_full_rate() -> None:
    assert rates("constant", [1, 2], warmup=0) == pytest.approx([2.0, 2.0])


def test_config_round_trip() -> None:
    schedule = Schedule("cosine", 0.5, warmup_steps=3, steps=9)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert [float(again(step)) for step in range(9)] == [float(schedule(step)) for step in range(9)]


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="unknown schedule 'cosin'; did you mean 'cosine'"):
        Schedule("cosin", 1.0, warmup_steps=0, steps=1)

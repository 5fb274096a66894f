"""Values of length penalties, and the properties that the search relies on."""

from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from attention_zoo.decoding.length_penalty import LENGTH_PENALTIES


@pytest.mark.parametrize(
    ("name", "length", "weight", "want"),
    [
        ("none", 7, 2.0, 1.0),
        ("average", 4, 1.0, 4.0),
        ("average", 4, 0.5, 2.0),
        ("gnmt", 1, 0.7, 1.0),
        ("gnmt", 7, 2.0, 4.0),
        ("gnmt", 13, 0.0, 1.0),
    ],
)
def test_penalty_equals_hand_computed_value(
    name: str, length: int, weight: float, want: float
) -> None:
    got = LENGTH_PENALTIES.get(name)(ops.convert_to_tensor(float(length)), weight)
    np.testing.assert_allclose(ops.convert_to_numpy(got), want, rtol=1e-6)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("name", LENGTH_PENALTIES.names())
def test_penalty_is_positive_and_never_decreases(name: str, weight: float) -> None:
    lengths = ops.arange(1, 300, dtype="float32")
    penalties = ops.convert_to_numpy(LENGTH_PENALTIES.get(name)(lengths, weight))
    assert (penalties > 0).all()
    assert (np.diff(penalties) >= 0).all()

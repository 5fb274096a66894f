"""The functions and files of the package that one attention call runs through.

A reader who asks what `MultiHeadAttention(score="additive")` computes opens these files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
from keras import ops

import attention_zoo
from attention_zoo.layers import AdditiveAttention, Attention, MultiHeadAttention

PACKAGE = Path(attention_zoo.__file__).parent
MASK = np.array([[True, True, True, False, False], [True] * 5])


def trace(run: Callable[[], Any]) -> list[CodeType]:
    """Return the code of every Python call into the package, comprehensions included, in order."""
    calls: list[CodeType] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
            calls.append(frame.f_code)

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(previous)
    return calls


def second_call(layer: Any, **options: Any) -> list[CodeType]:
    """Return the trace of the second eager call of a layer."""
    rng = np.random.default_rng(0)
    query, value = (
        ops.convert_to_tensor(rng.normal(size=(2, steps, 8)).astype("float32")) for steps in (3, 5)
    )
    layer(query, value, **options)
    return trace(lambda: layer(query, value, **options))


def files(calls: list[CodeType]) -> set[str]:
    return {Path(code.co_filename).relative_to(PACKAGE).as_posix() for code in calls}


FILES = {
    "layers/attention/attention.py",
    "layers/attention/multi_head_attention.py",
    "layers/attention/steps.py",
    "layers/scores/additive.py",
    "layers/alignments/softmax.py",
    "ops/masking.py",
}


def test_multi_head_attention_is_read_in_six_files() -> None:
    calls = second_call(MultiHeadAttention(num_heads=2, key_dim=4, score="additive"))
    assert files(calls) == FILES
    names = sorted({code.co_qualname for code in calls})
    assert len(set(calls)) <= 25, names
    assert len(calls) <= 40


@pytest.mark.parametrize(
    ("options", "extra_files"),
    [
        ({"value_mask": MASK}, {"ops/compact_gradients.py"}),
        ({"return_attention_scores": True}, set()),
        ({"value_mask": MASK, "return_attention_scores": True}, {"ops/compact_gradients.py"}),
    ],
    ids=["mask", "weights", "mask and weights"],
)
def test_only_masks_need_another_file(options: dict[str, Any], extra_files: set[str]) -> None:
    calls = second_call(MultiHeadAttention(num_heads=2, key_dim=4, score="additive"), **options)
    assert files(calls) == FILES | extra_files


@pytest.mark.parametrize("layer", [AdditiveAttention(4), Attention("additive", units=4)])
def test_attention_without_heads_is_read_in_five_files(layer: Any) -> None:
    calls = second_call(layer)
    assert files(calls) == FILES - {"layers/attention/multi_head_attention.py"}
    assert len(set(calls)) <= 25


def test_shapes_are_checked_when_the_layer_is_built() -> None:
    """A call with the shapes that the layer was built for checks none of them again."""
    layer = MultiHeadAttention(num_heads=2, key_dim=4, score="additive")
    value = ops.ones((2, 5, 8))
    checks = {"check_shape", "check_shapes", "check_built_shapes", "built_widths"}
    first, second = (trace(lambda: layer(value, value)) for _ in range(2))
    assert {code.co_name for code in first} & checks == {"check_shape", "check_shapes"}
    assert not {code.co_name for code in second} & checks
    with pytest.raises(ValueError, match=r"query must be \(batch, steps, 8\), got shape"):
        layer(ops.ones((2, 3, 7)), value)


def test_trace_counts_comprehensions_and_skips_other_packages() -> None:
    calls = trace(lambda: attention_zoo.ops.check_shape("x", (2, 3), ("batch", 3)))
    assert [code.co_name for code in calls][:2] == ["check_shape", "<genexpr>"]
    assert files(calls) == {"ops/arguments.py"}

"""The Transformer that captions images."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_zoo.models import CaptionTransformer
from tests.layers.running import array
from tests.models.captioner_conformance import CaptionerConformance
from tests.models.encoder_conformance import fill
from tests.models.generation_conformance import OTHER_STACK, STACK, TARGET
from tests.refusals import refuses


class TestCaptionTransformer(CaptionerConformance):
    covers = CaptionTransformer
    vocabulary = {"vocabulary_size": 12}
    options = {**STACK, "encoder": {"kind": "cnn", "filters": [4, 6]}}
    small = {"num_layers": 1}
    changed = {
        **OTHER_STACK,
        "vocabulary_size": 10,
        "embedding_dim": 12,
        "encoder": {"kind": "features", "width": 5},
        "positions": "rotary",
        "use_output_bias": True,
    }
    rate = 0.01
    fill = staticmethod(fill)


def test_positions_differ_by_row_and_column() -> None:
    """Equal features at different positions give different memory."""
    options = {**TestCaptionTransformer.options, "encoder": {"kind": "features", "width": 5}}
    model = CaptionTransformer(12, **options)
    grid = np.ones((1, 3, 4, 5), "float32")
    memory = array(model.encode(grid))[0]
    assert memory.shape == (12, 8)
    differences = np.abs(memory[:, None] - memory[None]).max(-1)
    assert (differences + np.eye(12) > 1e-3).all()
    logits = model({"image": grid, "target": TARGET[:1]})
    assert tuple(logits.shape) == (*TARGET[:1].shape, 12)


@refuses(
    ({"embedding_dim": 6}, "^embedding_dim must be a multiple of 4, got 6"),
    ({"vocabulary_size": "12"}, "^vocabulary_size must be an integer of at least 1, got '12'"),
    ({"embedding_dim": "8"}, "^embedding_dim must be an integer of at least 1, got '8'"),
    ({"num_heads": 0}, "^num_heads must be at least 1, got 0"),
    ({"num_layers": "2"}, "^num_layers must be an integer of at least 1, got '2'"),
    ({"num_layers": 0}, "^num_layers must be at least 1, got 0"),
    ({"layer": 5}, "^layer must be a dict of options, .*, got 5"),
    ({"layer": "pre"}, "^layer must be a dict of options, .*, got 'pre'"),
    ({"dropout": "a"}, r"^dropout must be in \[0, 1\), got 'a'"),
)
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    CaptionTransformer(**{"vocabulary_size": 12, **TestCaptionTransformer.options, **options})

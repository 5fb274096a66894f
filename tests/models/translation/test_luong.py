from __future__ import annotations

import numpy as np
import pytest
from keras import ops

from attention_zoo.models import LuongTranslator
from tests.layers.running import array, randomise
from tests.models.generation_conformance import SOURCE, VOCABULARY, GenerationConformance


class TestLuongTranslator(GenerationConformance):
    covers = LuongTranslator
    options = {"embedding_dim": 6, "units": 8, "num_layers": 2}
    changed = {
        "source_vocabulary_size": 13,
        "target_vocabulary_size": 14,
        "embedding_dim": 4,
        "units": 6,
        "num_layers": 1,
        "score": "concat",
        "input_feeding": False,
        "reverse_source": False,
        "bidirectional": True,
        "dropout": 0.25,
    }
    together = {"bidirectional": {"reverse_source": False}}


@pytest.mark.full
@pytest.mark.parametrize(
    ("score", "input_feeding"), [("dot", True), ("general", False), ("concat", True)]
)
def test_attention_weights_follow_source_order(score: str, input_feeding: bool) -> None:
    """For both directions of the encoder, weight j is that of token j, and padding has none."""
    for reverse in (True, False):
        model = LuongTranslator(
            **VOCABULARY, embedding_dim=6, units=8, num_layers=2, score=score,
            input_feeding=input_feeding, reverse_source=reverse,
        )  # fmt: skip
        randomise(model)
        result = model.compiled_search(SOURCE, max_length=3)
        for row in range(len(SOURCE)):
            attention_weights = np.asarray(result.attention)[row, 0, 0]
            assert (attention_weights[SOURCE[row] != 0] > 0).all()
            assert not attention_weights[SOURCE[row] == 0].any()
        changed = SOURCE.copy()
        changed[0, 2] = 10
        memories = [
            array(model.encode(ops.convert_to_tensor(x), False).memory)[0]
            for x in (SOURCE, changed)
        ]
        shifted = np.abs(memories[0] - memories[1]).max(-1) > 1e-6
        assert shifted.tolist() == [j <= 2 if reverse else j >= 2 for j in range(6)]

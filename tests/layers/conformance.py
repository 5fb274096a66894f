"""The conformance suite: a new layer needs one small test class that inherits the tests.

    class TestAdditiveAttention(AttentionConformance):
        covers = AdditiveAttention
        options = {"units": 8}                       # constructor arguments in tests
        changed = {"units": 9, "normalize": True}    # every constructor argument, changed

        def scores(self, weights, query, key):       # the oracle: float64 NumPy
            ...

`tests/layers/attention/test_coverage.py` fails if a public or registered class has no case.
"""

from tests.layers.attention_conformance import AttentionConformance, NumericConformance
from tests.layers.decoder_conformance import DecoderConformance
from tests.layers.layer_conformance import LayerConformance
from tests.layers.part_conformance import AlignmentConformance, ScoreConformance

__all__ = [
    "AlignmentConformance",
    "AttentionConformance",
    "DecoderConformance",
    "LayerConformance",
    "NumericConformance",
    "ScoreConformance",
]

"""The conformance suite: a new layer is one file, and one small class that inherits its laws.

    class TestAdditiveAttention(AttentionConformance):
        covers = AdditiveAttention
        options = {"units": 8}                       # what the tests make it with
        changed = {"units": 9, "normalize": True}    # every constructor argument, changed

        def scores(self, weights, query, key):       # the oracle: float64 NumPy
            ...

`tests/layers/attention/test_coverage.py` fails while something public or registered has no case.
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

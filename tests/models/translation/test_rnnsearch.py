from __future__ import annotations

from attention_zoo.models import RNNSearch
from tests.models.generation_conformance import GenerationConformance


class TestRNNSearch(GenerationConformance):
    covers = RNNSearch
    options = {"embedding_dim": 6, "units": 8, "attention_units": 7, "readout_units": 5}
    changed = {
        "source_vocabulary_size": 13,
        "target_vocabulary_size": 14,
        "embedding_dim": 4,
        "units": 6,
        "attention_units": 3,
        "readout_units": 2,
        "dropout": 0.25,
    }


def test_parameter_counts_follow_the_paper() -> None:
    """Appendix A: E (V, m); U, C and W of three gates; v, W, U of the alignment; the readout."""
    v, m, n, a, readout = 9, 4, 6, 5, 3
    model = RNNSearch(v, v, m, n, a, readout)
    gates = 3 * (n * m + n * n)
    encoder = 2 * (gates + 6 * n)
    decoder = gates + 6 * n + 3 * n * 2 * n
    attention, bridge = a + n * a + 2 * n * a, n * n + n
    out = 2 * readout * (n + m + 2 * n) + 2 * readout + readout * v
    assert model.count_params() == 2 * v * m + encoder + decoder + attention + bridge + out

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.models import Seq2Seq
from tests.models.generation_conformance import (
    SOURCE,
    TARGET,
    VOCABULARY,
    ModelConformance,
    forward,
)
from tests.variants import numerics_only

OTHER = {
    "source_vocabulary_size": 13,
    "target_vocabulary_size": 14,
    "cell": "simple_rnn",
    "embedding_dim": 4,
    "units": 6,
    "num_layers": 3,
    "reverse_source": True,
    "bidirectional": True,
    "dropout": 0.25,
}


class TestSeq2Seq(ModelConformance):
    """Sutskever's: the vector is where the decoder starts."""

    covers = Seq2Seq
    options = {"embedding_dim": 6, "units": 8, "num_layers": 2}
    changed = {**OTHER, "context": "every_step"}


@numerics_only
class TestSeq2SeqEveryStep(ModelConformance):
    """Cho's: the vector is read at every step."""

    covers = Seq2Seq
    options = {"embedding_dim": 6, "units": 8, "cell": "gru", "context": "every_step"}
    changed = {**OTHER, "context": "initial_state"}
    # The presets are the model's: the other case runs them.
    test_pads_cannot_be_seen = None
    test_batch_cannot_be_seen = None
    test_steps_are_the_whole = None
    test_later_tokens_cannot_be_seen = None
    test_greedy_search_takes_the_best_token = None
    test_beam_search_tells_where_each_hypothesis_looked = None


def test_there_is_no_attention_to_see() -> None:
    model = Seq2Seq(**VOCABULARY, embedding_dim=4, units=6)
    assert model.compiled_search(SOURCE, max_length=3).attention is None


def test_the_source_is_seen_through_its_vector() -> None:
    for context in ("initial_state", "every_step"):
        model = Seq2Seq(**VOCABULARY, embedding_dim=4, units=6, context=context)
        changed = SOURCE.copy()
        changed[:, 0] = 10
        moved = np.abs(forward(model, SOURCE, TARGET) - forward(model, changed, TARGET))
        assert (moved[TARGET != 0].max(-1) > 1e-6).all()


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="context must be one of initial_state, every_step"):
        Seq2Seq(**VOCABULARY, context="never")
    with pytest.raises(ValueError, match="cell must be one of lstm, gru, simple_rnn"):
        Seq2Seq(**VOCABULARY, cell="lstn")

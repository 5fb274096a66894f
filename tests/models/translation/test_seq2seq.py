from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.models import Seq2Seq
from tests.models.generation_conformance import (
    SOURCE,
    TARGET,
    VOCABULARY,
    GenerationConformance,
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


class TestSeq2Seq(GenerationConformance):
    """Sutskever et al.: the vector is the initial state of the decoder."""

    covers = Seq2Seq
    options = {"embedding_dim": 6, "units": 8, "num_layers": 2}
    changed = {**OTHER, "context": "every_step"}


@numerics_only
class TestSeq2SeqEveryStep(GenerationConformance):
    """Cho et al.: the vector is an input of every step."""

    covers = Seq2Seq
    options = {"embedding_dim": 6, "units": 8, "cell": "gru", "context": "every_step"}
    changed = {**OTHER, "context": "initial_state"}
    # The other case tests the presets.
    test_padding_does_not_affect_outputs = None
    test_batch_members_do_not_affect_each_other = None
    test_steps_equal_the_call = None
    test_later_tokens_do_not_affect_outputs = None
    test_greedy_search_takes_the_best_token = None
    test_beam_search_returns_attention_of_each_hypothesis = None


def test_no_attention_weights_are_returned() -> None:
    model = Seq2Seq(**VOCABULARY, embedding_dim=4, units=6)
    assert model.compiled_search(SOURCE, max_length=3).attention is None


def test_decoder_sees_the_source_only_through_its_vector() -> None:
    for context in ("initial_state", "every_step"):
        model = Seq2Seq(**VOCABULARY, embedding_dim=4, units=6, context=context)
        changed = SOURCE.copy()
        changed[:, 0] = 10
        shifted = np.abs(forward(model, SOURCE, TARGET) - forward(model, changed, TARGET))
        assert (shifted[TARGET != 0].max(-1) > 1e-6).all()


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="context must be one of initial_state, every_step"):
        Seq2Seq(**VOCABULARY, context="never")
    with pytest.raises(ValueError, match="cell must be one of lstm, gru, simple_rnn"):
        Seq2Seq(**VOCABULARY, cell="lstn")

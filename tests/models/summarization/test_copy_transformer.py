"""The Transformer with a pointer copies out-of-vocabulary words; without, it is standard."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.losses import CopyCrossEntropy, SequenceCrossEntropy
from attention_zoo.models import CopyTransformer, Transformer
from tests.layers.running import JAX, array, close
from tests.models.encoder_conformance import fill
from tests.models.generation_conformance import (
    END,
    OTHER_STACK,
    SOURCE,
    STACK,
    START,
    TARGET,
    GenerationConformance,
    forward,
)
from tests.refusals import refuses

EXTENDED = np.array([[4, 9, 6, 10, 9, 8], [9, 4, 5, 0, 0, 0], [5, 0, 0, 0, 0, 0]], "int32")
"""Sources with the out-of-vocabulary words 9 and 10; the vocabulary has 9 words."""


class TestCopyTransformer(GenerationConformance):
    covers = CopyTransformer
    vocabulary = {"copies": 3, "vocabulary_size": 9}
    options = STACK
    small = {"num_layers": 1}
    changed = {**OTHER_STACK, "vocabulary_size": 10, "copies": 4, "positions": "rotary"}
    rate = 0.01
    fill = staticmethod(fill)
    half = "float32"

    def loss(self, model: Any, label_smoothing: float) -> keras.losses.Loss:
        return model.make_loss()

    @pytest.mark.full
    def test_learns(self) -> None:
        """The target is the second word of the source, possibly out of vocabulary."""
        rng = np.random.default_rng(0)
        source = np.array([rng.permutation(8)[:3] for _ in range(256)], "int32") + 4
        source = np.where(source >= 9, 9 + np.cumsum(source >= 9, 1) - 1, source).astype("int32")
        target = np.array([[START, word] for word in source[:, 1]], "int32")
        labels = np.array([[word, END] for word in source[:, 1]], "int32")
        model = self.make(embedding_dim=16, units=32, num_layers=1, dropout=0.0)
        model.compile(keras.optimizers.Adam(0.01), model.make_loss(), jit_compile=JAX)
        data = {"source": source, "target": target}
        model.fit(data, labels, batch_size=32, epochs=12, shuffle=False, verbose=0)
        beyond = source[:, 1] >= 9
        assert beyond.sum() > 60
        result = forward(model, source, target)[beyond, 0].argmax(-1)
        assert (result == source[beyond, 1]).mean() > 0.95
        trace = model.trace(source[beyond], labels[beyond])
        assert array(trace.copied)[:, 0].mean() > 0.95
        assert (array(trace.attention)[:, 0].argmax(-1) == 1).mean() > 0.9


def tiny(**options: Any) -> CopyTransformer:
    return TestCopyTransformer().make_random(**options)


@pytest.mark.every_backend
def test_probabilities_cover_all_words_of_the_source() -> None:
    model = tiny()
    log_probs = forward(model, EXTENDED, TARGET)
    assert log_probs.shape == (3, 5, 12)
    np.testing.assert_allclose(np.exp(log_probs).sum(-1), 1, atol=1e-5)
    valid = log_probs[0, 0, 9:] > np.log(1e-6)
    assert valid.tolist() == [True, True, False], "only what stands in the source is copied"
    assert (log_probs[1, :, 10:] < np.log(1e-6)).all()


def test_out_of_vocabulary_words_share_an_embedding_and_are_copied_separately() -> None:
    model, other = tiny(), EXTENDED.copy()
    other[0, EXTENDED[0] == 9] = 11
    one, two = (np.exp(forward(model, ids, TARGET)[0]) for ids in (EXTENDED, other))
    np.testing.assert_allclose(two[:, :9], one[:, :9], atol=1e-6)
    np.testing.assert_allclose(two[:, 11], one[:, 9], atol=1e-6)
    target = np.where(TARGET == 9, 1, TARGET)
    np.testing.assert_array_equal(forward(model, SOURCE, TARGET), forward(model, SOURCE, target))


def test_pointer_attention_has_one_head() -> None:
    """With the full width, without biases."""
    pointer = tiny().pointer
    assert {tuple(kernel.shape) for kernel in pointer.weights} == {(8, 1, 8), (1, 8, 8)}


@pytest.mark.full
def test_without_copying_it_is_a_transformer() -> None:
    model = tiny(copies=0)
    words = {"source_vocabulary_size": 9, "target_vocabulary_size": 9}
    plain = Transformer(**words, **STACK, tie="all")
    assert model.count_params() == plain.count_params()
    plain.set_weights(model.get_weights())
    source, target = SOURCE % 9, TARGET % 9
    np.testing.assert_array_equal(forward(model, source, target), forward(plain, source, target))
    options = {"beam_width": 2, "n_best": 2, "max_length": 5}
    result, expected = (one.compiled_search(source, **options) for one in (model, plain))
    np.testing.assert_array_equal(result.tokens, expected.tokens)
    trace = model.trace(source, result.tokens[:, 0])
    for row, length in enumerate(result.lengths[:, 0]):
        close(result.attention[row, 0, :length], array(trace.attention)[row, :length], 1e-5)
    assert not array(trace.copied).any()
    assert isinstance(model.make_loss(0.1), SequenceCrossEntropy)
    assert isinstance(tiny().make_loss(), CopyCrossEntropy)


@pytest.mark.full
def test_trace_returns_the_attention_of_the_search() -> None:
    """Attention, and the fraction of copying in each token's probability, by hand."""
    model = tiny()
    result = model.compiled_search(EXTENDED, beam_width=2, max_length=5)
    tokens = array(result.tokens)[:, 0]
    trace = model.compiled_trace(EXTENDED, tokens)
    target = np.concatenate([np.full((3, 1), START), tokens[:, :-1]], 1).astype("int32")
    output = model.decode_teacher_forced(
        ops.convert_to_tensor(EXTENDED), ops.convert_to_tensor(target)
    )
    gate = 1 / (1 + np.exp(-array(output.gate)))
    attention_weights = array(result.attention)[:, 0]
    for row, length in enumerate(array(result.lengths)[:, 0]):
        close(trace.attention[row, :length], attention_weights[row, :length], 1e-5)
        for t in range(length):
            mass = attention_weights[row, t, EXTENDED[row] == tokens[row, t]].sum()
            copied = (1 - gate[row, t]) * mass
            probability = np.exp(forward(model, EXTENDED, target)[row, t, tokens[row, t]])
            assert trace.copied[row, t] == pytest.approx(copied / probability, abs=0.02)
        assert not trace.copied[row, length:].any()


@refuses(
    ({"copies": -1}, "copies must be at least 0, got -1"),
    ({"num_heads": 3}, "num_heads must divide embedding_dim, got num_heads=3, embedding_dim=8"),
    ({"positions": "rotery"}, "unknown positions 'rotery'; did you mean 'rotary'"),
    ({"layer": {"nrm": "rms"}}, "layer has no option 'nrm'; did you mean 'norm'"),
)
def test_invalid_sizes_are_rejected(options: dict) -> None:
    tiny(**options)

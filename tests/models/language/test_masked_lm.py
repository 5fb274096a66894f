from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.models import BERT, MaskedLM
from tests.layers.running import JAX, array
from tests.models.encoder_conformance import TOKENS, EncoderConformance, outputs
from tests.models.language.test_bert import TINY
from tests.models.model_conformance import assert_every_weight_changes


class TestMaskedLM(EncoderConformance):
    covers = MaskedLM
    options = TINY
    changed = {"bert": {**TINY, "num_layers": 1}}

    def make(self, **options: Any) -> Any:
        inputs = {name: options.pop(name) for name in ("name", "dtype") if name in options}
        return MaskedLM(options.pop("bert", None) or {**TINY, **options}, **inputs)

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        return {"tokens": TOKENS}, TOKENS, az.losses.SequenceCrossEntropy()

    @pytest.mark.full
    @pytest.mark.every_backend
    def test_trains_compiled(self) -> None:
        model = self.make(dropout=0.2, num_layers=1)
        model.compile(optimizer="adam", loss=az.losses.SequenceCrossEntropy(), jit_compile=True)
        with assert_every_weight_changes(model):
            assert np.isfinite(model.train_on_batch({"tokens": TOKENS}, TOKENS))


@pytest.mark.full
def test_learns_to_copy() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(4, 12, size=(128, 5)).astype("int32")
    model = MaskedLM({**TINY, "embedding_dim": 16, "num_layers": 1, "dropout": 0.0})
    model.compile(keras.optimizers.Adam(0.03), az.losses.SequenceCrossEntropy(), jit_compile=JAX)
    losses = model.fit({"tokens": words}, words, batch_size=32, epochs=20, shuffle=False, verbose=0)
    assert losses.history["loss"][0] > 1.5
    assert losses.history["loss"][-1] < 0.5


def test_token_embedding_is_tied_to_the_output() -> None:
    model = MaskedLM(TINY)
    tables = [v for v in model.trainable_variables if v.shape == (13, 8)]
    assert len(tables) == 1
    assert model.bias.name == "bias"
    before = outputs(model, TOKENS)[0]
    tables[0].assign(2.0 * tables[0])
    assert np.abs(outputs(model, TOKENS)[0] - before).max() > 1e-3


def test_wraps_an_existing_bert() -> None:
    bert = BERT(**TINY)
    model = MaskedLM(bert)
    assert model.bert is bert
    assert model.settings == {"bert": bert.settings}
    assert model.count_params() == bert.count_params() + (8 * 8 + 8) + 2 * 8 + 13
    with pytest.raises(ValueError, match="bert must be a BERT or its arguments, got 'bert_tiny'"):
        MaskedLM("bert_tiny")


def test_presets_equal_those_of_bert() -> None:
    model = MaskedLM.from_preset("bert_tiny", vocabulary_size=7, embedding_dim=4, units=4)
    assert model.bert.settings["num_layers"] == 2
    assert model.norm.epsilon == 1e-12
    with pytest.raises(ValueError, match="Transformer has no argument"):
        MaskedLM.from_preset("transformer_tiny", vocabulary_size=7)


def test_policy_applies_to_all_sublayers(tmp_path: Any) -> None:
    MaskedLM(TINY).save_to_preset(tmp_path)
    sizes = {"vocabulary_size": 7, "embedding_dim": 4, "units": 4}
    for model in (
        MaskedLM.from_preset(tmp_path, dtype="mixed_bfloat16", name="teller"),
        MaskedLM.from_preset("bert_tiny", **sizes, dtype="mixed_bfloat16", name="teller"),
    ):
        assert model.name == "teller"
        for part in (model, model.bert, model.dense, model.bert.encoder[0]):
            assert part.compute_dtype == "bfloat16"


def test_arguments_of_the_bert_are_merged(tmp_path: Any) -> None:
    model = MaskedLM(TINY)
    model.save_to_preset(tmp_path)
    repeated = MaskedLM.from_preset(tmp_path, dropout=0.3)
    assert repeated.bert.settings == {**model.bert.settings, "dropout": 0.3}
    np.testing.assert_array_equal(outputs(repeated, TOKENS)[0], outputs(model, TOKENS)[0])


def test_projection_applies_to_logits() -> None:
    model = MaskedLM(TINY)
    model.bias.assign(np.arange(13.0))
    of = model({"tokens": TOKENS}, project=False)
    np.testing.assert_allclose(array(of.logits()), outputs(model, TOKENS)[0], atol=1e-5)


def test_gated_head_uses_the_plain_activation() -> None:
    model = MaskedLM({**TINY, "layer": {"activation": "swiglu", "norm": "rms"}})
    assert model.dense.activation is keras.activations.silu
    assert isinstance(model.norm, keras.layers.RMSNormalization)

"""A BERT checkpoint of `transformers` gives the same outputs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import inspection, models
from attention_zoo.models import BERT, MaskedLM
from attention_zoo.models.public.tensors import FILE, Tensors
from tests.layers.running import array
from tests.models.public.checkpoints import GOLDEN, copy_of, expected, write_safetensors

THERE = GOLDEN / "bert"


def check(folder: Path, model: Any) -> None:
    """Outputs equal those of the checkpoint at every token."""
    want = expected(folder)
    tokens, valid = want["tokens"], want["tokens"] != 0
    result = model({"tokens": tokens, "segments": want["segments"]})
    if isinstance(model, MaskedLM):
        result = {"logits": result}
    for name, output in result.items():
        got, there = array(output), want[name]
        if name != "pooled":
            got, there = got[valid], there[valid]
        np.testing.assert_allclose(got, there, atol=1e-5 * np.abs(there).max(), rtol=0)


def test_outputs_equal_those_of_transformers() -> None:
    model = models.from_preset(THERE)
    assert type(model) is MaskedLM
    assert model.bert.pooler is None
    assert model.bert.settings["max_length"] == 12
    check(THERE, model)


@pytest.mark.parametrize("load", [BERT.from_preset, lambda f: models.from_public(f, BERT)])
def test_encoder_weights_only(load: Any) -> None:
    model = load(THERE)
    assert type(model) is BERT
    assert set(model({"tokens": expected(THERE)["tokens"]})) == {"hidden", "pooled"}
    check(THERE, model)


def test_custom_arguments() -> None:
    bert = BERT.from_preset(THERE, dropout=0.4, use_pooler=False, dtype="mixed_bfloat16")
    assert bert.settings["dropout"] == 0.4
    assert bert.pooler is None
    assert bert.dtype_policy.name == "mixed_bfloat16"
    both = MaskedLM.from_preset(THERE, use_pooler=True)
    assert both.bert.pooler is not None
    check(THERE, both)
    check(THERE, both.bert)
    with pytest.raises(ValueError, match="BERT has no argument 'drop'; did you mean 'dropout'"):
        BERT.from_preset(THERE, drop=0.1)
    with pytest.raises(ValueError, match="BERT has no argument 'drop'"):
        MaskedLM.from_preset(THERE, drop=0.1)
    with pytest.raises(ValueError, match=r"position_embeddings.weight has shape \(12, 16\)"):
        BERT.from_preset(THERE, max_length=20)


def test_names_without_the_model_and_of_old(tmp_path: Path) -> None:
    """`BertModel` has no prefix; early releases call scale and shift gamma and beta."""
    folder = copy_of("bert", tmp_path)
    tensors = {
        name.removeprefix("bert.")
        .replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta"): array
        for name, array in Tensors(THERE).items()
        if not name.startswith("cls.")
    }
    tensors["embeddings.position_ids"] = np.arange(12)
    write_safetensors(folder / FILE, tensors)
    model = models.from_preset(folder)
    assert type(model) is BERT
    check(folder, model)
    with pytest.raises(ValueError, match=r"tensor cls.predictions.transform.dense.weight is miss"):
        MaskedLM.from_preset(folder)


def test_saved_again_in_our_format(tmp_path: Path) -> None:
    models.from_public(THERE).save_to_preset(tmp_path)
    check(THERE, models.from_preset(tmp_path))


def test_missing_unexpected_and_misshapen_tensors_are_rejected(tmp_path: Path) -> None:
    folder, tensors = copy_of("bert", tmp_path), dict(Tensors(THERE))
    bias = "bert.encoder.layer.1.attention.self.key.bias"
    write_safetensors(folder / FILE, {name: x for name, x in tensors.items() if name != bias})
    with pytest.raises(ValueError, match=r"tensor encoder.layer.1.attention.self.key.bias is miss"):
        models.from_preset(folder)
    write_safetensors(folder / FILE, {**tensors, "bert.encoder.layer.2.x": tensors[bias]})
    with pytest.raises(ValueError, match=r"such as encoder.layer.2.x;"):
        models.from_preset(folder)
    write_safetensors(folder / FILE, {**tensors, bias: tensors[bias][:-1]})
    with pytest.raises(ValueError, match=r"key.bias has shape \(15,\), .*require \(16,\)"):
        models.from_preset(folder)


def test_weights_are_float32_under_any_policy() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    model = BERT.from_preset(THERE)
    assert {v.dtype for v in model.trainable_variables} == {"float32"}


def test_recorded_weights_equal_those_of_transformers() -> None:
    """The file was written by `attentions_by_transformers.py`."""
    model = models.BERT.from_preset(GOLDEN / "bert")
    with np.load(GOLDEN / "bert" / "attentions.npz") as file:
        tokens = file["tokens"].astype("int32")
        expected = [file[f"layer_{n}"] for n in range(len(file.files) - 1)]
    assert (tokens == 0).any(), "the shorter text has padding"
    with inspection.record(model) as weights:
        model({"tokens": tokens})
    is_token = (tokens != 0)[:, None, :, None]
    for (entry,), layer in zip(weights.values(), expected, strict=True):
        np.testing.assert_allclose(entry.weights, np.where(is_token, layer, 0), atol=1e-5)

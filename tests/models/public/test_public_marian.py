"""A Marian checkpoint of `transformers` predicts the same next tokens here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo import models
from attention_zoo.models import Transformer
from attention_zoo.models.public.encoders import PADDING_LOGIT
from tests.layers.running import array
from tests.models.public.checkpoints import GOLDEN, change_config, copy_of, expected
from tests.refusals import refuses


def list_checkpoint_ids(folder: Path) -> list[int]:
    """Return the id in the checkpoint for each token id from 1 on: `<unk>`, `<pad>`, `</s>`, ..."""
    vocabulary = json.loads((folder / "vocab.json").read_text())
    special = [vocabulary[piece] for piece in ("<unk>", "<pad>", "</s>")]
    return [*special, *(n for n in range(len(vocabulary)) if n not in special)]


def check(folder: Path, model: Any) -> None:
    """Assert that the logits are the golden ones, in the order of the library's token ids."""
    golden, ids = expected(folder), list_checkpoint_ids(folder)
    to_token_id = {number: token_id for token_id, number in enumerate(ids, 1)}
    source, target = (np.vectorize(to_token_id.get)(golden[x]) for x in ("source", "target"))
    assert (source == 3).any(), "id 0 of the checkpoint is in the texts"
    source = np.where(golden["source"] == len(ids) - 1, 0, source)
    logits, want = array(model({"source": source, "target": target})), golden["logits"][..., ids]
    np.testing.assert_allclose(logits[..., 1:], want, atol=1e-5 * np.abs(want).max(), rtol=0)
    np.testing.assert_allclose(logits[..., 0], PADDING_LOGIT)


def test_logits_equal_those_of_transformers(tmp_path: Path) -> None:
    model = models.from_preset(GOLDEN / "marian")
    assert type(model) is Transformer
    check(GOLDEN / "marian", model)
    model.save_to_preset(tmp_path)
    check(GOLDEN / "marian", models.from_preset(tmp_path))


def test_search_never_returns_padding_or_start() -> None:
    model = Transformer.from_preset(GOLDEN / "marian")
    source = np.array([[5, 6, 7, 3], [9, 3, 0, 0]], "int32")
    result = model.search(source, beam_width=3, max_length=6)
    for tokens, length in zip(result.tokens[:, 0], result.lengths[:, 0], strict=True):
        assert (array(tokens)[: int(length)] > 2).all() or 1 in array(tokens)


@refuses(
    ({"scale_embedding": False}, "scale_embedding=False is not supported, only True"),
    ({"normalize_before": True}, "normalize_before=True is not supported, only False"),
    ({"decoder_layers": 3}, "tensor decoder.layers.2.self_attn.q_proj.weight is missing"),
    ({"decoder_start_token_id": 0}, "decoder_start_token_id=0 is not supported, only"),
    ({"share_encoder_decoder_embeddings": False}, "target_vocab.json: has no id of <unk>"),
    ({"activation_function": "swoosh"}, "activation_function='swoosh' is not supported"),
    ({"d_model": None}, "config.json: d_model is missing"),
    ({"eos_token_id": None}, "config.json: eos_token_id is missing"),
)
def test_unsupported_configs_are_rejected(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = copy_of("marian", tmp_path)
    change_config(folder, **changes)
    models.from_preset(folder)


def test_what_does_not_fit_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be loaded as BERT; use Transformer"):
        models.BERT.from_preset(GOLDEN / "marian")
    with pytest.raises(ValueError, match=r"source.spm: No such file or directory; copy it from"):
        az.load(GOLDEN / "marian")
    folder = copy_of("marian", tmp_path)
    (folder / "vocab.json").write_text("{}")
    with pytest.raises(ValueError, match=r"vocab.json: has no id of <unk>"):
        models.from_preset(folder)

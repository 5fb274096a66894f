"""BART and T5 checkpoints of `transformers` predict the same next tokens here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.models import Transformer
from attention_zoo.models.public.encoders import PADDING_LOGIT
from attention_zoo.models.public.tensors import Tensors
from tests.layers.running import array
from tests.models.public.checkpoints import GOLDEN, change_config, copy_of, write_safetensors
from tests.refusals import refuses

NAMES = ("bart", "t5_gated", "t5")
MISSING = -1


def list_checkpoint_ids(folder: Path) -> list[int]:
    """Return the id in the checkpoint for each token id from 1 on; `MISSING` for none."""
    config = json.loads((folder / "config.json").read_text())
    is_bart = config["model_type"] == "bart"
    special = [3, MISSING, 2] if is_bart else [2, 0, 1]
    others = {1, 2, 3} if is_bart else {0, 1, 2}
    return [*special, *(n for n in range(config["vocab_size"]) if n not in others)]


def check(folder: Path, model: Any) -> None:
    """Assert that the logits are the golden ones, in the order of the library's token ids."""
    golden, ids = np.load(folder / "expected.npz"), list_checkpoint_ids(folder)
    pad = json.loads((folder / "config.json").read_text())["pad_token_id"]
    to_token_id = {number: token_id for token_id, number in enumerate(ids, 1)}
    source = [[0 if x == pad else to_token_id[x] for x in row] for row in golden["source"]]
    target = [[2, *(to_token_id[x] for x in row[1:])] for row in golden["target"]]
    logits = array(model({"source": np.array(source), "target": np.array(target)}))
    known = [token_id for token_id, number in enumerate(ids, 1) if number != MISSING]
    want = golden["logits"][..., [ids[token_id - 1] for token_id in known]]
    np.testing.assert_allclose(logits[..., known], want, atol=1e-5 * np.abs(want).max(), rtol=0)
    assert logits[..., 0].max() < PADDING_LOGIT / 2


@pytest.mark.parametrize("name", NAMES)
def test_logits_equal_those_of_transformers(name: str, tmp_path: Path) -> None:
    model = models.from_preset(GOLDEN / name)
    assert type(model) is Transformer
    check(GOLDEN / name, model)
    model.save_to_preset(tmp_path)
    check(GOLDEN / name, models.from_preset(tmp_path))


def test_id_0_of_a_bart_is_in_the_texts() -> None:
    assert (np.load(GOLDEN / "bart/expected.npz")["source"] == 0).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_search_scores_as_the_whole_decoder(name: str) -> None:
    """The KV cache has the positions, norms and head widths of the decoder."""
    model = models.from_preset(GOLDEN / name)
    source = np.array([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]])
    result = model.search(source, beam_width=2, max_length=6, banned_tokens=(3,))
    tokens = array(result.tokens[:, 0])
    target = np.concatenate([np.full((2, 1), 2), tokens[:, :-1]], axis=1)
    logits = array(model({"source": source, "target": target})).astype("float64")
    logits[..., [0, 2]] = -np.inf
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    scores = np.take_along_axis(log_probs, tokens[..., None], axis=2)[..., 0].sum(1)
    np.testing.assert_allclose(array(result.scores[:, 0]), scores, rtol=1e-5)


@pytest.mark.full
def test_a_search_ends_at_the_last_learned_position() -> None:
    model = models.from_preset(GOLDEN / "bart")
    options = {"max_length": 80, "banned_tokens": (3,)}
    result = model.search(np.array([[5, 3]]), **options)
    assert array(result.lengths).tolist() == [[64]]
    assert np.isfinite(array(result.scores)).all()
    with pytest.raises(ValueError, match=r"sequence length 65 of inputs.*exceeds max_length=64"):
        model.search(np.full((1, 65), 5))


def test_a_larger_vocabulary_has_no_further_tokens_in_outputs() -> None:
    folder = GOLDEN / "bart"
    size = models.from_preset(folder).target_vocabulary_size + 1
    sizes = {"source_vocabulary_size": size, "target_vocabulary_size": size}
    model = models.from_preset(folder, **sizes)
    check(folder, model)
    logits = array(model({"source": np.array([[5, 3]]), "target": np.array([[2]])}))
    np.testing.assert_allclose(logits[..., -1], PADDING_LOGIT)


def test_a_bart_without_a_head(tmp_path: Path) -> None:
    """As `facebook/bart-base`: no prefix, no bias, and the embeddings under another name."""
    folder, golden = copy_of("bart", tmp_path), Tensors(GOLDEN / "bart")
    tensors = {name.removeprefix("model."): golden[name] for name in golden}
    del tensors["final_logits_bias"]
    tensors["encoder.embed_tokens.weight"] = tensors.pop("shared.weight")
    write_safetensors(folder / "model.safetensors", tensors)
    check(folder, models.from_preset(folder))  # the golden biases are 0
    tensors["final_logits_bias"] = np.zeros((1, 5), "float32")
    write_safetensors(folder / "model.safetensors", tensors)
    with pytest.raises(ValueError, match=r"tensor final_logits_bias has shape \(1, 5\), but conf"):
        models.from_preset(folder)
    del tensors["final_logits_bias"]
    tensors["decoder.embed_tokens.weight"] = tensors["encoder.embed_tokens.weight"] + 1
    write_safetensors(folder / "model.safetensors", tensors)
    with pytest.raises(ValueError, match=r"decoder.embed_tokens.weight is not equal to shared.wei"):
        models.from_preset(folder)


def test_layers_of_a_t5_share_their_positions() -> None:
    model = models.from_preset(GOLDEN / "t5")
    first, second = (layer.attention.positions for layer in model.encoder)
    assert first is second
    assert (first.num_buckets, first.max_distance, first.bidirectional) == (8, 16, True)
    assert not model.decoder[0].attention.positions.bidirectional


@refuses(
    ("bart", {"normalize_before": True}, "normalize_before=True is not supported"),
    ("bart", {"normalize_embedding": False}, "normalize_embedding=False is not"),
    ("bart", {"decoder_ffn_dim": 65}, "decoder_ffn_dim=65 is not supported, only 64"),
    ("bart", {"activation_function": "mish"}, "activation_function='mish' is not"),
    ("bart", {"decoder_start_token_id": None}, "decoder_start_token_id is missing"),
    ("bart", {"max_position_embeddings": 63}, "embed_positions.weight has shape"),
    ("t5", {"feed_forward_proj": "gated-tanh"}, "feed_forward_proj='gated-tanh' is not supported"),
    ("t5", {"decoder_start_token_id": 1}, "decoder_start_token_id=1 is not supported, only 0"),
    ("t5", {"eos_token_id": [1]}, r"eos_token_id=\[1\] is not supported, only a token id"),
    ("t5", {"d_kv": None}, "config.json: d_kv is missing"),
    ("t5", {"num_layers": 3}, "tensor encoder.block.2.layer.0"),
)
def test_unsupported_configs_are_rejected(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = copy_of(name, tmp_path)
    change_config(folder, **changes)
    models.from_preset(folder)


@pytest.mark.parametrize(("name", "kind"), [("bart", "learned"), ("t5", "t5")])
def test_other_positions_are_rejected(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"has {kind} positions, not 'rotary'; remove the pos"):
        models.from_preset(GOLDEN / name, positions="rotary")


@pytest.mark.parametrize("name", NAMES)
def test_other_classes_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be loaded as BERT; use Transformer"):
        models.BERT.from_preset(GOLDEN / name)

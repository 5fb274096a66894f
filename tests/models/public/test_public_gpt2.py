"""A GPT-2 checkpoint of `transformers` predicts the same next tokens here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.models import GPT
from attention_zoo.models.public.tensors import FILE, Tensors
from tests.layers.running import array
from tests.models.public.checkpoints import GOLDEN, copy_of, expected, write_safetensors

THERE = GOLDEN / "gpt2"


def check(folder: Path, model: Any) -> None:
    """Logits equal those of the checkpoint, in the order of our token ids."""
    want = expected(folder)
    last = want["logits"].shape[-1] - 1
    tokens = np.where(want["tokens"] == last, 3, want["tokens"] + 4)
    assert (tokens[:, 0] == 3).all()
    tokens[:, 0] = 2
    result, scale = array(model({"tokens": tokens})), 1e-5 * np.abs(want["logits"]).max()
    assert result.shape[-1] == last + 4
    np.testing.assert_allclose(result[..., 4:], want["logits"][..., :-1], atol=scale, rtol=0)
    for end in (2, 3):
        np.testing.assert_allclose(result[..., end], want["logits"][..., -1], atol=scale, rtol=0)
    for nothing in (0, 1):
        mean = want["logits"].mean(axis=-1)
        np.testing.assert_allclose(result[..., nothing], mean, atol=scale, rtol=0)


def test_logits_equal_those_of_transformers() -> None:
    model = models.from_preset(THERE)
    assert type(model) is GPT
    check(THERE, model)
    check(THERE, GPT.from_preset(THERE, dropout=0.3))


@pytest.mark.full
def test_tokenizer_ids_match_the_model() -> None:
    tokenizer, model = load_tokenizer(THERE), models.from_preset(THERE)
    assert tokenizer.vocabulary_size == model.settings["vocabulary_size"]
    (ids,) = tokenizer.encode(["the cat"])
    result = model.compiled_search(np.array([[2, *ids]]), max_length=3)
    assert isinstance(tokenizer.decode(result.tokens[0, 0]), str)


def test_names_with_the_model_the_mask_and_the_head(tmp_path: Path) -> None:
    folder = copy_of("gpt2", tmp_path)
    plain = {name.removeprefix("transformer."): x for name, x in Tensors(THERE).items()}
    plain["h.0.attn.bias"] = np.ones((1, 1, 12, 12), "float32")
    plain["h.1.attn.masked_bias"] = np.float32(-1e4).reshape(())
    write_safetensors(folder / FILE, plain)
    check(folder, models.from_preset(folder))
    head = {f"transformer.{name}": x for name, x in plain.items()}
    write_safetensors(folder / FILE, {**head, "lm_head.weight": plain["wte.weight"]})
    check(folder, models.from_preset(folder))
    del head["transformer.h.1.ln_2.bias"]
    write_safetensors(folder / FILE, head)
    with pytest.raises(ValueError, match=r"tensor h.1.ln_2.bias is missing"):
        models.from_preset(folder)

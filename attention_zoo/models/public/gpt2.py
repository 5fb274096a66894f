"""Loader of released GPT-2s: maps their config and tensors to this library's names.

They have no padding and no start token: `<|endoftext|>`, the last token, delimits texts on both
sides. This library's four special tokens replace it, as in `data.public_tokenizers`:

| row here | value |
|---|---|
| 0 padding, 1 unknown | the mean of all rows: at most as likely as a token on average |
| 2 start, 3 end | row of `<|endoftext|>` |
| i + 4 | row i, except the last |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_zoo.models.language.gpt import GPT
from attention_zoo.models.presets import merge
from attention_zoo.models.public.loading import FAMILIES, Checkpoint
from attention_zoo.models.public.weight_mapping import (
    Array,
    WeightMapping,
    assign_weights,
    map_norm,
    map_table,
    map_vector,
)

NAMES = {
    "embedding_dim": "n_embd",
    "num_heads": "n_head",
    "num_layers": "n_layer",
    "max_length": "n_positions",
}
IGNORED = (
    r"h\.\d+\.attn\.(masked_)?bias",  # the causal mask
    r"lm_head\.weight",  # duplicate of the tied table
)
NUM_SPECIAL = 4


@FAMILIES.register("gpt2")
def build_gpt2(checkpoint: Checkpoint, cls: type | None, overrides: dict[str, Any]) -> Any:
    """Build a `GPT` with four special tokens first; two of them are `<|endoftext|>`."""
    if cls not in (None, GPT):
        raise ValueError(f"{checkpoint.folder}: is a GPT, not a {cls.__name__}")
    model = GPT(**merge(GPT, _settings(checkpoint), overrides))
    checkpoint.check_positions(model.settings["positions"])
    tensors = checkpoint.tensors.renamed(lambda name: name.removeprefix("transformer."))
    assign_weights(map_gpt2(model), tensors, checkpoint.folder, IGNORED)
    return model


def _settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the constructor arguments that a config defines."""
    config = checkpoint.config
    for name, expected in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
        ("tie_word_embeddings", True),
    ):
        checkpoint.check_setting(name, expected=expected)
    numbers = checkpoint.get_numbers({**NAMES, "vocabulary_size": "vocab_size"})
    last = numbers["vocabulary_size"] - 1
    checkpoint.check_setting("eos_token_id", expected=last)
    activation = checkpoint.get_activation("activation_function", "gelu_new")
    epsilon = config.get("layer_norm_epsilon", 1e-5)
    return {
        **numbers,
        "vocabulary_size": last + NUM_SPECIAL,
        "units": config.get("n_inner") or 4 * numbers["embedding_dim"],
        "dropout": config.get("resid_pdrop", 0.1),
        "layer": {"norm_first": True, "activation": activation, "epsilon": epsilon},
    }


def map_gpt2(model: GPT) -> Iterator[WeightMapping]:
    """Yield the mappings of a GPT-2's tensors."""
    embeddings = model.token_embedding.embeddings
    rows, width = embeddings.shape
    yield WeightMapping("wte.weight", (rows - NUM_SPECIAL + 1, width), [embeddings], _with_special)
    yield map_table("wpe.weight", model.positions.table)
    for number, layer in enumerate(model.decoder):
        prefix, heads = f"h.{number}", layer.attention
        names = ("query", "key", "value")
        kernels = [getattr(heads, f"{name}_projection") for name in names]
        biases = [getattr(heads, f"{name}_bias") for name in names]
        yield from map_norm(f"{prefix}.ln_1", layer.attention_residual.norm)
        yield WeightMapping(f"{prefix}.attn.c_attn.weight", (width, 3 * width), kernels, _split_qkv)
        yield WeightMapping(f"{prefix}.attn.c_attn.bias", (3 * width,), biases, _split_qkv)
        output = [heads.output_projection]
        yield WeightMapping(f"{prefix}.attn.c_proj.weight", (width, width), output)
        yield map_vector(f"{prefix}.attn.c_proj.bias", heads.output_bias)
        yield from map_norm(f"{prefix}.ln_2", layer.feed_forward_residual.norm)
        network = layer.feed_forward
        for name, dense in (("c_fc", network.first), ("c_proj", network.second)):
            yield map_table(f"{prefix}.mlp.{name}.weight", dense.kernel)
            yield map_vector(f"{prefix}.mlp.{name}.bias", dense.bias)
    yield from map_norm("ln_f", model.norm)


def _with_special(rows: Array) -> list[Array]:
    """Prepend the rows of the special tokens; drop the last row."""
    embeddings, end = rows[:-1], rows[-1:]
    mean = rows.astype("float64").mean(axis=0, keepdims=True).astype(rows.dtype)
    return [np.concatenate([mean, mean, end, end, embeddings])]


def _split_qkv(array: Array) -> list[Array]:
    """Split queries, keys and values, which are stored side by side."""
    return list(np.split(array, 3, axis=-1))

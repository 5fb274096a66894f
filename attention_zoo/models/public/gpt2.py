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
from functools import partial
from typing import Any

import numpy as np

from attention_zoo.models.language.gpt import GPT
from attention_zoo.models.presets import merge
from attention_zoo.models.public.initialization import skip_initialization
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
    r"h\.\d+\.(attn|crossattention)\.(masked_)?bias",  # the causal mask
    r"lm_head\.weight",  # duplicate of the tied table
)
NUM_SPECIAL = 4


@FAMILIES.register("gpt2")
def build_gpt2(checkpoint: Checkpoint, cls: type | None, overrides: dict[str, Any]) -> Any:
    """Build a `GPT` with four special tokens first; two of them are `<|endoftext|>`."""
    if cls not in (None, GPT):
        raise ValueError(f"{checkpoint.folder}: is a GPT, not a {cls.__name__}")
    with skip_initialization():
        model = GPT(**merge(GPT, read_gpt2_settings(checkpoint), overrides))
    checkpoint.check_positions(model.settings["positions"])
    tensors = checkpoint.tensors.renamed(lambda name: name.removeprefix("transformer."))
    assign_weights(map_gpt2(model), tensors, checkpoint.folder, IGNORED)
    return model


def read_gpt2_settings(checkpoint: Checkpoint, cross_attention: bool = False) -> dict[str, Any]:
    """Return the constructor arguments of a `GPT` that a config defines."""
    config = checkpoint.config
    for name, expected in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", cross_attention),
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
    yield WeightMapping(
        "wte.weight", (rows - NUM_SPECIAL + 1, width), [embeddings], prepend_special_tokens
    )
    yield map_table("wpe.weight", model.positions.table)
    for number, layer in enumerate(model.decoder):
        yield from map_gpt2_layer(f"h.{number}", layer)
    yield from map_norm("ln_f", model.norm)


def map_gpt2_layer(prefix: str, layer: Any) -> Iterator[WeightMapping]:
    """Yield the mappings of a layer's tensors, except those of its cross-attention."""
    projections = {"c_attn": ["query", "key", "value"]}
    yield from map_norm(f"{prefix}.ln_1", layer.attention_residual.norm)
    yield from map_gpt2_attention(f"{prefix}.attn", layer.attention, projections)
    yield from map_norm(f"{prefix}.ln_2", layer.feed_forward_residual.norm)
    network = layer.feed_forward
    for name, dense in (("c_fc", network.first), ("c_proj", network.second)):
        yield map_table(f"{prefix}.mlp.{name}.weight", dense.kernel)
        yield map_vector(f"{prefix}.mlp.{name}.bias", dense.bias)


def map_gpt2_attention(
    prefix: str, heads: Any, projections: dict[str, list[str]]
) -> Iterator[WeightMapping]:
    """Yield the mappings of the projections of an attention.

    Args:
        prefix: of the names of the tensors.
        heads: the attention.
        projections: by name, such as `c_attn`, the projections that are stored side by side.
    """
    for name, parts in projections.items():
        kernels = [getattr(heads, f"{part}_projection") for part in parts]
        biases = [getattr(heads, f"{part}_bias") for part in parts]
        width = kernels[0].shape[0]
        split = partial(np.split, indices_or_sections=len(parts), axis=-1)
        shape = width, len(parts) * width
        yield WeightMapping(f"{prefix}.{name}.weight", shape, kernels, split)
        yield WeightMapping(f"{prefix}.{name}.bias", shape[1:], biases, split)
    width = heads.output_bias.shape[0]
    output = [heads.output_projection]
    yield WeightMapping(f"{prefix}.c_proj.weight", (width, width), output)
    yield map_vector(f"{prefix}.c_proj.bias", heads.output_bias)


def prepend_special_tokens(rows: Array, start: int = -1) -> list[Array]:
    """Return embeddings that begin with the special tokens, without the last row, that of the end.

    Args:
        rows: embeddings of the checkpoint.
        start: row of the start token.
    """
    mean = rows.mean(axis=0, dtype="float64", keepdims=True).astype(rows.dtype)
    return [np.concatenate([mean, mean, rows[start][None], rows[-1:], rows[:-1]])]

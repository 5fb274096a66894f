"""Loader of Marian checkpoints, such as the translators of OPUS-MT.

Token ids are those of `data.SentencePieceTokenizer`:

| row here | row of the checkpoint |
|---|---|
| 0 padding | none: 0, and its logit is `PADDING_LOGIT` |
| 1 unknown, 2 start, 3 end | those of `<unk>`, `<pad>` and `</s>` |
| 4, 5, ... | the others, in order |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_zoo.models.presets import Config, merge
from attention_zoo.models.public.encoders import PADDING_LOGIT
from attention_zoo.models.public.initialization import skip_initialization
from attention_zoo.models.public.loading import FAMILIES, Checkpoint
from attention_zoo.models.public.weight_mapping import (
    Array,
    WeightMapping,
    assign_weights,
    map_dense,
    map_kernel,
    map_norm,
    map_vector,
)
from attention_zoo.models.translation.transformer import SINUSOIDAL_HALVES, Transformer

LAYERS = ("encoder_layers", "decoder_layers")
SIZES = {
    "num_heads": ("encoder_attention_heads", "decoder_attention_heads"),
    "units": ("encoder_ffn_dim", "decoder_ffn_dim"),
}
"""Sizes that the encoder and the decoder must share."""
REQUIRED = {
    "scale_embedding": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
IGNORED = (
    r"(encoder|decoder)\.embed_positions\.weight",  # computed
    r"(encoder|decoder)\.embed_tokens\.weight",  # duplicates of the shared table
    r"lm_head\.weight",
)


@FAMILIES.register("marian")
def build_marian(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a `Transformer` with the weights of a Marian checkpoint."""
    check_class(checkpoint, cls)
    settings, rows = _read_settings(checkpoint), _list_rows(checkpoint)
    with skip_initialization():
        model = Transformer(**merge(Transformer, settings, overrides))
    tensors = checkpoint.tensors.renamed(lambda name: name.removeprefix("model."))
    assign_weights(map_marian(model, rows), tensors, checkpoint.folder, IGNORED)
    return model


def check_class(checkpoint: Checkpoint, cls: type | None) -> None:
    """Raise ValueError for a class other than `Transformer`."""
    if cls not in (None, Transformer):
        raise ValueError(
            f"{checkpoint.folder}: the checkpoint cannot be loaded as {cls.__name__}; use"
            " Transformer"
        )


def _read_settings(checkpoint: Checkpoint) -> Config:
    """Return the constructor arguments that a config defines."""
    for name, expected in REQUIRED.items():
        checkpoint.check_setting(name, expected=expected)
    config, sizes = checkpoint.config, checkpoint.get_sizes(SIZES)
    embedding_dim, words, *_ = checkpoint.get_numbers(
        {name: name for name in ("d_model", "vocab_size", "pad_token_id", "eos_token_id")}
    ).values()
    checkpoint.check_setting("decoder_start_token_id", expected=config["pad_token_id"])
    if type(config["eos_token_id"]) is not int:
        checkpoint.check_setting("eos_token_id", expected=0)
    activation = checkpoint.get_activation("activation_function", "gelu")
    return {
        **sizes,
        "num_layers": [*checkpoint.get_numbers({name: name for name in LAYERS}).values()],
        "embedding_dim": embedding_dim,
        "source_vocabulary_size": words + 1,  # with padding
        "target_vocabulary_size": words + 1,
        "dropout": config.get("dropout", 0.1),
        "tie": {"kind": "all", "bias": True},
        "positions": SINUSOIDAL_HALVES,
        "layer": {"norm_first": False, "activation": activation, "epsilon": 1e-5},
    }


def _list_rows(checkpoint: Checkpoint) -> list[int]:
    """Return the row of the checkpoint for each token id from 1 on."""
    path = checkpoint.folder / "vocab.json"
    try:
        unknown = json.loads(path.read_text("utf-8"))["<unk>"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: has no id of <unk> ({error}); copy it again") from None
    config = checkpoint.config
    special = [unknown, config["pad_token_id"], config["eos_token_id"]]
    return [*special, *(n for n in range(config["vocab_size"]) if n not in special)]


def map_marian(model: Transformer, rows: list[int]) -> Iterator[WeightMapping]:
    """Yield the mappings of a checkpoint's tensors; `rows` is that of `_list_rows`."""
    table, bias = model.target_embedding.embeddings, model.output_bias

    def reorder(x: Array) -> list[Array]:
        return [np.concatenate([np.zeros_like(x[:1]), x[rows]])]

    def reorder_bias(x: Array) -> list[Array]:
        return [np.concatenate([np.full(1, PADDING_LOGIT, x.dtype), x[0, rows]])]

    yield WeightMapping("shared.weight", (len(rows), table.shape[1]), [table], reorder)
    yield WeightMapping("final_logits_bias", (1, len(rows)), [bias], reorder_bias)
    for side in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(model, side)):
            yield from map_layer(f"{side}.layers.{number}", layer, side == "decoder")


def map_layer(prefix: str, layer: Any, is_decoder: bool) -> Iterator[WeightMapping]:
    """Yield the mappings of a layer's tensors."""
    attentions = [("self_attn", layer.attention, layer.attention_residual)]
    if is_decoder:
        attentions.append(("encoder_attn", layer.memory_attention, layer.memory_residual))
    for name, heads, residual in attentions:
        for part in ("query", "key", "value"):
            projection = f"{prefix}.{name}.{part[0]}_proj"
            yield map_kernel(f"{projection}.weight", getattr(heads, f"{part}_projection"))
            yield map_vector(f"{projection}.bias", getattr(heads, f"{part}_bias"))
        yield map_kernel(f"{prefix}.{name}.out_proj.weight", heads.output_projection, inputs=2)
        yield map_vector(f"{prefix}.{name}.out_proj.bias", heads.output_bias)
        yield from map_norm(f"{prefix}.{name}_layer_norm", residual.norm)
    yield from map_dense(f"{prefix}.fc1", layer.feed_forward.first)
    yield from map_dense(f"{prefix}.fc2", layer.feed_forward.second)
    yield from map_norm(f"{prefix}.final_layer_norm", layer.feed_forward_residual.norm)

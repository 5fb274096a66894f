"""Loader of T5 checkpoints, of version 1.0 and 1.1 (Flan-T5).

Token ids are those of `data.SentencePieceTokenizer`, as in `models.public.marian`: 1 is `<unk>`, 2
`<pad>`, with which the decoder starts, and 3 `</s>`. Three factors of T5 become part of weights:

- The embeddings are divided by sqrt(D), by which `Transformer` multiplies them.
- The query projection is multiplied by sqrt(K), by which `MultiHeadAttention` divides the scores.
- The scale of the decoder's last norm is multiplied by the factor of the logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_zoo.models.presets import Config, merge
from attention_zoo.models.public.encoders import PADDING_LOGIT
from attention_zoo.models.public.initialization import set_value, skip_initialization
from attention_zoo.models.public.loading import FAMILIES, Checkpoint
from attention_zoo.models.public.marian import check_class
from attention_zoo.models.public.weight_mapping import (
    Array,
    WeightMapping,
    assign_weights,
    check_shared_embeddings,
    get_tensor,
    map_kernel,
    map_table,
    map_vector,
)
from attention_zoo.models.translation.transformer import Transformer

UNKNOWN_ID = 2
"""Id of `<unk>`, which no config contains."""
ACTIVATIONS: dict[str | None, str] = {
    "relu": "relu",
    "gated-relu": "reglu",
    "gated-gelu": "geglu_tanh",
    "gated-silu": "swiglu",
}
"""Activations of the feed-forward network by the config's `feed_forward_proj`."""
IGNORED = (
    r"(encoder|decoder)\.embed_tokens\.weight",  # duplicates of the shared table
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",  # unused
)
LM_HEAD = "lm_head.weight"


@FAMILIES.register("t5")
def build_t5(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a `Transformer` with the weights of a T5 checkpoint."""
    check_class(checkpoint, cls)
    tensors = check_shared_embeddings(checkpoint.tensors, checkpoint.folder)
    checkpoint = checkpoint._replace(tensors=tensors)
    tied = _is_tied(checkpoint)
    with skip_initialization():
        model = Transformer(**merge(Transformer, _read_settings(checkpoint, tied), overrides))
    checkpoint.check_positions(model.positions_kind, "t5")
    factor = _compute_logit_factor(checkpoint.config, model.settings["embedding_dim"], tied)
    mappings = map_t5(model, list_t5_rows(checkpoint), factor)
    ignored = (*IGNORED, *([r"lm_head\.weight"] if tied else []))
    assign_weights(mappings, checkpoint.tensors, checkpoint.folder, ignored)
    biases = np.zeros(model.target_vocabulary_size, "float32")
    biases[0] = PADDING_LOGIT
    set_value(model.output_bias, biases)
    return model


def _compute_logit_factor(config: Config, width: int, tied: bool) -> float:
    """Return the factor of the decoder output.

    T5 1.0 multiplies it by 1 / sqrt(D). A tied output layer has the embeddings, which are divided
    by sqrt(D) here.
    """
    is_scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)
    factor: float = (width**-0.5 if is_scaled else 1.0) * (width**0.5 if tied else 1.0)
    return factor


def _is_tied(checkpoint: Checkpoint) -> bool:
    """Return whether the output layer has the weights of the embeddings."""
    if LM_HEAD not in checkpoint.tensors:
        return True
    shared = get_tensor(checkpoint.tensors, "shared.weight", checkpoint.folder)
    return np.array_equal(checkpoint.tensors[LM_HEAD], shared)


def _read_settings(checkpoint: Checkpoint, tied: bool) -> Config:
    """Return the constructor arguments that a config defines."""
    config = checkpoint.config
    names = {"embedding_dim": "d_model", "units": "d_ff", "num_heads": "num_heads"}
    required = ("d_kv", "vocab_size", "num_layers", "pad_token_id", "eos_token_id")
    key_dim, words, layers, pad, _ = checkpoint.get_numbers(
        {name: name for name in required}
    ).values()
    if "decoder_start_token_id" in config:
        checkpoint.check_setting("decoder_start_token_id", expected=pad)
    activation = checkpoint.get_choice("feed_forward_proj", ACTIVATIONS, "relu")
    return {
        **checkpoint.get_numbers(names),
        "source_vocabulary_size": words + 1,  # with padding
        "target_vocabulary_size": words + 1,
        "num_layers": [layers, config.get("num_decoder_layers") or layers],
        "dropout": config.get("dropout_rate", 0.1),
        "tie": {"kind": "all" if tied else "embeddings", "bias": True},
        "positions": {
            "kind": "t5",
            "shared": True,
            "num_buckets": config.get("relative_attention_num_buckets", 32),
            "max_distance": config.get("relative_attention_max_distance", 128),
        },
        "layer": {
            "norm": "rms",
            "epsilon": config.get("layer_norm_epsilon", 1e-6),
            "attention": {"key_dim": key_dim, "use_bias": False},
            "activation": {"activation": activation, "use_bias": False},
        },
    }


def list_t5_rows(checkpoint: Checkpoint) -> list[int]:
    """Return the row of the checkpoint for each token id from 1 on."""
    config = checkpoint.config
    special = [UNKNOWN_ID, *checkpoint.get_token_ids("pad_token_id", "eos_token_id")]
    return [*special, *(n for n in range(config["vocab_size"]) if n not in special)]


def map_t5(model: Transformer, rows: list[int], factor: float) -> Iterator[WeightMapping]:
    """Yield the mappings of a checkpoint's tensors.

    Args:
        model: the model.
        rows: that of `list_t5_rows`.
        factor: factor of the decoder's last norm.
    """
    table = model.target_embedding.embeddings
    width = table.shape[1]

    def reorder(x: Array) -> list[Array]:
        return [np.concatenate([np.zeros_like(x[:1]), x[rows]])]

    def reorder_scaled(x: Array) -> list[Array]:
        return [reorder(x)[0].astype("float32") * width**-0.5]

    shape = (len(rows), width)
    yield WeightMapping("shared.weight", shape, [table], reorder_scaled)
    if model.vocabulary is not None:
        kernel = model.vocabulary.kernel
        yield WeightMapping(LM_HEAD, shape, [kernel], lambda x: [reorder(x)[0].T])
    for side, norm in zip(("encoder", "decoder"), model.norms, strict=True):
        layers = getattr(model, side)
        bias = layers[0].attention.positions.bucket_bias
        name = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield map_table(name, bias)
        for number, layer in enumerate(layers):
            yield from _map_layer(f"{side}.block.{number}.layer", layer, side == "decoder")
        scale = factor if side == "decoder" else 1.0
        yield _map_scaled(map_vector(f"{side}.final_layer_norm.weight", norm.scale), scale)


def _map_layer(prefix: str, layer: Any, is_decoder: bool) -> Iterator[WeightMapping]:
    """Yield the mappings of a layer's tensors."""
    attentions = [("SelfAttention", layer.attention, layer.attention_residual)]
    if is_decoder:
        attentions.append(("EncDecAttention", layer.memory_attention, layer.memory_residual))
    for number, (name, heads, residual) in enumerate(attentions):
        start = f"{prefix}.{number}.{name}"
        query = map_kernel(f"{start}.q.weight", heads.query_projection)
        yield _map_scaled(query, heads.key_dim**0.5)
        yield map_kernel(f"{start}.k.weight", heads.key_projection)
        yield map_kernel(f"{start}.v.weight", heads.value_projection)
        yield map_kernel(f"{start}.o.weight", heads.output_projection, inputs=2)
        yield map_vector(f"{prefix}.{number}.layer_norm.weight", residual.norm.scale)
    number, network = len(attentions), layer.feed_forward
    start = f"{prefix}.{number}.DenseReluDense"
    if network.gate is None:
        yield map_kernel(f"{start}.wi.weight", network.first.kernel)
    else:
        yield map_kernel(f"{start}.wi_0.weight", network.first.kernel)
        yield map_kernel(f"{start}.wi_1.weight", network.gate.kernel)
    yield map_kernel(f"{start}.wo.weight", network.second.kernel)
    yield map_vector(f"{prefix}.{number}.layer_norm.weight", layer.feed_forward_residual.norm.scale)


def _map_scaled(mapping: WeightMapping, factor: float) -> WeightMapping:
    """Return a mapping whose weights are those of the checkpoint times a factor."""
    parts = mapping.parts

    def scale(x: Array) -> list[Array]:
        return [part.astype("float32") * np.float32(factor) for part in parts(x)]

    return mapping._replace(parts=scale)

"""Loader of Marian checkpoints, such as the translators of OPUS-MT.

Token ids are those of `data.SentencePieceTokenizer`:

| row here | row of the checkpoint |
|---|---|
| 0 padding | none: 0, and its logit is `PADDING_LOGIT` |
| 1 unknown, 2 start, 3 end | those of `<unk>`, `<pad>` and `</s>` |
| 4, 5, ... | the others, in order |

With `share_encoder_decoder_embeddings: false`, `vocab.json` is the source vocabulary and
`target_vocab.json` the target vocabulary. In both, `<pad>` and `</s>` must have the ids in
`config.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_zoo.json_files import MAX_VOCABULARY_BYTES, read_strict_json
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
    "tie_word_embeddings": True,
}
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
IGNORED = (
    r"(encoder|decoder)\.embed_positions\.weight",  # computed
    r"lm_head\.weight",  # the target embeddings
)
COPIES = r"(encoder|decoder)\.embed_tokens\.weight"
"""Copies of `shared.weight` in a checkpoint with a shared vocabulary."""


@FAMILIES.register("marian")
def build_marian(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a `Transformer` with the weights of a Marian checkpoint."""
    check_class(checkpoint, cls)
    is_shared = _has_shared_vocabulary(checkpoint)
    settings = _read_settings(checkpoint, is_shared)
    sources, targets = (settings[f"{x}_vocabulary_size"] - 1 for x in ("source", "target"))
    rows = _list_rows(checkpoint, VOCABULARY, sources)
    target_rows = rows if is_shared else _list_rows(checkpoint, TARGET_VOCABULARY, targets)
    with skip_initialization():
        model = Transformer(**merge(Transformer, settings, overrides))
    tensors = checkpoint.tensors.renamed(lambda name: name.removeprefix("model."))
    ignored = (*IGNORED, COPIES) if is_shared else IGNORED
    assign_weights(map_marian(model, rows, target_rows), tensors, checkpoint.folder, ignored)
    return model


def check_class(checkpoint: Checkpoint, cls: type | None) -> None:
    """Raise ValueError for a class other than `Transformer`."""
    if cls not in (None, Transformer):
        raise ValueError(
            f"{checkpoint.folder}: the checkpoint cannot be loaded as {cls.__name__}; use"
            " Transformer"
        )


def _read_settings(checkpoint: Checkpoint, is_shared: bool) -> Config:
    """Return the constructor arguments that a config defines.

    Args:
        checkpoint: the checkpoint.
        is_shared: whether source and target share the vocabulary.
    """
    for name, expected in REQUIRED.items():
        checkpoint.check_setting(name, expected=expected)
    config, sizes = checkpoint.config, checkpoint.get_sizes(SIZES)
    embedding_dim, sources, *_ = checkpoint.get_numbers(
        {name: name for name in ("d_model", "vocab_size", "pad_token_id", "eos_token_id")}
    ).values()
    targets = config.get("decoder_vocab_size")
    targets = sources if targets is None else targets
    if type(targets) is not int or targets < 1:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'}: decoder_vocab_size must be a positive integer,"
            f" got {targets!r}"
        )
    if is_shared:
        checkpoint.check_setting("decoder_vocab_size", expected=sources)
    checkpoint.check_setting("decoder_start_token_id", expected=config["pad_token_id"])
    if type(config["eos_token_id"]) is not int:
        checkpoint.check_setting("eos_token_id", expected=0)
    activation = checkpoint.get_activation("activation_function", "gelu")
    return {
        **sizes,
        "num_layers": [*checkpoint.get_numbers({name: name for name in LAYERS}).values()],
        "embedding_dim": embedding_dim,
        "source_vocabulary_size": sources + 1,  # with padding
        "target_vocabulary_size": targets + 1,
        "dropout": config.get("dropout", 0.1),
        "tie": {"kind": "all" if is_shared else "target", "bias": True},
        "positions": SINUSOIDAL_HALVES,
        "layer": {"norm_first": False, "activation": activation, "epsilon": 1e-5},
    }


def _has_shared_vocabulary(checkpoint: Checkpoint) -> bool:
    """Return whether source and target share the vocabulary and the embeddings."""
    name = "share_encoder_decoder_embeddings"
    if checkpoint.config.get(name) is False:
        return False
    checkpoint.check_setting(name, expected=True)
    return True


def _list_rows(checkpoint: Checkpoint, name: str, size: int) -> list[int]:
    """Return the row of the checkpoint for each token id from 1 on.

    Args:
        checkpoint: the checkpoint.
        name: name of the vocabulary file.
        size: number of tokens of the checkpoint.

    Raises:
        ValueError: the file is damaged, or its special pieces have other ids than in `config.json`.
    """
    path, config = checkpoint.folder / name, checkpoint.config
    try:
        vocabulary = read_strict_json(path, MAX_VOCABULARY_BYTES)
        unknown = vocabulary["<unk>"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: has no id of <unk> ({error}); copy it again") from None
    for piece, key in (("<pad>", "pad_token_id"), ("</s>", "eos_token_id")):
        if vocabulary.get(piece, config[key]) != config[key]:
            raise ValueError(
                f"{path}: {piece} has id {vocabulary[piece]}, but {key} in config.json is"
                f" {config[key]}; such checkpoints are not supported"
            )
    special = [unknown, config["pad_token_id"], config["eos_token_id"]]
    return [*special, *(n for n in range(size) if n not in special)]


def map_marian(
    model: Transformer, rows: list[int], target_rows: list[int]
) -> Iterator[WeightMapping]:
    """Yield the mappings of a checkpoint's tensors; for the rows see `_list_rows`."""
    source, target = model.source_embedding, model.target_embedding
    if source is target:
        yield map_rows("shared.weight", target.embeddings, rows)
    else:
        yield map_rows("encoder.embed_tokens.weight", source.embeddings, rows)
        yield map_rows("decoder.embed_tokens.weight", target.embeddings, target_rows)

    def reorder_bias(x: Array) -> list[Array]:
        return [np.concatenate([np.full(1, PADDING_LOGIT, x.dtype), x[0, target_rows]])]

    shape = (1, len(target_rows))
    yield WeightMapping("final_logits_bias", shape, [model.output_bias], reorder_bias)
    for side in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(model, side)):
            yield from map_layer(f"{side}.layers.{number}", layer, side == "decoder")


def map_rows(name: str, table: Any, rows: list[int]) -> WeightMapping:
    """Map the rows `rows` of an embedding tensor to a table whose row 0, padding, is zero."""

    def reorder(x: Array) -> list[Array]:
        return [np.concatenate([np.zeros_like(x[:1]), x[rows]])]

    return WeightMapping(name, (len(rows), table.shape[1]), [table], reorder)


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

"""Loader of BART checkpoints, such as summarizers.

Token ids are those of `data.tokenizers.public_tokenizers.BartTokenizer`:

| row here | row of the checkpoint |
|---|---|
| 0 padding | none: 0, and its logit is `PADDING_LOGIT` |
| 1 unknown | that of `<unk>` |
| 2 start | that of the token with which the decoder starts, `</s>`; its logit is `PADDING_LOGIT` |
| 3 end | that of `</s>` |
| 4, 5, ... | the others, in order, without `<pad>` |

The vocabulary may be larger than that of the checkpoint: `facebook/bart-large-cnn` lacks the row of
`<mask>`, which its tokenizer has. The embeddings of these tokens are 0, their logits
`PADDING_LOGIT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attention_zoo.models.generation import START
from attention_zoo.models.presets import Config, merge
from attention_zoo.models.public.encoders import PADDING_LOGIT
from attention_zoo.models.public.initialization import set_value, skip_initialization
from attention_zoo.models.public.loading import FAMILIES, Checkpoint
from attention_zoo.models.public.marian import SIZES, check_class, map_layer
from attention_zoo.models.public.weight_mapping import (
    Array,
    WeightMapping,
    assign_weights,
    check_shared_embeddings,
    map_norm,
    map_table_without,
)
from attention_zoo.models.transformer_options import LEARNED
from attention_zoo.models.translation.transformer import Transformer

UNKNOWN_ID = 3
"""Id of `<unk>`, which no config contains."""
NUM_RESERVED_POSITIONS = 2
"""Number of rows of the position embeddings that no token uses."""
REQUIRED = {
    "normalize_before": False,
    "normalize_embedding": True,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": False,
    "extra_pos_embeddings": NUM_RESERVED_POSITIONS,
    "tie_word_embeddings": True,
}
IGNORED = (
    r"(encoder|decoder)\.embed_tokens\.weight",  # duplicates of the shared table
    r"(encoder|decoder)\.version",
    r"lm_head\.weight",
)
BIAS = "final_logits_bias"


@FAMILIES.register("bart")
def build_bart(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a `Transformer` with the weights of a BART checkpoint."""
    check_class(checkpoint, cls)
    with skip_initialization():
        model = Transformer(**merge(Transformer, _read_settings(checkpoint), overrides))
    checkpoint.check_positions(model.positions_kind)
    tensors = checkpoint.tensors.renamed(lambda name: name.removeprefix("model."))
    tensors = check_shared_embeddings(tensors, checkpoint.folder)
    rows, bias = list_bart_rows(checkpoint), model.output_bias
    assign_weights(map_bart(model, rows), tensors, checkpoint.folder, (*IGNORED, BIAS))
    values = np.full(bias.shape, PADDING_LOGIT, "float32")
    values[1 : 1 + len(rows)] = 0.0
    if BIAS in tensors:
        if tensors[BIAS].shape != (1, len(rows)):
            raise ValueError(
                f"{checkpoint.folder}: tensor {BIAS} has shape {tensors[BIAS].shape}, but"
                f" config.json requires {(1, len(rows))}"
            )
        values[1 : 1 + len(rows)] = tensors[BIAS][0, rows]
    values[START] = PADDING_LOGIT
    set_value(bias, values)
    return model


def _read_settings(checkpoint: Checkpoint) -> Config:
    """Return the constructor arguments that a config defines."""
    for name, expected in REQUIRED.items():
        checkpoint.check_setting(name, expected=expected)
    config, sizes = checkpoint.config, checkpoint.get_sizes(SIZES)
    names = ("d_model", "vocab_size", "max_position_embeddings", "encoder_layers", "decoder_layers")
    width, words, positions, *layers = checkpoint.get_numbers(
        {name: name for name in names}
    ).values()
    activation = checkpoint.get_activation("activation_function", "gelu")
    return {
        **sizes,
        "embedding_dim": width,
        "source_vocabulary_size": words + 1,  # with padding
        "target_vocabulary_size": words + 1,
        "num_layers": layers,
        "dropout": config.get("dropout", 0.1),
        "tie": {"kind": "all", "bias": True},
        "positions": {
            "kind": LEARNED,
            "max_length": positions,
            "norm": True,
            "scale": width**0.5 if config.get("scale_embedding") else 1.0,
        },
        "layer": {"norm_first": False, "activation": activation, "epsilon": 1e-5},
    }


def list_bart_rows(checkpoint: Checkpoint) -> list[int]:
    """Return the row of the checkpoint for each token id from 1 on."""
    names = ("decoder_start_token_id", "eos_token_id", "pad_token_id", "vocab_size")
    start, end, pad, size = checkpoint.get_token_ids(*names)
    special = [UNKNOWN_ID, start, end]
    others = [row for row in range(size) if row not in (UNKNOWN_ID, end, pad)]
    return [*special, *others]


def map_bart(model: Transformer, rows: list[int]) -> Iterator[WeightMapping]:
    """Yield the mappings of a checkpoint's tensors, except the bias of the logits.

    Args:
        model: the model.
        rows: that of `list_bart_rows`.
    """
    table = model.target_embedding.embeddings
    size, width = table.shape

    def reorder(x: Array) -> list[Array]:
        values = np.zeros((size, width), "float32")
        values[1 : 1 + len(rows)] = x[rows]
        return [values]

    yield WeightMapping("shared.weight", (len(rows), width), [table], reorder)
    sides = ("encoder", model.source_positions), ("decoder", model.positions)
    for (side, positions), norm in zip(sides, model.embedding_norms, strict=True):
        yield map_table_without(
            f"{side}.embed_positions.weight", positions.table, NUM_RESERVED_POSITIONS
        )
        yield from map_norm(f"{side}.layernorm_embedding", norm)
        for number, layer in enumerate(getattr(model, side)):
            yield from map_layer(f"{side}.layers.{number}", layer, side == "decoder")

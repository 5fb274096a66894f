"""Loader of released BERTs: maps their config and tensors to this library's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attention_zoo.models.language.bert import BERT
from attention_zoo.models.language.masked_lm import MaskedLM
from attention_zoo.models.presets import merge
from attention_zoo.models.public.loading import FAMILIES, Checkpoint
from attention_zoo.models.public.weight_mapping import (
    WeightMapping,
    assign_weights,
    map_dense,
    map_kernel,
    map_norm,
    map_table,
    map_vector,
)
from attention_zoo.models.transformer_options import LEARNED

NAMES = {
    "vocabulary_size": "vocab_size",
    "embedding_dim": "hidden_size",
    "units": "intermediate_size",
    "num_heads": "num_attention_heads",
    "num_layers": "num_hidden_layers",
    "max_length": "max_position_embeddings",
}
HEAD = "cls.predictions.transform.dense.weight"
POOLER = "pooler.dense.weight"
IGNORED = (
    r"embeddings\.position_ids",
    r"cls\.seq_relationship\..*",
    r"cls\.predictions\.decoder\..*",  # duplicates of the tied table and the bias
)


@FAMILIES.register("bert")
def build_bert(checkpoint: Checkpoint, cls: type | None, overrides: dict[str, Any]) -> Any:
    """Build `cls`, by default a `MaskedLM` if the checkpoint has its head, else a `BERT`."""
    tensors = checkpoint.tensors.renamed(_normalize_name)
    cls = cls or (MaskedLM if HEAD in tensors else BERT)
    if cls not in (BERT, MaskedLM):
        raise ValueError(f"{checkpoint.folder}: is a BERT or a MaskedLM, not a {cls.__name__}")
    if cls is MaskedLM:
        checkpoint.check_setting("tie_word_embeddings", expected=True)
    settings, head = _settings(checkpoint), []
    if cls is MaskedLM:
        # As in `MaskedLM.from_preset`, arguments that the class does not have are the BERT's.
        own = {key: overrides[key] for key in MaskedLM.own_arguments if key in overrides}
        options = {key: value for key, value in overrides.items() if key not in (*own, "bert")}
        settings = merge(BERT, settings, {**options, **overrides.get("bert", {})})
        model = MaskedLM(settings, **own)
        bert, head = model.bert, list(map_head(model))
    else:
        settings["use_pooler"] = POOLER in tensors
        model = bert = BERT(**merge(BERT, settings, overrides))
    checkpoint.check_positions(bert.settings["layer"].get("positions", LEARNED))
    ignored = [*IGNORED, *([] if head else [r"cls\..*"]), *([] if bert.pooler else [r"pooler\..*"])]
    assign_weights([*map_bert(bert), *head], tensors, checkpoint.folder, ignored)
    return model


def _normalize_name(name: str) -> str:
    """Strip the prefix "bert." of a tensor's name and use the newer names of a norm's vectors."""
    name = name.removeprefix("bert.")
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        name = name.replace(f"LayerNorm.{old}", f"LayerNorm.{new}")
    return name


def _settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the constructor arguments that a config defines."""
    config = checkpoint.config
    checkpoint.check_setting("position_embedding_type", expected="absolute")
    checkpoint.check_setting("is_decoder", expected=False)
    activation = checkpoint.get_activation("hidden_act", "gelu")
    epsilon = config.get("layer_norm_eps", 1e-12)
    return {
        **checkpoint.get_numbers(NAMES),
        "num_segments": config.get("type_vocab_size", 2),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "layer": {"norm_first": False, "activation": activation, "epsilon": epsilon},
    }


def map_bert(bert: BERT) -> Iterator[WeightMapping]:
    """Yield the mappings of an encoder's tensors."""
    yield map_table("embeddings.word_embeddings.weight", bert.token_embedding.embeddings)
    yield map_table("embeddings.position_embeddings.weight", bert.positions.table)
    yield map_table("embeddings.token_type_embeddings.weight", bert.segment_embedding.embeddings)
    yield from map_norm("embeddings.LayerNorm", bert.norm)
    for number, layer in enumerate(bert.encoder):
        layer_prefix, heads = f"encoder.layer.{number}", layer.attention
        for name in ("query", "key", "value"):
            prefix = f"{layer_prefix}.attention.self.{name}"
            yield map_kernel(f"{prefix}.weight", getattr(heads, f"{name}_projection"))
            yield map_vector(f"{prefix}.bias", getattr(heads, f"{name}_bias"))
        out = f"{layer_prefix}.attention.output"
        yield map_kernel(f"{out}.dense.weight", heads.output_projection, inputs=2)
        yield map_vector(f"{out}.dense.bias", heads.output_bias)
        yield from map_norm(f"{out}.LayerNorm", layer.attention_residual.norm)
        yield from map_dense(f"{layer_prefix}.intermediate.dense", layer.feed_forward.first)
        yield from map_dense(f"{layer_prefix}.output.dense", layer.feed_forward.second)
        yield from map_norm(f"{layer_prefix}.output.LayerNorm", layer.feed_forward_residual.norm)
    if bert.pooler is not None:
        yield from map_dense("pooler.dense", bert.pooler)


def map_head(model: MaskedLM) -> Iterator[WeightMapping]:
    """Yield the mappings of the head's tensors."""
    yield from map_dense("cls.predictions.transform.dense", model.dense)
    yield from map_norm("cls.predictions.transform.LayerNorm", model.norm)
    yield map_vector("cls.predictions.bias", model.bias)

"""Public BERT, DistilBERT and RoBERTa checkpoints: their configs and tensor names."""

from __future__ import annotations

from typing import Any

from attention_zoo.models.presets import Config
from attention_zoo.models.public.encoders import HIDDEN_DENSE, LM_DENSE, Family, build_encoder
from attention_zoo.models.public.loading import FAMILIES, Checkpoint


def _read_bert(checkpoint: Checkpoint) -> Config:
    """Return the arguments of `BERT` that the config of a BERT or RoBERTa defines."""
    config = checkpoint.config
    checkpoint.check_setting("position_embedding_type", expected="absolute")
    checkpoint.check_setting("is_decoder", expected=False)
    names = {
        "vocabulary_size": "vocab_size",
        "embedding_dim": "hidden_size",
        "units": "intermediate_size",
        "num_heads": "num_attention_heads",
        "num_layers": "num_hidden_layers",
        "max_length": "max_position_embeddings",
    }
    activation = checkpoint.get_activation("hidden_act", "gelu")
    epsilon = config.get("layer_norm_eps", 1e-12)
    return {
        **checkpoint.get_numbers(names),
        "num_segments": config.get("type_vocab_size", 2),
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "layer": {"norm_first": False, "activation": activation, "epsilon": epsilon},
    }


def _read_roberta(checkpoint: Checkpoint) -> Config:
    """Return the arguments of `BERT` that the config of a RoBERTa defines."""
    checkpoint.check_setting("hidden_act", expected="gelu")  # as the head has, always
    checkpoint.check_setting("pad_token_id", expected=ROBERTA_PAD_ID)
    settings = _read_bert(checkpoint)
    settings["vocabulary_size"] += ROBERTA_FAMILY.shift
    settings["max_length"] -= ROBERTA_FAMILY.num_reserved_positions
    return settings


def _read_distilbert(checkpoint: Checkpoint) -> Config:
    """Return the arguments of `BERT` that the config of a DistilBERT defines."""
    names = {
        "vocabulary_size": "vocab_size",
        "embedding_dim": "dim",
        "units": "hidden_dim",
        "num_heads": "n_heads",
        "num_layers": "n_layers",
        "max_length": "max_position_embeddings",
    }
    activation = checkpoint.get_activation("activation", "gelu")
    return {
        **checkpoint.get_numbers(names),
        "num_segments": 0,
        "dropout": checkpoint.config.get("dropout", 0.1),
        "layer": {"norm_first": False, "activation": activation, "epsilon": 1e-12},
    }


BERT_FAMILY = Family(
    prefix="bert",
    replacements=(),
    read_settings=_read_bert,
    classifier_dropout="classifier_dropout",
    ignored=(
        r"cls\.seq_relationship\..*",
        r"cls\.predictions\.decoder\..*",  # duplicates of the tied table and the bias
    ),
)

ROBERTA_PAD_ID = 1
ROBERTA_FAMILY = Family(
    prefix="roberta",
    replacements=(
        (LM_DENSE, "lm_head.dense"),
        ("cls.predictions.transform.LayerNorm", "lm_head.layer_norm"),
        ("cls.predictions", "lm_head"),
        (HIDDEN_DENSE, "classifier.dense"),
    ),
    read_settings=_read_roberta,
    classifier_dropout="classifier_dropout",
    classifier="classifier.out_proj",
    hidden_activation="tanh",
    shift=1,
    num_reserved_positions=ROBERTA_PAD_ID + 1,  # the position of padding and those before it
    ignored=(r"lm_head\.decoder\..*",),
)

DISTILBERT_FAMILY = Family(
    prefix="distilbert",
    replacements=(
        ("encoder.layer", "transformer.layer"),
        ("attention.self.query", "attention.q_lin"),
        ("attention.self.key", "attention.k_lin"),
        ("attention.self.value", "attention.v_lin"),
        ("attention.output.dense", "attention.out_lin"),
        ("attention.output.LayerNorm", "sa_layer_norm"),
        ("intermediate.dense", "ffn.lin1"),
        ("output.dense", "ffn.lin2"),
        ("output.LayerNorm", "output_layer_norm"),
        (HIDDEN_DENSE, "pre_classifier"),
        (LM_DENSE, "vocab_transform"),
        ("cls.predictions.transform.LayerNorm", "vocab_layer_norm"),
        ("cls.predictions", "vocab_projector"),
    ),
    read_settings=_read_distilbert,
    classifier_dropout="seq_classif_dropout",
    hidden_activation="relu",
    ignored=(r"vocab_projector\.weight",),  # duplicate of the tied table
)


@FAMILIES.register("bert")
def build_bert(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a model from a BERT, by default with the head that the checkpoint has."""
    return build_encoder(BERT_FAMILY, checkpoint, cls, overrides)


@FAMILIES.register("roberta")
def build_roberta(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a model from a RoBERTa; token id i of the checkpoint is i + 1 in the model."""
    return build_encoder(ROBERTA_FAMILY, checkpoint, cls, overrides)


@FAMILIES.register("distilbert")
def build_distilbert(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a model from a DistilBERT, which has no segments."""
    return build_encoder(DISTILBERT_FAMILY, checkpoint, cls, overrides)

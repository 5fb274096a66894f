"""Released models of every family: config errors, layer options, random configurations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from attention_zoo import models
from tests.models.public import test_public_bert, test_public_encoders, test_public_gpt2
from tests.models.public.checkpoints import GOLDEN, change_config, copy_of, written_by_transformers
from tests.refusals import refuses

ENCODERS = dict.fromkeys(("bert_classifier", "distilbert", "roberta"), test_public_encoders.check)
CHECKS = {"bert": test_public_bert.check, "gpt2": test_public_gpt2.check, **ENCODERS}
BERT, GPT2 = GOLDEN / "bert", GOLDEN / "gpt2"


@refuses(
    ("bert", {"position_embedding_type": "relative_key"}, "type='relative_key' is not supported"),
    ("bert", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported, only T"),
    ("bert", {"is_decoder": True}, "is_decoder=True is not supported, only False"),
    ("bert", {"hidden_act": "swoosh"}, "hidden_act='swoosh' is not supported .known: gelu"),
    ("bert", {"hidden_size": None}, "config.json: hidden_size is missing"),
    ("bert", {"model_type": "albert"}, "unknown model_type 'albert'; did you mean 'bert'"),
    ("gpt2", {"eos_token_id": 5}, "eos_token_id=5 is not supported, only 270"),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "by_inverse_layer_idx=True is not"),
    ("gpt2", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
    ("gpt2", {"n_embd": None}, "config.json: n_embd is missing"),
)
def test_unsupported_configs_are_rejected(
    family: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = copy_of(family, tmp_path)
    change_config(folder, **changes)
    models.from_preset(folder)


LEARNED = "the checkpoint has learned positions, not 'rotary'; remove the pos"


@refuses(
    (lambda: models.BERT.from_preset(BERT, layer={"positions": "rotary"}), LEARNED),
    (lambda: models.from_public(GPT2, positions="rotary"), LEARNED),
    (
        lambda: models.Transformer.from_preset(BERT),
        "the checkpoint cannot be loaded as Transformer; use one of BERT, MaskedLM,",
    ),
    (
        lambda: models.from_public(BERT, int),
        "the checkpoint cannot be loaded as int; use one of BERT, MaskedLM,",
    ),
    (lambda: models.BERT.from_preset(GPT2), "is a GPT, not a BERT"),
)
def test_options_fixed_by_the_checkpoint_are_rejected(load: Any) -> None:
    load()


@pytest.mark.parametrize(
    ("family", "cls"), [("bert", models.BERT), ("bert", models.MaskedLM), ("gpt2", models.GPT)]
)
@pytest.mark.parametrize("by_function", [False, True])
def test_options_of_layers_are_changed_one_by_one(family: str, cls: Any, by_function: bool) -> None:
    load = partial(models.from_public, cls=cls) if by_function else cls.from_preset
    model = load(GOLDEN / family, layer={"stochastic_depth": 0.1})
    assert type(model) is cls
    CHECKS[family](GOLDEN / family, model)
    style = getattr(model, "bert", model).settings["layer"]
    assert style["stochastic_depth"] == 0.1
    assert style["norm_first"] is (family == "gpt2")


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("bert", ()),
        ("bert", ("head=false", "type_vocab_size=3")),
        ("bert", ("num_attention_heads=4", "num_hidden_layers=5", "max_position_embeddings=40")),
        ("bert", ('hidden_act="relu"', "layer_norm_eps=1e-3")),
        ("bert", ('hidden_act="gelu_new"',)),
        ("bert", ("hidden_size=64", "intermediate_size=256", "num_hidden_layers=12")),
        ("bert_classifier", ('problem_type="multi_label_classification"',)),
        ("bert_classifier", ('head="Model"', 'hidden_act="relu"')),
        ("distilbert", ("n_heads=4", "n_layers=5", 'activation="relu"')),
        ("distilbert", ('head="Model"', "max_position_embeddings=40")),
        ("distilbert", ('head="ForSequenceClassification"',)),
        ("roberta", ("num_attention_heads=4", "num_hidden_layers=5", "layer_norm_eps=1e-3")),
        ("roberta", ('head="Model"', "max_position_embeddings=40", "type_vocab_size=3")),
        ("roberta", ('head="ForSequenceClassification"',)),
        ("bert_classifier", ('head="ForTokenClassification"', "max_position_embeddings=40")),
        ("gpt2", ()),
        ("gpt2", ("n_head=4", "n_layer=5", "n_positions=30", "n_inner=24")),
        ("gpt2", ('activation_function="relu"', "layer_norm_epsilon=1e-3")),
        ("gpt2", ("n_embd=64", "n_layer=12")),
    ],
    ids=str,
)
def test_random_configurations(family: str, settings: tuple[str, ...], tmp_path: Path) -> None:
    folder = written_by_transformers(family, tmp_path, *settings)
    CHECKS[family](folder, models.from_preset(folder))
    if family != "gpt2":
        CHECKS[family](folder, models.BERT.from_preset(folder))

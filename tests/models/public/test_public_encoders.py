"""DistilBERT, RoBERTa and classifiers of `transformers` give the same outputs here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.models import BERT, MaskedLM, TransformerClassifier, TransformerTagger
from attention_zoo.models.public.encoders import PADDING_LOGIT
from attention_zoo.models.public.tensors import FILE, Tensors
from attention_zoo.tasks import Tagging
from tests.layers.running import array
from tests.models.public.checkpoints import (
    GOLDEN,
    change_config,
    copy_of,
    expected,
    write_safetensors,
)
from tests.refusals import refuses

CLASSIFIERS = ("bert_classifier", "distilbert", "roberta_classifier")
LABELS = ("bad", "neither", "good")
TAGS = ("O", "B-A", "I-A", "B-B", "I-B")
SENTENCES = [
    ["The", "unseen", "cat", "sat", "on", "1,234.5", "mats", "."],
    ["東京", "is", "Ça", "?"],
    ["seens"],
]


def check(folder: Path, model: Any) -> None:
    """Assert that the outputs are the golden ones, with token ids converted to the library's."""
    golden, is_roberta = expected(folder), "roberta" in (folder / "config.json").read_text()
    pad = shift = int(is_roberta)
    mask = golden["tokens"] != pad
    tokens = np.where(mask, golden["tokens"] + shift, 0)
    logits = golden.get("logits")
    if isinstance(model, BERT):
        got, want = array(model({"tokens": tokens})["hidden"])[mask], golden["hidden"][mask]
    elif isinstance(model, TransformerTagger):
        emissions = array(model({"tokens": tokens}))[:, : tokens.shape[1], : logits.shape[-1]]
        got, want = emissions[mask], logits[mask]
    elif isinstance(model, TransformerClassifier):
        got, want = array(model({"tokens": tokens})), logits
    else:
        got, want = array(model({"tokens": tokens}))[mask], logits[mask]
        assert (got[:, :shift] == PADDING_LOGIT).all()  # padding has probability 0
        got = got[:, shift:]
    np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max(), rtol=0)


@pytest.mark.parametrize(
    ("name", "cls", "pooler"),
    [
        ("bert_classifier", TransformerClassifier, True),
        ("distilbert", TransformerClassifier, False),
        ("roberta_classifier", TransformerClassifier, False),
        ("roberta", MaskedLM, False),
    ],
)
def test_outputs_equal_those_of_transformers(name: str, cls: type, pooler: bool) -> None:
    model = models.from_preset(GOLDEN / name)
    assert type(model) is cls
    assert (model.bert.pooler is not None) is pooler
    assert model.bert.settings["max_length"] == 12
    check(GOLDEN / name, model)


@pytest.mark.parametrize("name", [*CLASSIFIERS, "roberta"])
def test_encoders_without_their_heads(name: str) -> None:
    model = BERT.from_preset(GOLDEN / name)
    assert type(model) is BERT
    check(GOLDEN / name, model)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_text_classification_equals_that_of_transformers(name: str) -> None:
    task = az.load(GOLDEN / name)
    content = json.loads((GOLDEN / name / "expected.json").read_text())
    texts = [text for text, ids in zip(content["texts"], content["ids"], strict=True) if ids]
    logits = expected(GOLDEN / name)["text_logits"]
    results = task.predict(texts)
    assert task.classes == LABELS
    for result, row in zip(results, logits, strict=True):
        weights = np.exp(row - row.max())
        np.testing.assert_allclose(result.probabilities, weights / weights.sum(), atol=1e-5)
    assert [result.text for result in results] == [LABELS[n] for n in logits.argmax(axis=1)]


def test_settings_of_classifiers(tmp_path: Path) -> None:
    folder = copy_of("distilbert", tmp_path)
    assert models.from_preset(folder).settings["dropout"] == 0.2
    change_config(folder, seq_classif_dropout=0.4, problem_type="multi_label_classification")
    model = models.from_preset(folder)
    assert (model.settings["dropout"], model.multi_label) == (0.4, True)
    change_config(folder, id2label=None)
    assert models.from_preset(folder).classes == ("LABEL_0", "LABEL_1", "LABEL_2")
    own = TransformerClassifier.from_preset(folder, classes=["a", "b", "c"], use_pooler=False)
    assert own.classes == ("a", "b", "c")
    check(folder, own)
    own.save_to_preset(tmp_path / "own")
    check(folder, models.from_preset(tmp_path / "own"))


def load_with_config(name: str, tmp_path: Path, **changes: Any) -> Any:
    folder = copy_of(name, tmp_path)
    change_config(folder, **changes)
    return models.from_preset(folder)


ID2LABEL = "id2label must name the 3 outputs 0 to 2, got {'0': 'a', '1': 'b'}; correct id2label"


@refuses(
    ("distilbert", {"problem_type": "regression"}, "problem_type='regression' is not supported"),
    ("distilbert", {"id2label": {"0": "a", "1": "b"}}, ID2LABEL),
    ("distilbert", {"activation": "swoosh"}, "activation='swoosh' is not supported"),
    ("distilbert", {"dim": None}, "config.json: dim is missing"),
    ("roberta", {"pad_token_id": 0}, "pad_token_id=0 is not supported, only 1"),
    ("roberta", {"hidden_act": "relu"}, "hidden_act='relu' is not supported, only 'gelu'"),
    ("roberta", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
    ("bert_classifier", {"architectures": None}, "architectures is missing, so the kind of the"),
    ("distilbert", {"id2label": ["a", "b", "c"]}, "id2label must name the 3 outputs 0 to 2, got"),
    (
        "roberta",
        {"architectures": ["RobertaForSequenceClassification"]},
        "tensor classifier.out_proj.bias is missing",
    ),
)
def test_unsupported_configs_are_rejected(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    load_with_config(name, tmp_path, **changes)


def test_missing_tensors_have_the_names_of_the_checkpoint(tmp_path: Path) -> None:
    folder = copy_of("distilbert", tmp_path)
    name = "transformer.layer.1.attention.q_lin.bias"
    tensors = {key: x for key, x in Tensors(folder).items() if not key.endswith(name)}
    write_safetensors(folder / FILE, tensors)
    with pytest.raises(ValueError, match=rf"tensor {name} is missing"):
        models.from_preset(folder)


def test_an_encoder_without_a_head_has_no_task(tmp_path: Path) -> None:
    folder = copy_of("bert", tmp_path)
    tensors = {k: x for k, x in Tensors(folder).items() if not k.startswith("cls.")}
    write_safetensors(folder / FILE, tensors)
    with pytest.raises(ValueError, match=r"no task loads a BERT from a public checkp"):
        az.load(folder)


@pytest.mark.parametrize("name", ["distilbert_tagger", "roberta_tagger"])
@pytest.mark.parametrize("aggregation", ["first", "average", "max"])
def test_tags_of_words_equal_those_of_transformers(name: str, aggregation: str) -> None:
    model = TransformerTagger.from_preset(GOLDEN / name, aggregation=aggregation)
    task = Tagging(model, load_tokenizer(GOLDEN / name), max_length=40, scheme="BIO")
    results = task.predict(SENTENCES)
    want = expected(GOLDEN / name)[aggregation]
    tags = [tag for result in results for tag in result.tags]
    assert tags == [TAGS[n] for n in want.argmax(axis=1)]
    got = [probability for result in results for probability in result.probabilities]
    np.testing.assert_allclose(got, want.max(axis=1), atol=1e-5)


def test_a_loaded_tagger_has_the_scheme_of_its_tags(tmp_path: Path) -> None:
    task = az.load(GOLDEN / "distilbert_tagger")
    assert (task.name, task.scheme, task.tags) == ("tagging", "BIO", TAGS)
    assert (task.max_length, task.max_positions, task.model.settings["window"]) == (
        10_000,
        None,
        40,
    )
    folder = copy_of("distilbert_tagger", tmp_path)
    change_config(folder, id2label={str(n): f"L{n}" for n in range(5)})
    assert az.load(folder).scheme is None


def test_long_sentences_are_tagged_in_windows() -> None:
    task = az.load(GOLDEN / "distilbert_tagger")
    (result,) = task.predict([["The", "cat", "sat", "on", "a", "mat", "."] * 7])
    assert len(result.tags) == len(result.words) == 49
    assert len(result.tokens) > 40 == task.model.settings["window"]
    assert result.attention is None


@pytest.mark.parametrize("prefix", [False, True])
def test_byte_level_tokens_include_the_space_before_a_word(prefix: bool, tmp_path: Path) -> None:
    folder = copy_of("roberta_tagger", tmp_path)
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": prefix}))
    task = az.load(folder)
    tokenizer = task.tokenizer
    assert tokenizer.adds_prefix_space is prefix
    assert (tokenizer.encode(["cat"]) == tokenizer.encode([" cat"])) is prefix
    for sentence, text in (("The cat, sat", "The cat, sat"), (["a", ",", "b"], "a , b")):
        (source,) = task._encode_sources([sentence])
        assert list(source.encoded.tokens) == [1, *tokenizer.encode([text])[0], 3]
    tokenizer.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").adds_prefix_space is prefix


@pytest.mark.parametrize("name", ["roberta_classifier", "distilbert_tagger"])
def test_an_unused_pooler_is_ignored(name: str, tmp_path: Path) -> None:
    folder, tensors = copy_of(name, tmp_path), dict(Tensors(GOLDEN / name))
    rng = np.random.default_rng(0)
    prefix = name.split("_", maxsplit=1)[0]
    tensors[f"{prefix}.pooler.dense.weight"] = rng.normal(size=(16, 16)).astype("float32")
    tensors[f"{prefix}.pooler.dense.bias"] = rng.normal(size=16).astype("float32")
    write_safetensors(folder / FILE, tensors)
    model = models.from_preset(folder)
    assert model.bert.pooler is None
    check(folder, model)

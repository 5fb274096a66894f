"""Ids and texts of public tokenizers in the exported graph equal those of the tokenizers."""

from __future__ import annotations

import functools
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tokenizers import AddedToken

import attention_zoo as az
from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.export import export
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.tasks import LanguageModeling, Tagging
from tests.data.tokenizers.byte_level_files import write_bart, write_roberta
from tests.data.tokenizers.text_lines import make_lines
from tests.export.alone import predict_in_tensorflow_process
from tests.export.test_graph_tokenizer import lines
from tests.models.public.checkpoints import GOLDEN, copy_of
from tests.tasks.captioners import with_normal_weights

FAMILIES = ("bert", "gpt2", "roberta", "bart")
TRAINED = {"roberta": write_roberta, "bart": write_bart}
TEXTS = [
    "the [MASK] of France's hello [SEP] [CLS]x",
    "a <|endoftext|> b<|endoftext|>",
    "'s don't 's\n\n  x  ",
    "",
    "  ",
    "it's's 'LL we'll'  \t x\n\ny I'd''s '",
    "x" * 130,
    "ÀÉ naïve e\u0301 Ωmega 東京 한국 can't-won't",
    "they've  'd\n'm",
    "the  <mask> and\u3000<mask><mask> x</s> <s>a <pad>\t <mask>",
    "🇫🇷 ½ 3.14 ٣٤ \u200d\x07",
]


@functools.cache
def graph_tokenizer(family: str) -> tuple[Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        if family in TRAINED:
            TRAINED[family](Path(folder))
        tokenizer = load_tokenizer(Path(folder) if family in TRAINED else GOLDEN / family)
    return tokenizer, make_graph_tokenizer(tokenizer)


def assert_same(family: str, texts: list[str]) -> None:
    tokenizer, graph = graph_tokenizer(family)
    expected = tokenizer.encode(texts)
    ids, surfaces = graph.encode(tf.constant(texts))
    assert ids.to_list() == expected
    decoded = [text.decode() for text in graph.text(surfaces.to_tensor("")).numpy()]
    assert decoded == [tokenizer.decode(row, past_end=True) for row in expected]
    labels = graph.labels(ids.flat_values).numpy().tolist()
    flat = [token for row in expected for token in row]
    assert [label.decode() for label in labels] == tokenizer.tokens(flat)


def test_special_tokens_of_bart() -> None:
    assert_same("bart", [*TEXTS[9:], "<s>a</s>b<pad> <unk>"])


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_and_texts_of_all_scripts(family: str) -> None:
    rng, letters = random.Random(0), " '  \n\tsdmtlrevx12.東é😀"
    texts = ["".join(rng.choice(letters) for _ in range(rng.randrange(1, 14))) for _ in range(999)]
    assert_same(family, [*TEXTS, *texts, *lines()[:999]])


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_empty_batch_and_empty_texts(family: str) -> None:
    _, graph = graph_tokenizer(family)
    assert graph.encode(tf.constant([], tf.string))[0].to_list() == []
    assert_same(family, ["", ""])
    assert_same(family, ["", " "])


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_thousand_lines(family: str) -> None:
    assert_same(family, make_lines(10_000))


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_parts_of_characters(family: str) -> None:
    tokenizer, graph = graph_tokenizer(family)
    ids = list(range(tokenizer.vocabulary_size))
    continued = [i for i in ids if tokenizer.tokens([i])[0].startswith("##")]
    for row in (ids[4:34], ids[::-1][:30], ids[-90:-60], [*continued, *ids[:3]]):
        decoded = graph.text(graph.surfaces(tf.constant(row, tf.int32))).numpy().decode()
        assert decoded == tokenizer.decode(row, past_end=True)


@pytest.mark.full
def test_word_pieces_with_literal_number_signs(tmp_path: Path) -> None:
    own = ("#", "##", "###", "####", "##b", "b##", "a##b", "##a##", ".")
    vocabulary = (GOLDEN / "bert" / "vocab.txt").read_text("utf-8").splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join([*vocabulary, *own]), "utf-8")
    tokenizer, rng = load_tokenizer(tmp_path), random.Random(0)
    ids = [0, 1, 2, 3, 5, *range(tokenizer.vocabulary_size - len(own), tokenizer.vocabulary_size)]
    rows = [[first, second, 5] for first in ids for second in ids]
    rows += [rng.choices(ids, k=6) for _ in range(200)]
    graph = make_graph_tokenizer(tokenizer)
    texts = graph.text(graph.surfaces(tf.ragged.constant(rows)).to_tensor("")).numpy()
    assert [text.decode() for text in texts] == [
        tokenizer.decode(row, past_end=True) for row in rows
    ]


@pytest.mark.full
def test_a_gpt2_is_exported(tmp_path: Path) -> None:
    task = LanguageModeling(
        models.from_preset(GOLDEN / "gpt2"),
        load_tokenizer(GOLDEN / "gpt2"),
        SearchOptions(max_length=3, beam_width=2),
        max_length=12,
    )
    folder = export(task, tmp_path / "served")
    ((answers, _),) = predict_in_tensorflow_process([folder], [["the", "c é"]])[0]
    wants = task.predict(["the", "c é"])
    assert [row[0] for row in answers["text"]] == [expected.text for expected in wants]
    assert list(filter(None, answers["source_tokens"][0])) == list(wants[0].source_tokens)


@pytest.mark.full
def test_a_bert_tagger_is_exported(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(GOLDEN / "bert")
    sizes = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1, "max_length": 64}
    bert = models.BERT(tokenizer.vocabulary_size, use_pooler=False, **sizes)
    model = models.TransformerTagger(bert, ["O", "B-PER"], head={"kind": "softmax"})
    task = Tagging(with_normal_weights(model), tokenizer, max_length=20, scheme="BIO")
    texts = ["the capital of france", "\u0301 ▁ is PARIS ?"]
    folder = export(task, tmp_path / "served")
    ((answers, _),) = predict_in_tensorflow_process([folder], [texts])[0]
    for row, expected in enumerate(task.predict(texts)):
        assert tuple(answers["words"][row][: len(expected.words)]) == expected.words
        assert tuple(answers["tags"][row][: len(expected.words)]) == expected.tags


@pytest.mark.full
@pytest.mark.parametrize("name", ["distilbert_tagger", "roberta_tagger"])
def test_public_taggers_are_exported(name: str, tmp_path: Path) -> None:
    folder = copy_of(name, tmp_path)
    (folder / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    task = az.load(folder)
    texts = ["The cat, unseen, sat.", "  sat\u00a0a-b 1,234.5 km ", "東京 is Ça?", "x"]
    ((answers, _),) = predict_in_tensorflow_process([export(task, tmp_path / "served")], [texts])[0]
    for row, want in enumerate(task.predict(texts)):
        size = len(want.words)
        assert tuple(answers["words"][row][:size]) == want.words
        assert tuple(answers["tags"][row][:size]) == want.tags
        got = answers["probabilities"][row][:size]
        np.testing.assert_allclose(got, want.probabilities, rtol=1e-4)
        offsets = [tuple(x) for x in answers["spans"][row][: len(want.spans)]]
        assert offsets == [(span.start, span.end) for span in want.spans]


def test_normalized_tokens_without_a_normalizer(tmp_path: Path) -> None:
    content = json.loads(load_tokenizer(GOLDEN / "gpt2")._engine.to_str())
    for token in content["added_tokens"]:
        token["normalized"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    tokenizer, texts = load_tokenizer(tmp_path), TEXTS[1:3]
    ids, _ = make_graph_tokenizer(tokenizer).encode(tf.constant(texts))
    assert ids.to_list() == tokenizer.encode(texts)


def test_tokenizers_without_export_raise() -> None:
    tokenizer = load_tokenizer(GOLDEN / "bert")
    tokenizer._engine.add_tokens([AddedToken("own", normalized=True)])
    with pytest.raises(ValueError, match=r"^added token 'own': normalized=true cannot be exported"):
        make_graph_tokenizer(tokenizer)
    tokenizer = load_tokenizer(GOLDEN / "gpt2")
    tokenizer._engine.add_tokens([AddedToken("own", single_word=True)])
    with pytest.raises(
        ValueError, match=r"^added token 'own': single_word=true cannot be exported"
    ):
        make_graph_tokenizer(tokenizer)
    with pytest.raises(ValueError, match="tokenizer object cannot be exported"):
        make_graph_tokenizer(object())

"""Ids and texts of SentencePiece tokenizers in the exported graph equal those of the tokenizers."""

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

import attention_zoo as az
from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.export import export
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.tasks import Translation
from tests.data.tokenizers.sentencepiece_models import (
    change_model,
    train_model,
    write_checkpoint,
    write_t5,
)
from tests.data.tokenizers.text_lines import make_lines
from tests.export.alone import predict_in_tensorflow_process
from tests.export.test_graph_tokenizer import lines
from tests.models.public.checkpoints import GOLDEN

TEXTS = [
    "Ulla gave the green bell to Tess.",
    "  two   spaces ",
    "ﬁve ①② ﾊﾞ n\u0303\u0323 か\u3099 ...!!! 11111",
    "東京 ж ŧ ♞♞ z q \u200b\x07\n\t x",
    "",
    " ",
    "\x07",
    "▁ ▁▁a▁",
    ">>fra<< bell</s>>>fra<<>>fra<< x<pad><unk>",
    "the <extra_id_0> bell<extra_id_99>  <extra_id_100>x <extra_id_1><extra_id_10>",
    "\u1100\u1161\u11a8 👩\u200d👧",
]
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "lowercase": {"normalization_rule_name": "nmt_nfkc_cf"},
    "identity": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "extra_spaces": {"remove_extra_whitespaces": False},
    "no_prefix": {"add_dummy_prefix": False},
    "pieces_of_several_words": {"split_by_whitespace": False},
}
BPE: dict[str, dict[str, Any]] = {
    "bpe": {},
    "bpe_identity": OPTIONS["identity"],
    "bpe_pieces_of_several_words": OPTIONS["pieces_of_several_words"],
    "bpe_few_characters": {"character_coverage": 0.98},
}
NAMES = (*OPTIONS, *BPE, "t5")


@functools.cache
def make_tokenizers(name: str) -> tuple[Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        if name == "t5":
            write_t5(Path(folder))
            (Path(folder) / "config.json").write_text('{"vocab_size": 512}')
        else:
            is_bpe = name in BPE
            model = train_model("bpe", **BPE[name]) if is_bpe else train_model(**OPTIONS[name])
            write_checkpoint(Path(folder), model)
        tokenizer = load_tokenizer(folder)
    return tokenizer, make_graph_tokenizer(tokenizer)


def assert_same(name: str, texts: list[str]) -> None:
    tokenizer, graph = make_tokenizers(name)
    expected = tokenizer.encode(texts)
    ids, _ = graph.encode(tf.constant(texts, tf.string))
    assert ids.to_list() == expected
    surfaces = graph.surfaces(ids.flat_values)
    decoded = graph.text(ids.with_flat_values(surfaces).to_tensor("")).numpy()
    assert [text.decode() for text in decoded] == [
        tokenizer.decode(row, past_end=True) for row in expected
    ]
    labels = graph.labels(ids.flat_values).numpy()
    flat = [token for row in expected for token in row]
    assert [label.decode() for label in labels] == tokenizer.tokens(flat)


def make_mixed_texts(count: int) -> list[str]:
    """Return random texts of letters that combine, spaces, ties and special pieces."""
    rng = random.Random(0)
    parts = [*"aeth .!1-か中ж\u0301\u3099ﾞﾊ\u1161\u1100 \t▁", "the ", "</s>", ">>fra<<", "11", "!?"]
    parts += ["<extra_id_1>"]
    return ["".join(rng.choices(parts, k=rng.randrange(30))) for _ in range(count)]


def test_ids_and_texts() -> None:
    assert_same("default", [">>fra<< to</s> ♞z", "ﬁ  n\u0303 ..."])


def test_bpe() -> None:
    assert_same("bpe", [">>fra<< to the green bell</s> ♞♞ z", "ﬁ  n\u0303 ...", "", "aaaa eeeee"])


def test_sentinel_tokens() -> None:
    assert_same("t5", [TEXTS[-2], "a </s><pad> b <unk>", "<extra_id_0>"])


def test_ids_without_a_piece() -> None:
    tokenizer, graph = make_tokenizers("t5")
    ids = [*range(4), *range(tokenizer.vocabulary_size - 20, tokenizer.vocabulary_size)]
    text = graph.text(graph.surfaces(tf.constant(ids))).numpy().decode()
    assert text == tokenizer.decode(ids, past_end=True)
    labels = graph.labels(tf.constant(ids)).numpy()
    assert [label.decode() for label in labels] == tokenizer.tokens(ids)


def test_ties_are_broken_as_in_sentencepiece() -> None:
    """Rounding decides between permutations of the same pieces."""
    assert_same("default", ["..... !!!!! ----- 11111 22222 to 222"])


@pytest.mark.full
@pytest.mark.parametrize("name", ["default", "bpe", "t5"])
def test_ten_thousand_lines(name: str) -> None:
    assert_same(name, make_lines(10_000))


@pytest.mark.full
def test_loaded_graph(tmp_path: Path) -> None:
    tokenizer, graph = make_tokenizers("default")
    signature = [tf.TensorSpec([None], tf.string)]
    module = tf.Module()
    module.graph = graph
    module.encode = tf.function(lambda texts: graph.encode(texts)[0].to_tensor(-1), signature)
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    for texts in (TEXTS, [], ["a\0b"], make_mixed_texts(200)):
        rows = loaded.encode(tf.constant(texts, tf.string)).numpy()
        assert [[i for i in row if i >= 0] for row in rows.tolist()] == tokenizer.encode(texts)
    invalid = loaded.encode(tf.constant([b"a\xffb"])).numpy().tolist()
    assert invalid == tokenizer.encode(["a\ufffdb"])


def test_no_texts_and_no_characters() -> None:
    for name in ("default", "bpe"):
        assert_same(name, [])
        assert_same(name, ["", " "])


@pytest.mark.full
def test_a_translator_is_exported(tmp_path: Path) -> None:
    tokenizer, _ = make_tokenizers("default")
    sizes = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1}
    tie = {"kind": "all", "bias": True}
    model = models.Transformer(*[tokenizer.vocabulary_size] * 2, **sizes, tie=tie)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    search = SearchOptions(beam_width=2, max_length=9, replace_unknown=True)
    task = Translation(model, tokenizer, tokenizer, search, add_source_end=True)
    texts = ["Ulla gave the green bell to Tess.", "ŧ ♞♞ >>fra<<", ">>fra<< bell", ""]
    ((answers, _),) = predict_in_tensorflow_process([export(task, tmp_path / "served")], [texts])[0]
    assert answers["ok"] == [True, True, True, False]
    for row, want in enumerate(task.predict(texts[:3])):
        assert answers["text"][row][0] == want.text
        assert [x for x in answers["source_tokens"][row] if x] == list(want.source_tokens)
        np.testing.assert_allclose(answers["scores"][row][0], want.score, rtol=1e-4)


def test_unknown_language_codes_are_found() -> None:
    tokenizer, graph = make_tokenizers("default")
    texts = [">>fra<< a", ">>xyz<< a", ">>xyz<<", "a >>xyz<<", ">>deu_Latn<<\nb", "", ">> <<", ">>"]
    found = graph.find_unknown_codes(tf.constant([*texts, b">>a-b<<\xff\n"])).numpy().tolist()
    assert found == [b"", b">>xyz<<", b">>xyz<<", b"", b"", b"", b"", b"", b">>a-b<<"]
    codes = map(tokenizer.find_language_code, texts)
    known = tokenizer.language_codes
    assert [x.decode() for x in found[:-1]] == ["" if x in known else x for x in codes]


@pytest.mark.full
def test_exported_checkpoint_equals_predict(tmp_path: Path) -> None:
    """A translator of Marian with the generation config of its checkpoint, and its errors."""
    folder = GOLDEN / "marian_translator"
    task = az.load(folder)
    expected = json.loads((folder / "expected.json").read_text("utf-8"))["sources"][:40]
    texts = [*expected, ">>zzz<< ba", "", ">>aaa<< " + "ba " * 50]
    ((answers, _),) = predict_in_tensorflow_process([export(task, tmp_path / "served")], [texts])[0]
    assert answers["ok"] == [True] * 40 + [False] * 3
    errors = answers["error"][-3:]
    assert errors[0] == "unknown language code >>zzz<<. Known: >>aaa<<, >>bbb<<."
    assert errors[1].startswith("the text is empty")
    assert errors[2].startswith("52 tokens, the limit is 40")
    for row, result in enumerate(task.predict(expected)):
        assert answers["text"][row][0] == result.text
        np.testing.assert_allclose(answers["scores"][row][0], result.score, rtol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_ids_and_texts_of_all_scripts(name: str) -> None:
    assert_same(name, [*TEXTS, *make_mixed_texts(2000), *lines()])


def set_equal_scores(proto: Any) -> None:
    proto.pieces[-1].score = proto.pieces[-2].score


def set_unused(proto: Any) -> None:
    proto.pieces[-1].type = proto.pieces[-1].UNUSED


def test_unsupported_models_are_refused(tmp_path: Path) -> None:
    for content, message in [
        (train_model("char"), "model_type=char cannot be exported; expected model_type=unigram or"),
        (
            train_model(user_defined_symbols="the"),
            "with user-defined pieces, such as 'the', cannot",
        ),
        (change_model(set_equal_scores, "bpe"), "model_type=bpe and equal scores cannot be"),
        (change_model(set_unused, "bpe"), "model_type=bpe and pieces of the type UNUSED cannot"),
        (train_model(treat_whitespace_as_suffix=True), "treat_whitespace_as_suffix=True cannot"),
    ]:
        write_checkpoint(tmp_path, content)
        with pytest.raises(ValueError, match=message):
            make_graph_tokenizer(load_tokenizer(tmp_path))

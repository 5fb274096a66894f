"""Byte-level tokenizers of RoBERTa and BART have the ids of their files, shifted by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from attention_zoo.data import load_tokenizer
from tests.data.tokenizers.byte_level_files import write_roberta

TEXTS = [
    "Ulla gave the green bell to Tess.",
    "the  <mask> and<mask> x</s><s>a <pad>",
    "東京 ñ 😀\n\n  don't <unk>",
    "",
]


def test_ids_are_those_of_the_engine(tmp_path: Path) -> None:
    engine = write_roberta(tmp_path)
    for folder in (tmp_path, tmp_path / "merges"):
        tokenizer = load_tokenizer(folder)
        assert tokenizer.kind == "roberta"
        ids = tokenizer.encode(TEXTS)
        expected = [engine.encode(text, add_special_tokens=False).ids for text in TEXTS]
        assert [[*map(tokenizer.to_checkpoint_id, row)] for row in ids] == expected
        assert [[*map(tokenizer.from_checkpoint_id, row)] for row in expected] == ids
        assert tokenizer.vocabulary_size == engine.get_vocab_size() + 1


def test_special_tokens(tmp_path: Path) -> None:
    engine = write_roberta(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    names = ("<s>", "</s>", "<unk>", "<mask>")
    ids = [engine.token_to_id(name) + 1 for name in names]
    assert [tokenizer.start, tokenizer.end, tokenizer.unknown, tokenizer.mask] == ids
    assert tokenizer.tokens([0, *ids]) == ["<pad>", *names]
    assert tokenizer.pad == 0


def test_id_0_of_the_checkpoint_occurs_in_texts(tmp_path: Path) -> None:
    engine = write_roberta(tmp_path)
    assert engine.token_to_id("<s>") == 0
    tokenizer = load_tokenizer(tmp_path)
    (ids,) = tokenizer.encode(["a<s>b<pad>"])
    assert [tokenizer.to_checkpoint_id(i) for i in ids if i != tokenizer.pad].count(0) == 1
    assert tokenizer.pad not in ids
    assert tokenizer.decode(ids) == "ab<pad>"


def test_texts_are_restored(tmp_path: Path) -> None:
    write_roberta(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    for text in TEXTS[::2]:
        (ids,) = tokenizer.encode([text])
        assert tokenizer.decode([tokenizer.start, *ids, tokenizer.end, tokenizer.pad]) == text
    tokenizer.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)


def test_vocabulary_without_mask_token_raises(tmp_path: Path) -> None:
    write_roberta(tmp_path)
    engine = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    content = engine.to_str().replace("<mask>", "<masked>")
    (tmp_path / "tokenizer.json").write_text(content, "utf-8")
    with pytest.raises(ValueError, match=r"tokenizer\.json: the vocabulary has no <mask>"):
        load_tokenizer(tmp_path)

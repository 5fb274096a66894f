"""Public tokenizers return the ids of `transformers`, except for special tokens of this library."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.data import PublicTokenizer, load_tokenizer
from attention_zoo.data.tokenizers.tokenizer import train_tokenizer
from tests.models.public.checkpoints import GOLDEN, written_by_transformers

FAMILIES = ("bert", "gpt2")


def expected(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "expected.json").read_text("utf-8"))
    return content


def check(folder: Path) -> PublicTokenizer:
    """Assert that ids and texts equal those of the released tokenizer."""
    tokenizer, want = load_tokenizer(folder), expected(folder)
    assert isinstance(tokenizer, PublicTokenizer)
    found = tokenizer.encode(want["texts"])
    assert found == [[tokenizer.from_checkpoint_id(i) for i in ids] for ids in want["ids"]]
    for ids, text in zip(found, want["back"], strict=True):
        if tokenizer.end not in ids:
            assert tokenizer.decode(ids) == text
        assert len(tokenizer.tokens(ids)) == len(ids)
    return tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_equal_transformers(family: str, tmp_path: Path) -> None:
    tokenizer = check(GOLDEN / family)
    tokenizer.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]
    shutil.copy(GOLDEN / family / "expected.json", tmp_path)
    again = check(tmp_path)
    assert type(again) is type(tokenizer)
    assert again.vocabulary_size == tokenizer.vocabulary_size
    assert again.lowercase is tokenizer.lowercase is (family == "bert")


@pytest.mark.zoo
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_equal_installed_transformers(family: str, tmp_path: Path) -> None:
    check(written_by_transformers(family, tmp_path))


def test_word_pieces() -> None:
    tokenizer = load_tokenizer(GOLDEN / "bert")
    assert tokenizer.kind == "wordpiece"
    special = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end, tokenizer.mask)
    assert special == (0, 1, 2, 3, 4)
    assert tokenizer.vocabulary_size == expected(GOLDEN / "bert")["size"]
    (ids,) = tokenizer.encode(["The UNSEEN [MASK]"])
    assert tokenizer.tokens(ids) == ["the", "un", "##seen", "[MASK]"]
    assert [tokenizer.decode_one(i) for i in ids] == ["▁the", "▁un", "seen", "▁[MASK]"]
    assert tokenizer.decode([2, *ids, 0, 3, 5]) == "the unseen [MASK]"
    assert tokenizer.decode_one(3) == ""


def test_bytes() -> None:
    tokenizer = load_tokenizer(GOLDEN / "gpt2")
    assert tokenizer.kind == "bytes"
    special = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end, tokenizer.mask)
    assert special == (0, 1, 2, 3, None)
    size = expected(GOLDEN / "gpt2")["size"]
    assert tokenizer.vocabulary_size == size + 3
    (ids,) = tokenizer.encode(["the cat<|endoftext|>"])
    assert ids[-1] == tokenizer.end == tokenizer.from_checkpoint_id(size - 1)
    assert all(i >= 4 for i in ids[:-1])
    assert [
        tokenizer.to_checkpoint_id(tokenizer.from_checkpoint_id(i)) for i in range(size)
    ] == list(range(size))
    assert sorted(map(tokenizer.from_checkpoint_id, range(size))) == list(range(3, size + 3))
    assert tokenizer.decode([2, *ids, ids[0], 0]) == "the cat"
    assert tokenizer.decode([1, 0, *ids]) == "the cat"
    assert tokenizer.tokens([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert "".join(map(tokenizer.decode_one, ids)) == "the▁cat"
    (three,) = tokenizer.encode(["東"])
    assert tokenizer.decode(three) == "東"
    assert all(label and "\ufffd" not in label for label in tokenizer.tokens(three))


def test_lowercasing_follows_the_settings(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "bert" / "vocab.txt", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.lowercase is False
    assert tokenizer.encode(["The the"]) == [[1, 5]]


def test_all_tokenizers_name_their_special_tokens() -> None:
    ours = train_tokenizer("word", ["a b"])
    assert (ours.pad, ours.unknown, ours.start, ours.end, ours.mask) == (0, 1, 2, 3, None)


def test_damaged_files_raise(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(GOLDEN / "bert")
    with pytest.raises(ValueError, match=r"write encode\(\[text\]\)"):
        tokenizer.encode("one text")
    for wrong in (-1, 37):
        with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of 37"):
            tokenizer.decode([wrong])
    words = tmp_path / "vocab.txt"
    words.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n")
    with pytest.raises(ValueError, match=r"vocab.txt: the vocabulary has no \[MASK\], which"):
        load_tokenizer(tmp_path)
    words.write_text("word\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[PAD]\n")
    with pytest.raises(ValueError, match=r"the id of \[PAD\] must be 0, got 5"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Unheard"}}')
    with pytest.raises(ValueError, match=r"tokenizer.json: "):
        load_tokenizer(tmp_path)


def test_added_tokens_follow_the_vocabulary(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "bert" / "vocab.txt", tmp_path)
    size = expected(GOLDEN / "bert")["size"]
    added = tmp_path / "added_tokens.json"
    added.write_text(json.dumps({"<later>": size + 1, "<first>": size, "[MASK]": 4}))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == size + 2
    assert tokenizer.encode(["<first><later> <first>"]) == [[size, size + 1, size]]
    tokenizer.save(tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").encode(["<later>"]) == [[size + 1]]
    added.write_text(json.dumps({"<first>": size + 1}))
    with pytest.raises(ValueError, match=f"id of '<first>' must be {size}, got {size + 1}; give"):
        load_tokenizer(tmp_path)
    added.write_text("[1, 2")
    with pytest.raises(
        ValueError, match=r"vocab.txt: .*added_tokens.json is damaged; copy it again"
    ):
        load_tokenizer(tmp_path)


def test_unknown_kinds_raise(tmp_path: Path) -> None:
    import tokenizers

    engine = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
    engine.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match=r"unknown tokenizer 'WordLevel'; .*known: BPE, WordPiece"):
        load_tokenizer(tmp_path)


def test_tokens_added_to_a_released_vocabulary_raise(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(GOLDEN / "gpt2")
    tokenizer._engine.add_tokens(["more"])
    tokenizer.save(tmp_path)
    with pytest.raises(ValueError, match=r"<\|endoftext\|> must be .* 272 .*, got id 270; remove"):
        load_tokenizer(tmp_path)

"""The tokenizer of Marian: pieces of SentencePiece, ids of `vocab.json`."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from attention_zoo.data import SentencePieceTokenizer, load_tokenizer
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import load_sentencepiece_tokenizer
from tests.data.tokenizers.sentencepiece_models import (
    CODES,
    change_model,
    train_model,
    write_checkpoint,
)
from tests.data.tokenizers.text_lines import make_lines
from tests.models.public.checkpoints import find_transformers

TEXTS = [
    "Ulla gave the green bell to Tess.",
    "  two   spaces ",
    "ﬁve ①② ﾊﾊ e\u0301 n\u0303",
    "東京 한국 ж",
    "",
    "▁",
]


@pytest.fixture
def tokenizer(tmp_path: Path) -> SentencePieceTokenizer:
    write_checkpoint(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert isinstance(loaded, SentencePieceTokenizer)
    return loaded


def test_ids_are_those_of_the_vocabulary(tokenizer: SentencePieceTokenizer) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_proto=train_model())
    vocabulary = tokenizer.vocabulary
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        pieces = processor.encode(text, out_type=str)
        expected = [vocabulary.get(piece, vocabulary["<unk>"]) for piece in pieces]
        assert [tokenizer.to_checkpoint_id(i) for i in ids] == expected
        assert ids == [tokenizer.from_checkpoint_id(i) for i in expected]
    assert tokenizer.encode(["", " "]) == [[], []]
    size = len(vocabulary) + 1
    assert tokenizer.vocabulary_size == size
    assert [
        *map(tokenizer.from_checkpoint_id, map(tokenizer.to_checkpoint_id, range(1, size)))
    ] == [*range(1, size)]
    special = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end)
    assert special == (0, 1, 2, 3)
    assert tokenizer.tokens(special) == ["<pad>", "<unk>", "<pad>", "</s>"]
    assert [*map(tokenizer.to_checkpoint_id, range(4, size))] == [*range(2, size - 2)]


def test_pieces_of_the_model_only_are_unknown(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.encode(["ŧ"])[0][-1] == tokenizer.from_checkpoint_id(tokenizer.vocabulary["ŧ"])
    assert tokenizer.encode(["♞♞"])[0][1:] == [tokenizer.unknown]
    assert tokenizer.decode(tokenizer.encode(["to ♞"])[0]) == "to <unk>"


def test_id_0_of_the_checkpoint_occurs_in_texts(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.vocabulary["</s>"] == 0
    (ids,) = tokenizer.encode(["the bell</s>to Tess<pad>"])
    assert ids.count(tokenizer.from_checkpoint_id(0)) == 1
    assert tokenizer.from_checkpoint_id(0) == tokenizer.end
    assert tokenizer.pad not in ids
    parts = tokenizer.encode(["the bell", "to Tess"])
    assert ids == [*parts[0], tokenizer.end, *parts[1], tokenizer.start]
    assert tokenizer.to_checkpoint_id(tokenizer.start) == len(tokenizer.vocabulary) - 1
    assert tokenizer.decode(ids) == "the bell"
    assert tokenizer.decode(ids, past_end=True) == "the bell to Tess"


def test_language_codes(tokenizer: SentencePieceTokenizer) -> None:
    code, other, middle, missing = tokenizer.encode(
        [">>fra<< the bell", ">>deu_Latn<<the bell", "the >>fra<<", ">>xyz<< the bell"]
    )
    plain = tokenizer.encode(["the bell"])[0]
    assert tokenizer.tokens(code) == [">>fra<<", *tokenizer.tokens(plain)]
    assert tokenizer.tokens(other) == [">>deu_Latn<<", *tokenizer.tokens(plain)]
    assert ">>fra<<" not in tokenizer.tokens(middle)
    assert tokenizer.unknown in missing
    assert ">>xyz<<" not in tokenizer.tokens(missing)
    assert tokenizer.language_codes == [">>fra<<", ">>deu_Latn<<"]


def test_texts_are_restored(tokenizer: SentencePieceTokenizer) -> None:
    text = "Ulla gave the green bell to Tess."
    (ids,) = tokenizer.encode([text])
    assert tokenizer.decode([tokenizer.start, *ids, tokenizer.end, tokenizer.pad]) == text
    assert "".join(map(tokenizer.decode_one, ids)) == "▁" + text.replace(" ", "▁")
    with pytest.raises(ValueError, match="outside the vocabulary"):
        tokenizer.decode([tokenizer.vocabulary_size])


def test_texts_of_unknown_tokens(tokenizer: SentencePieceTokenizer) -> None:
    text = "to ♞♞ </s>♞"
    (ids,) = tokenizer.encode([text])
    surfaces = tokenizer.surfaces(text)
    assert len(surfaces) == len(ids)
    assert "".join(surfaces) == "▁to▁♞♞</s>▁♞"
    assert tokenizer.unknown_surfaces(text) == ["♞♞", "♞"]
    assert ids.count(tokenizer.unknown) == 2
    assert tokenizer.tokens(ids, ["a", "b"]).count("a") == 1
    assert tokenizer.decode(ids, ["a"]) == "to a"
    assert tokenizer.decode(ids, ["a", "b"], past_end=True) == "to a b"


def test_offsets(tokenizer: SentencePieceTokenizer) -> None:
    for text in [*TEXTS, "a </s> ﬁ", ">>fra<<  bell "]:
        offsets = tokenizer.offsets(text)
        assert len(offsets) == len(tokenizer.encode([text])[0])
        assert all(a <= b <= c for (a, b), (c, _) in itertools.pairwise(offsets))
        parts = [text[start:end] for start, end in offsets]
        assert not any(part != part.strip() for part in parts)
        if text != "▁":
            assert "".join(parts) == "".join(text.split())


def test_saved_tokenizer(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert again.content_hash == tokenizer.content_hash
    write_checkpoint(tmp_path / "saved", codes=())
    assert load_tokenizer(tmp_path / "saved").content_hash != tokenizer.content_hash


def test_tokenizer_of_the_target(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    model = train_model("bpe", normalization_rule_name="nmt_nfkc_cf")
    (tmp_path / "target.spm").write_bytes(model)
    target = load_sentencepiece_tokenizer(tmp_path, "target")
    assert target.lowercase
    assert not load_tokenizer(tmp_path).lowercase
    assert target.vocabulary == load_tokenizer(tmp_path).vocabulary
    own = {"<pad>": 0, "</s>": 1, "<unk>": 2, "▁the": 3}
    (tmp_path / "target_vocab.json").write_text(json.dumps(own))
    assert load_sentencepiece_tokenizer(tmp_path, "target").encode(["THE the"]) == [[4, 4]]


def test_ids_without_a_piece_add_no_text(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    names = {"</s>": 0, "<unk>": 2, "<pad>": 4, "▁the": 9}
    (tmp_path / "vocab.json").write_text(json.dumps(names))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == 11
    assert tokenizer.decode([10, 4, 10]) == "the the"
    assert tokenizer.tokens([0, 4, 10]) == ["<pad>", "▁", "the"]


def test_damaged_vocabularies_raise(tmp_path: Path) -> None:
    vocabulary = write_checkpoint(tmp_path)
    file = tmp_path / "vocab.json"
    for content, message in [
        ("{", r"vocab\.json: Expecting"),
        ("[" * 100_000, r"vocab\.json: "),
        ("[]", r"vocab\.json: expected an object with the id of each piece"),
        ('{"a": -1}', r"the id of 'a' must be a whole number from 0 to .*, got -1"),
        ('{"a": true}', "the id of 'a' must be a whole number .*, got True"),
        ('{"a": 1099511627776}', "the id of 'a' must be a whole number"),
        ('{"\\ud800": 1}', "a piece is not valid Unicode"),
        ('{"</s>": 0, "<unk>": 1}', "there is no <pad>, which Marian and T5 require"),
        (json.dumps({**vocabulary, "x": 0}), "'</s>' and 'x' have the same id 0"),
    ]:
        file.write_text(content)
        with pytest.raises(ValueError, match=message):
            load_tokenizer(tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match=r"vocab\.json: No such file"):
        load_tokenizer(tmp_path)


def test_damaged_models_raise(tmp_path: Path) -> None:
    def repeat_piece(proto: Any) -> None:
        proto.pieces.add().CopyFrom(proto.pieces[-1])

    def cut_rules(proto: Any) -> None:
        proto.normalizer_spec.precompiled_charsmap = b"\0\0\1\0" + bytes(50)

    def remove_pieces(proto: Any) -> None:
        del proto.pieces[3:]

    changes = (repeat_piece, cut_rules, remove_pieces)
    damaged = [b"", b"text", train_model()[:-200], *map(change_model, changes)]
    write_checkpoint(tmp_path)
    for content in damaged:
        (tmp_path / "source.spm").write_bytes(content)
        with pytest.raises(ValueError, match=r"source\.spm: not a SentencePiece model"):
            load_tokenizer(tmp_path)
    (tmp_path / "source.spm").write_bytes(train_model(byte_fallback=True))
    with pytest.raises(ValueError, match=r"source\.spm: .* byte_fallback=true is not supported"):
        load_tokenizer(tmp_path)
    with pytest.raises(ValueError, match=r"target\.spm: No such file"):
        load_sentencepiece_tokenizer(tmp_path, "target")


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ValueError, match=r"^sentencepiece is not installed; run `pip install"):
        load_tokenizer(tmp_path)


def test_lone_surrogates_raise(tokenizer: SentencePieceTokenizer) -> None:
    with pytest.raises(ValueError, match="the text is not valid Unicode"):
        tokenizer.offsets("\ud800")
    with pytest.raises(ValueError, match="text 0 is not valid Unicode"):
        tokenizer.encode(["\ud800"])


@pytest.mark.zoo
def test_ids_equal_those_of_the_marian_tokenizer(tmp_path: Path) -> None:
    """Also with special pieces inside of texts, and a language code at the start."""
    write_checkpoint(tmp_path)
    shutil.copy(tmp_path / "source.spm", tmp_path / "target.spm")
    rng, special = random.Random(0), [*CODES[:1], "</s>", "<unk>", "<pad>"]
    lines = make_lines(10_000)
    for row in range(0, len(lines), 10):
        words = lines[row].split(" ")
        words.insert(rng.randrange(len(words) + 1), rng.choice(special[1:]))
        lines[row] = " ".join([special[0]] * (row % 20 == 0) + words)
    (tmp_path / "texts.json").write_text(json.dumps(lines))
    script = Path(__file__).with_name("marian_by_transformers.py")
    subprocess.run([find_transformers(), str(script), str(tmp_path)], check=True, timeout=600)
    expected = json.loads((tmp_path / "ids.json").read_text())
    tokenizer = load_tokenizer(tmp_path)
    for line, ids, want in zip(lines, tokenizer.encode(lines), expected, strict=True):
        assert [*map(tokenizer.to_checkpoint_id, ids)] == want[:-1], line
        assert want[-1] == tokenizer.to_checkpoint_id(tokenizer.end)

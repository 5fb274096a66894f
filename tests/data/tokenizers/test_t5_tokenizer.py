"""The tokenizer of T5: pieces of SentencePiece, and sentinel tokens."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2

from attention_zoo.data import SentencePieceTokenizer, load_tokenizer
from attention_zoo.data.tokenizers.vocabulary import MARK
from tests.data.tokenizers.sentencepiece_models import train_model, write_t5
from tests.data.tokenizers.text_lines import make_lines
from tests.models.public.checkpoints import find_transformers
from tests.refusals import refuses

TEXTS = [
    "Ulla gave the green bell to Tess.",
    "the <extra_id_0> bell<extra_id_99>to <extra_id_100>",
    "  two   spaces </s> ﬁve <pad>♞♞<unk>",
    "",
]


def load(folder: Path, **settings: dict[str, Any]) -> SentencePieceTokenizer:
    """Write a T5 tokenizer and the content of JSON files, by their names, and load it."""
    write_t5(folder)
    for name, content in settings.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    tokenizer = load_tokenizer(folder)
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


def test_ids_are_those_of_the_model(tmp_path: Path) -> None:
    tokenizer = load(tmp_path)
    file = str(tmp_path / "spiece.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=file)
    size = processor.get_piece_size()
    for text in ("Ulla gave the green bell to Tess.", "  two   spaces ", "東京 ж ♞♞ ŧ", ""):
        (ids,) = tokenizer.encode([text])
        assert [*map(tokenizer.to_checkpoint_id, ids)] == processor.encode(text)
    special = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end)
    assert special == (0, 1, 2, 3)
    assert (tokenizer.mask, tokenizer.text_start) == (None, None)
    expected = [-1, 2, 0, 1, *range(3, size + 100)]
    assert tokenizer.vocabulary_size == len(expected) == size + 101
    assert [*map(tokenizer.to_checkpoint_id, range(len(expected)))] == expected


def test_sentinel_tokens(tmp_path: Path) -> None:
    tokenizer, size = load(tmp_path), len(write_t5(tmp_path))
    (ids,) = tokenizer.encode(["the <extra_id_0> bell<extra_id_99>to"])
    parts = tokenizer.encode(["the", "bell", "to"])
    first, last = map(tokenizer.from_checkpoint_id, (size + 99, size))
    assert ids == [*parts[0], first, *parts[1], last, *parts[2]]
    assert tokenizer.tokens([first, last]) == ["<extra_id_0>", "<extra_id_99>"]
    assert tokenizer.decode(ids) == "the<extra_id_0> bell<extra_id_99> to"
    assert tokenizer.surfaces("a<extra_id_1>")[-1] == "<extra_id_1>"
    assert tokenizer.offsets("a <extra_id_1>")[-1] == (2, 14)
    (ordinary,) = tokenizer.encode(["<extra_id_100>"])
    assert max(ordinary) < last


def test_number_of_sentinel_tokens(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, tokenizer_config={"extra_ids": 2})
    size = len(write_t5(tmp_path))
    assert tokenizer.vocabulary_size == size + 3
    assert tokenizer.tokens([size + 1, size + 2]) == ["<extra_id_1>", "<extra_id_0>"]
    (tmp_path / "tokenizer_config.json").write_text('{"extra_ids": 0}')
    assert load_tokenizer(tmp_path).special_pieces == ["<unk>", "<pad>", "</s>"]
    assert load_tokenizer(tmp_path).vocabulary_size == size + 1


def test_ids_without_a_piece(tmp_path: Path) -> None:
    size = len(write_t5(tmp_path)) + 100
    tokenizer = load(tmp_path, config={"model_type": "t5", "vocab_size": size + 28})
    assert tokenizer.vocabulary_size == size + 29
    (ids,) = tokenizer.encode(["the bell"])
    assert tokenizer.decode([*ids, size + 1, size + 28, *ids]) == "the bell the bell"
    assert tokenizer.tokens([size + 1, size + 28]) == ["▁", "▁"]
    for vocab_size in (size, None):
        same = load(tmp_path, config={"vocab_size": vocab_size})
        assert same.vocabulary_size == size + 1


def test_saved_tokenizer(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"config": {"vocab_size": 512}, "tokenizer_config": {"extra_ids": 9}}
    for number, some in enumerate(({}, settings)):
        folder = tmp_path / str(number)
        folder.mkdir()
        tokenizer = load(folder, **some)
        tokenizer.save(folder / "saved")
        again = load_tokenizer(folder / "saved")
        assert again.vocabulary_size == tokenizer.vocabulary_size
        assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
        assert again.content_hash == tokenizer.content_hash
        assert again.special_pieces == tokenizer.special_pieces


@refuses(
    (
        "config",
        {"vocab_size": 300},
        r"config\.json: vocab_size .* from 500 to .*, got 300; spiece.*400 pieces",
    ),
    ("config", {"vocab_size": "many"}, r"config\.json: vocab_size must be .*, got 'many'"),
    ("config", {"vocab_size": 1 << 40}, r"config\.json: vocab_size must be .*, got 1099511627776"),
    ("tokenizer_config", {"extra_ids": -1}, r"_config\.json: extra_ids must be .* 0 .*, got -1"),
    ("tokenizer_config", {"extra_ids": True}, r"_config\.json: extra_ids must be .*, got True"),
)
def test_invalid_settings(name: str, content: dict[str, Any], tmp_path: Path) -> None:
    load(tmp_path, **{name: content})


@refuses(
    (b"text", r"spiece\.model: not a SentencePiece model: .*; copy it again"),
    (train_model(), r"spiece\.model: there is no <pad>, which Marian and T5 require"),
)
def test_damaged_models(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(content)
    load_tokenizer(tmp_path)


@refuses(
    ({}, r"tokenizer\.json: a Unigram tokenizer requires spiece\.model in its folder; copy it"),
    ({"model_type": "t5"}, r"tokenizer\.json: a Unigram tokenizer requires spiece\.model"),
)
def test_folder_without_the_model(config: dict[str, Any], tmp_path: Path) -> None:
    engine = tokenizers.Tokenizer(tokenizers.models.Unigram([("a", -1.0)], None, False))
    engine.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    load_tokenizer(tmp_path)


def test_model_is_preferred_over_a_unigram_tokenizer(tmp_path: Path) -> None:
    engine = tokenizers.Tokenizer(tokenizers.models.Unigram([("a", -1.0)], None, False))
    engine.save(str(tmp_path / "tokenizer.json"))
    assert load(tmp_path).kind == "sentencepiece"


@pytest.mark.zoo
def test_ids_equal_those_of_transformers(tmp_path: Path) -> None:
    """Also with special tokens inside of texts.

    Texts that `transformers` normalizes unlike SentencePiece are excluded.
    """
    write_t5(tmp_path)
    proto: Any = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((tmp_path / "spiece.model").read_bytes())
    rules = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    content = {"pieces": pieces, "precompiled_charsmap": rules}
    (tmp_path / "pieces.json").write_text(json.dumps(content))
    rng, lines = random.Random(0), make_lines(10_000)
    special = ["</s>", "<unk>", "<pad>", *(f"<extra_id_{i}>" for i in (0, 7, 99, 100))]
    for row in range(0, len(lines), 10):
        words = lines[row].split(" ")
        words.insert(rng.randrange(len(words) + 1), rng.choice(special))
        lines[row] = ("" if row % 3 else " ").join(words)
    (tmp_path / "texts.json").write_text(json.dumps(lines))
    script = Path(__file__).with_name("bart_t5_by_transformers.py")
    command = [find_transformers(), str(script), "t5", str(tmp_path)]
    subprocess.run(command, check=True, timeout=600)
    results = json.loads((tmp_path / "results.json").read_text())
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == results["size"] + 1
    found = tokenizer.encode(lines)
    assert [*map(tokenizer.to_checkpoint_id, [*found[0], tokenizer.end])] == results["whole"]
    normalized = tokenizer._processor.normalize(lines)
    excluded = 0
    for row, line in enumerate(lines):
        words = [word for word in normalized[row].split(MARK) if word]
        if words != results["normalized"][row].replace(MARK, " ").split():
            excluded += 1
            continue
        ids, want = found[row], results["ids"][row]
        assert [*map(tokenizer.to_checkpoint_id, ids)] == want, line
        if tokenizer.end not in ids and tokenizer.start not in ids:
            assert tokenizer.decode(ids) == results["decoded"][row].strip(" ")
    assert excluded < 100


def test_damaged_settings(tmp_path: Path) -> None:
    write_t5(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer_config.json: not a JSON object; copy it ag"):
        load_tokenizer(tmp_path)

"""The tokenizer of BART: byte-level BPE, with the library's special tokens first."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from attention_zoo.data import load_tokenizer
from attention_zoo.data.tokenizers.public_tokenizers import BartTokenizer, RobertaTokenizer
from tests.data.tokenizers.byte_level_files import SPECIAL, write_bart, write_roberta
from tests.data.tokenizers.text_lines import make_lines
from tests.models.public.checkpoints import find_transformers
from tests.refusals import refuses

TEXTS = [
    "Ulla gave the green bell to Tess.",
    "the  <mask> and<mask> x</s><s>a <pad>",
    "東京 ñ 😀\n\n  don't <unk>",
    "",
]


def test_ids_are_those_of_the_engine(tmp_path: Path) -> None:
    engine = write_bart(tmp_path)
    expected = [engine.encode(text, add_special_tokens=False).ids for text in TEXTS]
    for folder in (tmp_path, tmp_path / "merges"):
        tokenizer = load_tokenizer(folder)
        assert type(tokenizer) is BartTokenizer
        assert tokenizer.kind == "bart"
        ids = tokenizer.encode(TEXTS)
        assert [[*map(tokenizer.to_checkpoint_id, row)] for row in ids] == expected
        assert [[*map(tokenizer.from_checkpoint_id, row)] for row in expected] == ids
        assert tokenizer.pad not in {token for row in ids for token in row}


def test_special_tokens_come_first(tmp_path: Path) -> None:
    engine = write_bart(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    special = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end)
    assert special == (0, 1, 2, 3)
    numbers = {name: engine.token_to_id(name) for name in (*SPECIAL, "<mask>")}
    names = ("<unk>", "<pad>", "</s>")
    size = engine.get_vocab_size()
    others = [number for number in range(size) if number not in {numbers[name] for name in names}]
    expected = [-1, *(numbers[name] for name in names), *others]
    assert tokenizer.vocabulary_size == size + 1
    assert [*map(tokenizer.to_checkpoint_id, range(size + 1))] == expected
    assert [*map(tokenizer.from_checkpoint_id, expected[1:])] == [*range(1, size + 1)]
    assert tokenizer.text_start == tokenizer.from_checkpoint_id(numbers["<s>"]) == 4
    assert tokenizer.mask == tokenizer.from_checkpoint_id(numbers["<mask>"]) == size
    labels = ["<pad>", "<unk>", "<pad>", "</s>", "<s>", "<mask>"]
    assert tokenizer.tokens([*special, tokenizer.text_start, tokenizer.mask]) == labels


def test_texts_are_restored(tmp_path: Path) -> None:
    write_bart(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    for text in TEXTS[::2]:
        (ids,) = tokenizer.encode([text])
        row = [tokenizer.start, tokenizer.text_start, *ids, tokenizer.pad, tokenizer.end, *ids]
        assert tokenizer.decode(row) == text
    (ids,) = tokenizer.encode(["a<s>b<pad>c</s>d"])
    assert tokenizer.decode(ids) == "abc"
    assert tokenizer.decode(ids, past_end=True) == "abc</s>d"
    assert "".join(map(tokenizer.decode_one, ids)) == "abcd"


def test_saved_tokenizer(tmp_path: Path) -> None:
    write_bart(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    tokenizer.save(tmp_path / "saved")
    files = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert files == ["tokenizer.json", "tokenizer_config.json"]
    again = load_tokenizer(tmp_path / "saved")
    assert type(again) is BartTokenizer
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert again.content_hash == tokenizer.content_hash


def test_class_follows_the_settings(tmp_path: Path) -> None:
    write_roberta(tmp_path)
    roberta = load_tokenizer(tmp_path)
    assert type(roberta) is RobertaTokenizer
    assert roberta.text_start is None
    settings, config = tmp_path / "tokenizer_config.json", tmp_path / "config.json"
    for name in ("BartTokenizer", "BartTokenizerFast"):
        settings.write_text(json.dumps({"tokenizer_class": name}))
        bart = load_tokenizer(tmp_path)
        assert type(bart) is BartTokenizer
        assert bart.content_hash != roberta.content_hash
    settings.write_text(json.dumps({"tokenizer_class": "RobertaTokenizer"}))
    config.write_text(json.dumps({"model_type": "bart"}))
    assert type(load_tokenizer(tmp_path)) is BartTokenizer
    config.write_text(json.dumps({"model_type": "roberta"}))
    assert type(load_tokenizer(tmp_path)) is RobertaTokenizer


def test_prefix_space(tmp_path: Path) -> None:
    write_bart(tmp_path)
    plain = load_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode(["the bell"]) == plain.encode([" the bell"])
    other = tokenizer.without_prefix_space()
    assert type(other) is BartTokenizer
    assert other.encode(TEXTS) == plain.encode(TEXTS)


@refuses(
    ("<s>", r"tokenizer\.json: the vocabulary has no <s>, which a bart tokenizer requires"),
    ("<pad>", r"tokenizer\.json: the vocabulary has no <pad>, which a bart tokenizer requires"),
    ("</s>", r"tokenizer\.json: the vocabulary has no </s>, which a bart tokenizer requires"),
    ("<mask>", r"tokenizer\.json: the vocabulary has no <mask>, which a bart tokenizer requires"),
)
def test_missing_special_tokens(name: str, tmp_path: Path) -> None:
    write_bart(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = Tokenizer.from_file(str(file)).to_str().replace(json.dumps(name), '"<other>"')
    file.write_text(content, "utf-8")
    load_tokenizer(tmp_path)


@pytest.mark.zoo
def test_ids_equal_those_of_transformers(tmp_path: Path) -> None:
    """Also with special tokens inside of texts."""
    write_bart(tmp_path)
    rng, lines = random.Random(0), make_lines(10_000)
    for row in range(0, len(lines), 10):
        words = lines[row].split(" ")
        words.insert(rng.randrange(len(words) + 1), rng.choice([*SPECIAL, "<mask>"]))
        lines[row] = " ".join(words)
    (tmp_path / "texts.json").write_text(json.dumps(lines))
    script = Path(__file__).with_name("bart_t5_by_transformers.py")
    command = [find_transformers(), str(script), "bart", str(tmp_path)]
    subprocess.run(command, check=True, timeout=600)
    results = json.loads((tmp_path / "results.json").read_text())
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.vocabulary_size == results["size"] + 1
    found = tokenizer.encode(lines)
    whole = [tokenizer.text_start, *found[0], tokenizer.end]
    assert [*map(tokenizer.to_checkpoint_id, whole)] == results["whole"]
    without_text = {tokenizer.start, tokenizer.end, tokenizer.text_start}
    for line, ids, want, text in zip(lines, found, results["ids"], results["decoded"], strict=True):
        assert [*map(tokenizer.to_checkpoint_id, ids)] == want, line
        if without_text.isdisjoint(ids):
            assert tokenizer.decode(ids) == text

import copy
import json
import os
import pickle
import random
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import trainers

from attention_zoo.data import Tokenizer, generate_dates, load_tokenizer, train_tokenizer
from attention_zoo.data.tokenizers import tokenizer as tokenizer_module
from attention_zoo.data.tokenizers import word_cache
from attention_zoo.data.tokenizers.tokenizer import (
    CJK,
    MARK,
    WHITE_SPACE,
    WORD_PATTERN,
    SubwordTokenizer,
)
from attention_zoo.data.tokenizers.vocabulary import END, PAD, SPECIAL_TOKENS, START, UNKNOWN

KINDS = ["subword", "word", "character", "whitespace"]
LINES = [
    "Don't panic: it's 12,345.60 km (or so) – \"really\"!",
    "Two well-known cafés, a naïve façade & e-mail@example.org; 100% sure?",
    "L'été, « c'est » l'époque où j'ai 3 œufs … n'est-ce pas ?",
    "„Schöne Grüße“, sagte die Straßenbahnfahrerin um 17:04 Uhr; GROSS und groß.",
    "¿Cuántos años? ¡Veintidós! El niño comió 1½ piñas.",
    "我们在2031年3月3日星期一见面，好吗？他说：“好。”",
    "我爱 TensorFlow 2.21，也爱 Keras。",
    "日本語のテキスト、カタカナとひらがな。「東京」ー々〆",
    "한국어 문장은 띄어쓰기를 합니다.",
    "Москва — столица России, №1!",
    "Η Αθήνα είναι όμορφη· ΟΔΟΣ, ναι;",
    "שלום עולם! מה שלומך?",
    "السلام عليكم، كيف حالك؟ ٣٤٥",
    "नमस्ते दुनिया, क्या हाल है?",
    "สวัสดีชาวโลก ๑๒๓",
    "emoji 👨‍👩‍👧 👍🏽 and flags 🇫🇷, math ∑≠½²",
    "a  double   space\tand\u00a0others\u202fhere\u3000too ",
    " leading, <s> literal </s> specials <unk> <pad>",
    "snake_case __init__ a/b\\c #tag $5 {x} [y] ~ ^ ` | *",
]


def collapse_spaces(text: str) -> str:
    return " ".join(text.split())


@cache
def get_tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(kind, LINES, vocabulary_size=2000)


@pytest.fixture(params=KINDS)
def tokenizer(request) -> Tokenizer:
    return get_tokenizer(request.param)


def test_special_tokens_come_first(tokenizer):
    assert tuple(tokenizer.vocabulary[:4]) == SPECIAL_TOKENS
    assert tokenizer.vocabulary_size == len(tokenizer.vocabulary) == len(set(tokenizer.vocabulary))
    assert 50 < tokenizer.vocabulary_size <= 2000


def test_decoding_restores_the_text_up_to_white_space(tokenizer):
    encoded = tokenizer.encode(LINES)
    assert [tokenizer.decode(ids) for ids in encoded] == [collapse_spaces(line) for line in LINES]
    assert not any(i <= END for ids in encoded for i in ids)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(sorted(set("".join(LINES))) + [" "] * 20), max_size=60))
@pytest.mark.parametrize("kind", ["subword", "character"])
def test_text_of_known_characters_is_restored(kind, characters):
    text = "".join(characters)
    ids = get_tokenizer(kind).encode([text])[0]
    assert UNKNOWN not in ids
    assert get_tokenizer(kind).decode(ids) == collapse_spaces(text)


def test_hangul_is_not_split_like_cjk():
    word = train_tokenizer("word", ["한국어 문장 漢豈"])
    (ids,) = word.encode(["한국어 문장 漢豈"])
    assert word.tokens(ids) == ["한국어", "문장", "漢", "豈"]


def test_digits_and_punctuation_are_single_tokens():
    lines = ["12 km-long, don't", "我们 1234!"]
    word = train_tokenizer("word", lines)
    ids = word.encode(lines)
    labels = [[word.vocabulary[i] for i in row] for row in ids]
    assert labels[0] == ["▁1", "2", "▁km", "-", "long", ",", "▁don", "'", "t"]
    assert labels[1] == ["我", "们", "▁1", "2", "3", "4", "!"]
    assert word.tokens(ids[0]) == ["1", "2", "km", "-", "long", ",", "don", "'", "t"]


def test_word_has_one_token_at_all_positions():
    word = train_tokenizer("word", ["the cat sees the dog"])
    first, *_, fourth, _ = word.encode(["the cat sees the dog"])[0]
    assert first == fourth


def test_character_tokens_and_space_mark():
    character = train_tokenizer("character", ["ab b 我"])
    ids = character.encode(["  ba  我 "])[0]
    assert [character.vocabulary[i] for i in ids] == ["b", "a", MARK, "我"]
    assert character.tokens(ids) == ["b", "a", MARK, "我"]


def test_subwords_are_longest_matches():
    subword = train_tokenizer("subword", ["lower lowest newer newest wider widest"] * 50, 60)
    vocabulary = set(subword.vocabulary)
    for text in ("lowest", "newer", "west", "dewiest"):
        pieces = [subword.vocabulary[i] for i in subword.encode([text])[0]]
        remaining = MARK + text
        for piece in pieces:
            longest = max((t for t in vocabulary if remaining.startswith(t)), key=len)
            assert piece == longest
            remaining = remaining.removeprefix(piece)
        assert not remaining
    assert len(subword.encode(["lowest"])[0]) < len("lowest")


def test_unknown_characters_give_the_unknown_token(tokenizer):
    ids = tokenizer.encode(["Don't \u1234panic ŧ"])[0]
    assert UNKNOWN in ids
    assert SPECIAL_TOKENS[UNKNOWN] in tokenizer.decode(ids)


def test_unknown_piece_does_not_affect_other_pieces():
    for kind in ("subword", "word"):
        tokenizer = train_tokenizer(kind, ["we see a cat"] * 2)
        assert tokenizer.decode(tokenizer.encode(["we see ŧŧ a cat"])[0]) == "we see <unk> a cat"


def test_vocabulary_has_the_most_frequent_tokens():
    texts = ["rare"] + ["common"] * 3 + ["usual"] * 2
    assert train_tokenizer("word", texts, 6).vocabulary[4:] == ["▁common", "▁usual"]
    assert train_tokenizer("character", ["aab", "abc"], 6).vocabulary[4:] == ["a", "b"]
    for size in (5, 30, 200):
        assert train_tokenizer("subword", LINES, size).vocabulary_size <= size


def test_lowercase_option():
    for kind in KINDS:
        cased = train_tokenizer(kind, LINES)
        lower = train_tokenizer(kind, LINES, lowercase=True)
        assert cased.decode(cased.encode(["GROSS Don't"])[0]) == "GROSS Don't"
        assert lower.decode(lower.encode(["GROSS Don't"])[0]) in ("gross don't", "<unk> don't")
        assert lower.decode(lower.encode([LINES[10]])[0]) == collapse_spaces(
            "".join(c.lower() for c in LINES[10])
        )


def test_decoding_stops_at_the_end_token_and_drops_padding(tokenizer):
    ids = tokenizer.encode([LINES[0]])[0]
    assert tokenizer.decode([START, *ids, END, *ids, PAD, PAD]) == collapse_spaces(LINES[0])
    assert tokenizer.decode([PAD, START]) == ""
    assert tokenizer.tokens([START, ids[0], END, PAD])[::2] == ["<s>", "</s>"]


def test_special_tokens_in_a_text_are_plain_text(tokenizer):
    ids = tokenizer.encode(["</s> <s>"])[0]
    assert END not in ids
    assert START not in ids


@pytest.mark.parametrize("token_id", [-1, 10**6])
def test_id_outside_the_vocabulary_raises(tokenizer, token_id):
    for function in (tokenizer.decode, tokenizer.tokens):
        with pytest.raises(ValueError, match=f"token id {token_id} is outside the vocabulary"):
            function([4, token_id])


def test_unusual_texts_are_encoded(tokenizer):
    texts = ["", "   ", "\x00", "\ufeff", "e" + "\u0301" * 1000, "\u2028", "ab" * 5000, "\r\n"]
    encoded = tokenizer.encode(texts)
    assert len(encoded) == len(texts)
    assert encoded[0] == encoded[1] == encoded[5] == encoded[7] == []
    assert tokenizer.encode([]) == []


def test_single_string_raises(tokenizer):
    with pytest.raises(ValueError, match=r"encode\(\[text\]\)"):
        tokenizer.encode("a text")


def test_lone_surrogate_raises(tokenizer):
    for function in (tokenizer.encode, lambda texts: train_tokenizer(tokenizer.kind, texts)):
        with pytest.raises(
            ValueError, match="text 1 is not valid Unicode: a lone surrogate at char"
        ):
            function(["fine", "ab\ud800"])


def test_saved_tokenizer_is_equal(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "new" / "folder")
    loaded = load_tokenizer(tmp_path / "new" / "folder")
    assert type(loaded) is type(tokenizer)
    assert loaded.vocabulary == tokenizer.vocabulary
    assert loaded.encode(LINES) == tokenizer.encode(LINES)


def test_settings_survive_saving(tmp_path):
    train_tokenizer("word", ["A b"], lowercase=True).save(tmp_path)
    assert json.loads((tmp_path / "tokenizer.json").read_text()) == {
        "format_version": 1,
        "kind": "word",
        "lowercase": True,
        "vocabulary_size": 6,
    }
    assert load_tokenizer(tmp_path).decode(load_tokenizer(tmp_path).encode(["A B"])[0]) == "a b"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"kind": "word"}', '{"kind": "words", "lowercase": false}', '"\\ud800"']
)
def test_damaged_settings_raise(tmp_path, text):
    train_tokenizer("word", ["a"]).save(tmp_path)
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match=r"tokenizer\.json: ") as caught:
        load_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_folder_raises(tmp_path):
    with pytest.raises(ValueError, match=r"tokenizer\.json: No such file.*tokenizer's folder"):
        load_tokenizer(tmp_path / "nothing")


def test_invalid_training_arguments_raise():
    with pytest.raises(ValueError, match="unknown tokenizer 'subwords'; did you mean 'subword'"):
        train_tokenizer("subwords", LINES)
    with pytest.raises(ValueError, match=r"vocabulary_size must be greater than 4, .*, got 4"):
        train_tokenizer("word", LINES, vocabulary_size=4)
    for texts in ([], ["", " \n"]):
        with pytest.raises(ValueError, match="no text to learn a vocabulary from"):
            train_tokenizer("word", texts)


@pytest.mark.full
def test_training_is_deterministic_across_processes():
    script = (
        "import sys; from attention_zoo.data import generate_dates, train_tokenizer;"
        "texts = generate_dates(2000).sources;"
        f"vocabularies = [train_tokenizer(kind, texts, 300).vocabulary for kind in {KINDS}];"
        "sys.stdout.buffer.write(repr(vocabularies).encode())"
    )
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment)
    texts = generate_dates(2000).sources
    expected = [train_tokenizer(kind, texts, 300).vocabulary for kind in KINDS]
    assert run.stdout.decode().splitlines()[-1] == repr(expected)


@pytest.mark.full
def test_encoding_is_fast():
    sources = generate_dates(20_000).sources
    subword = train_tokenizer("subword", sources[:5000], 1000)
    start = time.perf_counter()
    encoded = subword.encode(sources)
    assert time.perf_counter() - start < 8
    assert subword.decode(encoded[-1]) == sources[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_decomposed_texts_are_composed(kind: str) -> None:
    """Also in training, so that the vocabularies are equal."""
    lines = ["dîner à Łódź", "한국어 é"]
    decomposed = [unicodedata.normalize("NFD", line) for line in lines]
    tokenizer, other = (train_tokenizer(kind, texts, 60) for texts in (lines, decomposed))
    assert tokenizer.vocabulary == other.vocabulary
    assert tokenizer.encode(decomposed) == tokenizer.encode(lines)
    assert tokenizer.surfaces(decomposed[0]) == tokenizer.surfaces(lines[0])


def test_tensorflow_ops_split_equally():
    """Steps 1, 3 and 4 in RE2 split every text like the tokenizer."""
    import tensorflow as tf

    rng = random.Random(0)
    characters = (
        "".join(LINES) + " \u00a0\u2028\x1f\x85\u2009ßŒ々〇\U00020000\U0001f600ｱ\u0301\u200d\x00"
    )
    texts = (
        LINES + ["".join(rng.choices(characters, k=40)) for _ in range(300)] + ["ab" * 200, "", " "]
    )
    composed = [unicodedata.normalize("NFC", text) for text in texts]  # step 0
    text = tf.strings.regex_replace(composed, f"[{WHITE_SPACE}]+", MARK)
    text = tf.strings.regex_replace(text, rf"\A{MARK}|{MARK}\z", "")
    text = tf.strings.regex_replace(text, rf"\A([^{CJK}])", rf"{MARK}\1")
    pieces = tf.strings.split(tf.strings.regex_replace(text, f"({WORD_PATTERN})", "\\1\n"), "\n")
    graph = [[p.decode() for p in row if p] for row in pieces.to_list()]

    engine = train_tokenizer("word", LINES)._engine
    normal = [engine.normalizer.normalize_str(text) for text in texts]
    expected = [[p for p, _ in engine.pre_tokenizer.pre_tokenize_str(text)] for text in normal]
    assert graph == expected
    assert max(len(piece) for row in expected for piece in row) <= 65


def test_whitespace_tokens_are_not_split() -> None:
    words = ["don't", "New-York,", "x" * 100, "日本語"]
    tokenizer = train_tokenizer("whitespace", words, 20)
    assert all(len(ids) == 1 and ids[0] > 3 for ids in tokenizer.encode(words))
    (first,), (second,) = tokenizer.encode(words[:2])
    assert tokenizer.encode(["don't New-York,  other"]) == [[first, second, UNKNOWN]]
    assert tokenizer.decode([first, second]) == "don't New-York,"


def make_unusual_texts(count: int) -> list[str]:
    """Return texts of letters, marks, combining characters, Hangul parts and white space."""
    rng = random.Random(1)
    ranges = ((0, 0x250), (0x300, 0x370), (0x600, 0x650), (0x1100, 0x1200), (0x2000, 0x2070))
    points = [point for start, stop in (*ranges, (0x3000, 0x3100)) for point in range(start, stop)]
    points += [0xAC00, 0xF900, 0x2F800, 0x2581, 0x9C7, 0x9BE, 0x85, 0x1F600, 0x200D, 0x20] * 9
    texts = ["".join(map(chr, rng.choices(points, k=rng.randint(0, 40)))) for _ in range(count)]
    return [*texts, *LINES, "", " ", MARK, "ab" * 200, f" a  b{MARK}c ", "中文 中文 a", "a 中文"]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_words_are_encoded_as_in_their_text(kind: str, lowercase: bool) -> None:
    texts = make_unusual_texts(200)
    tokenizer = train_tokenizer(kind, texts[50:], 400, lowercase)
    engine = tokenizer._engine
    expected = [row.ids for row in engine.encode_batch_fast(texts, add_special_tokens=False)]
    assert tokenizer.encode(texts) == expected
    assert tokenizer.encode(texts) == expected, "from the cache"
    for text, ids in zip(texts, expected, strict=True):
        surfaces = tokenizer.surfaces(text)
        assert "".join(surfaces) == engine.normalizer.normalize_str(text)
        unknown = [one for one, id_ in zip(surfaces, ids, strict=True) if id_ == UNKNOWN]
        assert tokenizer.unknown_surfaces(text) == unknown


@pytest.mark.parametrize("kind", ["word", "character", "whitespace"])
def test_vocabulary_counts_the_pieces_of_whole_texts(kind: str) -> None:
    texts = make_unusual_texts(100) * 2
    tokenizer = train_tokenizer(kind, texts, 300)
    engine, counts = tokenizer._engine, Counter[str]()
    for text in texts:
        normal = engine.normalizer.normalize_str(text)
        counts.update(piece for piece, _ in engine.pre_tokenizer.pre_tokenize_str(normal))
    expected = sorted(counts, key=lambda piece: (-counts[piece], piece))
    assert tokenizer.vocabulary[4:] == expected[:296]


@pytest.mark.parametrize("lowercase", [False, True])
def test_subwords_are_those_learned_from_whole_texts(
    lowercase: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_module, "MAX_REPEATS", 3)
    texts = make_unusual_texts(20) * 2 + LINES * 2
    learned = train_tokenizer("subword", texts, 2000, lowercase).vocabulary
    engine = SubwordTokenizer.make_pipeline(lowercase)
    engine.model = SubwordTokenizer.make_model({"<unk>": 0})
    characters = {
        character for text in texts for character in engine.normalizer.normalize_str(text)
    }
    trainer = trainers.WordPieceTrainer(
        vocab_size=2000,
        min_frequency=2,
        special_tokens=learned[:4],
        initial_alphabet=[*characters],
        limit_alphabet=len(characters),
        continuing_subword_prefix="",
        show_progress=False,
    )
    engine.train_from_iterator(texts, trainer)
    ids = engine.get_vocab()
    assert sum(len(token) > 1 for token in learned[4:]) > 50
    assert learned == sorted(ids, key=lambda token: ids[token])


def test_cache_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "MAX_SIZE", 30)
    tokenizer = train_tokenizer("word", ["a b c d e f g"], 20)
    texts = ["a b c", "d e f g", "h i j k l m n o p q r s t u v", "a b"] * 2
    expected = [row.ids for row in tokenizer._engine.encode_batch_fast(texts)]
    assert [ids for text in texts for ids in tokenizer.encode([text])] == expected
    assert tokenizer.encode(texts) == expected
    for number in range(50):
        tokenizer.encode([f"a word{number}"])
        assert tokenizer._words._table.size <= 30


def test_copies_encode_alike(tokenizer: Tokenizer) -> None:
    expected = tokenizer.encode(LINES)
    assert copy.deepcopy(tokenizer).encode(LINES) == expected
    assert pickle.loads(pickle.dumps(tokenizer)).encode(LINES) == expected


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_interrupt_leaves_the_cache_intact(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = train_tokenizer("word", ["a b c d e f"], 20)
    trained.encode(["a b"])
    append, calls = word_cache._append, []

    def interrupt(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) > count:
            raise KeyboardInterrupt
        return append(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(word_cache, "_append", interrupt)
        with pytest.raises(KeyboardInterrupt):
            trained.encode(["a c d"])
    assert trained.encode(["c d e f a"]) == [[trained.vocabulary.index(f"▁{w}") for w in "cdefa"]]


def test_threads_share_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "MAX_SIZE", 60)
    tokenizer = train_tokenizer("subword", LINES, 200)
    expected = [row.ids for row in tokenizer._engine.encode_batch_fast(LINES)]
    with ThreadPoolExecutor(4) as threads:
        for encoded in threads.map(tokenizer.encode, [LINES] * 40):
            assert encoded == expected


def test_a_tokenizer_that_overrides_one_pipeline_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"^Mine must override make_pipeline and make_later_pipe"):

        class Mine(Tokenizer):
            @classmethod
            def make_pipeline(cls, lowercase: bool) -> object:
                return None


@pytest.mark.parametrize("kind", ["subword", "word", "whitespace", "character"])
@pytest.mark.parametrize("text", ["Ada  saw a cat.", " “ÉCOLE”\te\u0301\n日本 x ", "", "  "])
def test_offsets_are_those_of_the_tokens(kind: str, text: str) -> None:
    tokenizer = train_tokenizer(kind, ["Ada saw a cat.", "a b"], 30)
    offsets = tokenizer.offsets(text)
    assert len(offsets) == len(tokenizer.encode([text])[0])
    assert all(start <= end for start, end in offsets)
    assert all(end <= start for (_, end), (start, _) in pairwise(offsets))
    spans = [text[start:end] for start, end in offsets]
    visible = "".join(spans).replace(" ", "").replace("\t", "").replace("\n", "")
    assert visible == "".join(text.split())

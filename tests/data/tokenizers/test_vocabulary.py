import pytest

from attention_zoo.data.tokenizers.vocabulary import (
    SPECIAL_TOKENS,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)
from tests.refusals import refuses


def test_vocabulary_survives_writing_and_reading(tmp_path):
    tokens = [*SPECIAL_TOKENS, "▁the", "é", "\ufeff", "\u0085x", "我", '"', "#"]
    path = tmp_path / "vocabulary.txt"
    write_vocabulary(path, tokens)
    assert read_vocabulary(path) == tokens
    assert path.read_text(encoding="utf-8").split("\n")[4] == "▁the"


@refuses(
    (b"<pad>\n<unk>\n<s>\n</s>\na\nb\na\n", r"txt:7: token 'a' is already on line 5"),
    (b"<pad>\n<unk>\n</s>\na\n", r"txt:3: expected '<s>', found '</s>'"),
    (b"<pad>\n<unk>\n", r"txt:3: expected '<s>', found nothing"),
    (b"", r"txt:1: expected '<pad>', found"),
    (b"<pad>\n<unk>\n<s>\n</s>\na\n\nb\n", r"txt:6: empty token"),
    (b"<pad>\n<unk>\n<s>\n</s>\na\n\xe9t\xe9\n", r"txt:6: not valid UTF-8"),
    (b"\xef\xbb\xbf<pad>\n<unk>\n<s>\n</s>\n", r"txt:1: expected '<pad>', found"),
)
def test_damaged_file_raises_with_line(raw, tmp_path):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(raw)
    read_vocabulary(path)


def test_missing_file_raises(tmp_path):
    with pytest.raises(ValueError, match=r"none\.txt: No such file"):
        read_vocabulary(tmp_path / "none.txt")


def test_special_tokens_must_have_fixed_ids():
    with pytest.raises(ValueError, match=r"here:1: expected '<pad>', found '<unk>'"):
        check_vocabulary(["<unk>", "<pad>", "<s>", "</s>"], "here")

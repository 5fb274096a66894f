import pytest

from attention_zoo.data.vocabulary import (
    SPECIAL_TOKENS,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)


def test_a_vocabulary_is_read_as_it_was_written(tmp_path):
    tokens = [*SPECIAL_TOKENS, "▁the", "é", "\ufeff", "\u0085x", "我", '"', "#"]
    path = tmp_path / "vocabulary.txt"
    write_vocabulary(path, tokens)
    assert read_vocabulary(path) == tokens
    assert path.read_text(encoding="utf-8").split("\n")[4] == "▁the"


DAMAGED = {
    "twice": (b"<pad>\n<unk>\n<s>\n</s>\na\nb\na\n", r":7: token 'a' stands on line 5 already"),
    "no start": (b"<pad>\n<unk>\n</s>\na\n", r":3: '<s>' must stand here, found '</s>'"),
    "cut": (b"<pad>\n<unk>\n", r":3: '<s>' must stand here, found nothing"),
    "nothing": (b"", r":1: '<pad>' must stand here"),
    "empty line": (b"<pad>\n<unk>\n<s>\n</s>\na\n\nb\n", r":6: empty token"),
    "latin-1": (b"<pad>\n<unk>\n<s>\n</s>\na\n\xe9t\xe9\n", r":6: not valid UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf<pad>\n<unk>\n<s>\n</s>\n", r":1: '<pad>' must stand here"),
}


@pytest.mark.parametrize(("raw", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_refused_with_its_line(tmp_path, raw, message):
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=message) as caught:
        read_vocabulary(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.txt: No such file"):
        read_vocabulary(tmp_path / "none.txt")


def test_special_tokens_are_found_by_their_place_alone():
    with pytest.raises(ValueError, match=r"here:1: '<pad>' must stand here, found '<unk>'"):
        check_vocabulary(["<unk>", "<pad>", "<s>", "</s>"], "here")

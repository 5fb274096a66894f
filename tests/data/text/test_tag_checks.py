"""Tags that violate their scheme raise with the word's location and a fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attention_zoo.data import TaggedSentences, check_tags, read_conll
from tests.refusals import refuses

VALID_TAGS = {
    "BIO": ["O B-a I-a I-a B-a B-b O", "B-b", "O"],
    "IOB1": ["O I-a I-a B-a I-b O", "I-b"],
    "BIOES": ["O S-a B-a E-a B-b I-b E-b"],
    "BILOU": ["O U-a B-a L-a B-b I-b L-b"],
    "BMES": ["B M M E S B E"],
}


def make_sentences(*texts: str) -> TaggedSentences:
    tags = [tuple(text.split()) for text in texts]
    return TaggedSentences([("word",) * len(row) for row in tags], tags, "here")


@pytest.mark.parametrize("scheme", VALID_TAGS)
def test_valid_tags_pass_their_scheme_only(scheme: str) -> None:
    check_tags(make_sentences(*VALID_TAGS[scheme]), scheme)
    for other in VALID_TAGS.keys() - {scheme}:
        with pytest.raises(ValueError, match=r"^here:\d, word \d: "):
            check_tags(make_sentences(*VALID_TAGS[scheme]), other)


@refuses(
    ("BIO", ["O", "I-a O"], "here:2, word 1: 'I-a' may not begin a sentence in BIO"),
    ("BIO", ["I-a O"], "in BIO; fix the tag, or use the scheme IOB1"),
    ("BIO", ["I-a B-b"], "may not begin a sentence in BIO; fix the tag"),
    ("BIO", ["B-a I-b"], "here:1, word 2: 'I-b' may not come after 'B-a' in BIO"),
    ("BIOES", ["O", "O B-a"], "here:2, word 2: 'B-a' may not end a sentence in BIOES"),
    ("BIO", ["O", "O S-a"], "here:2, word 2: tag 'S-a' is not a BIO tag: use 'O'"),
    ("BIO", ["NOUN"], "here:1, word 1: tag 'NOUN' is not a BIO tag"),
    (
        "BIO",
        ["O U-a"],
        "tag 'U-a' is not a BIO tag: use 'O', or B, I, alone or followed by '-' and",
    ),
    ("BIO", ["O U-a"], "and a type; or use another scheme: BILOU"),
    ("BIOS", ["O"], "'BIOS'; did you mean 'BIO"),
    literal=True,
)
def test_tags_that_violate_the_scheme_raise(scheme: Any, texts: Any) -> None:
    check_tags(make_sentences(*texts), scheme)


def test_non_strict_check_ignores_the_order() -> None:
    check_tags(make_sentences("O I-a", "B-a I-b"), "BIO", strict=False)
    with pytest.raises(ValueError, match="tag 'E-a' is not a BIO tag"):
        check_tags(make_sentences("O E-a"), "BIO", strict=False)


def test_error_has_the_line_of_the_word(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("# one\na O\n\n# two\nb O\n# three\nc I-x\n")
    read = read_conll(tmp_path / "a.conll", comment="#")
    for tagged in (read, read.take([1])):
        with pytest.raises(ValueError, match=r"a\.conll:7: 'I-x' may not come after 'O'"):
            check_tags(tagged, "BIO")

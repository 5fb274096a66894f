"""A scheme that contradicts the tags is refused at the word, with what would mend it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attention_zoo.data import TaggedSentences, check_tags, read_conll

FITTING = {
    "BIO": ["O B-a I-a I-a B-a B-b O", "B-b", "O"],
    "IOB1": ["O I-a I-a B-a I-b O", "I-b"],
    "BIOES": ["O S-a B-a E-a B-b I-b E-b"],
    "BMES": ["B M M E S B E"],
}


def sentences(*texts: str) -> TaggedSentences:
    tags = [tuple(text.split()) for text in texts]
    return TaggedSentences([("word",) * len(row) for row in tags], tags, "here")


@pytest.mark.parametrize("scheme", FITTING)
def test_tags_of_their_scheme(scheme: str) -> None:
    check_tags(sentences(*FITTING[scheme]), scheme)
    for other in FITTING.keys() - {scheme}:
        with pytest.raises(ValueError, match=r"^here:\d, word \d: "):
            check_tags(sentences(*FITTING[scheme]), other)


BAD = {
    "begins": ("BIO", ["O", "I-a O"], "here:2, word 1: 'I-a' may not begin a sentence in BIO"),
    "mend": ("BIO", ["I-a O"], "in BIO; mend the tag, or name IOB1 as the scheme"),
    "both ways": ("BIO", ["I-a B-b"], "may not begin a sentence in BIO; mend the tag"),
    "other type": ("BIO", ["B-a I-b"], "here:1, word 2: 'I-b' may not come after 'B-a' in BIO"),
    "ends": ("BIOES", ["O", "O B-a"], "here:2, word 2: 'B-a' may not end a sentence in BIOES"),
    "letter": ("BIO", ["O", "O S-a"], "here:2, word 2: tag 'S-a' is none of BIO: it has"),
    "no letter": ("BIO", ["NOUN"], "here:1, word 1: tag 'NOUN' is none of BIO"),
    "scheme": ("BIOS", ["O"], "'BIOS'; did you mean 'BIO"),
}


@pytest.mark.parametrize("name", BAD)
def test_contradictions(name: str) -> None:
    scheme, texts, message = BAD[name]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        check_tags(sentences(*texts), scheme)
    assert "\n" not in str(caught.value)


def test_what_is_not_strict_looks_at_each_tag_alone() -> None:
    check_tags(sentences("O I-a", "B-a I-b"), "BIO", strict=False)
    with pytest.raises(ValueError, match="tag 'E-a' is none of BIO"):
        check_tags(sentences("O E-a"), "BIO", strict=False)


def test_the_line_is_that_of_the_word(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("# one\na O\n\n# two\nb O\n# three\nc I-x\n")
    read = read_conll(tmp_path / "a.conll", comment="#")
    for found in (read, read.take([1])):
        with pytest.raises(ValueError, match=r"a\.conll:7: 'I-x' may not come after 'O'"):
            check_tags(found, "BIO")

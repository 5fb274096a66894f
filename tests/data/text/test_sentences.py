"""Splitting of text into sentences."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_zoo.data import split_sentences
from attention_zoo.data.text.sentences import BOUNDARIES, LINE_ENDS, SPACES
from attention_zoo.data.tokenizers.tokenizer import WHITE_SPACE
from tests.refusals import refuses

CASES = {
    "": [],
    " \t\n\u3000\u2028▁": [],
    "no end at all": ["no end at all"],
    "One. Two! Three?  Four": ["One.", "Two!", "Three?", "Four"],
    " padded  inside. \t Twice ": ["padded  inside.", "Twice"],
    "a\nb\r\nc\rd\u2028e\u2029f\x85g\x0bh\n\n\n": [*"abcdefgh"],
    "Mr.\nBye": ["Mr.", "Bye"],
    "Dr. J. Smith met Mrs. Dalloway. Prof. Lee left.": [
        "Dr. J. Smith met Mrs. Dalloway.",
        "Prof. Lee left.",
    ],
    "By J. R. R. Tolkien (cf. Lewis, e.g. Narnia). Sold in the U.S. Navy shop.": [
        "By J. R. R. Tolkien (cf. Lewis, e.g. Narnia).",
        "Sold in the U.S. Navy shop.",
    ],
    "“Mr. X” and —Dr. Yu. So did I. Then all left, etc. The end.": [
        "“Mr. X” and —Dr. Yu.",
        "So did I.",
        "Then all left, etc.",
        "The end.",
    ],
    "He paid $3.50 at 5 p.m. yesterday. It was v2.0.1 of example.org!": [
        "He paid $3.50 at 5 p.m. yesterday.",
        "It was v2.0.1 of example.org!",
    ],
    '"Is it far?" she asked. "No!" (Not at all.) [Really?!] {Yes.} Go': [
        '"Is it far?" she asked.',
        '"No!"',
        "(Not at all.)",
        "[Really?!]",
        "{Yes.}",
        "Go",
    ],
    "Wait . . . What? ! No…  Well... then. ...And": [
        "Wait . . .",
        "What? !",
        "No…",
        "Well... then. ...And",
    ],
    "the film is good . it drags . Still , it works .": [
        "the film is good . it drags .",
        "Still , it works .",
    ],
    "1. First point. 2. Second point.": ["1.", "First point.", "2.", "Second point."],
    "Er sagte: „Komm!“ Dann ging er. ‚Gut.‘ Ja.": [
        "Er sagte: „Komm!“",
        "Dann ging er.",
        "‚Gut.‘ Ja.",
    ],
    "Il a dit «oui.» Puis rien. État ? étrange": [
        "Il a dit «oui.»",
        "Puis rien.",
        "État ? étrange",
    ],
    "¿Qué hora es? Son las tres. ¡Vamos!": ["¿Qué hora es?", "Son las tres.", "¡Vamos!"],
    "Роман А. С. Пушкина. «Да!» Он ушёл. и т. д.": [
        "Роман А. С. Пушкина.",
        "«Да!»",
        "Он ушёл. и т. д.",
    ],
    "Ο Κ. Δημήτρης ήρθε. Έφυγε!": ["Ο Κ.", "Δημήτρης ήρθε.", "Έφυγε!"],
    "今天很好。我们去吗？「好！」他说。iPhone很好。x": [
        "今天很好。",
        "我们去吗？",
        "「好！」",
        "他说。",
        "iPhone很好。",
        "x",
    ],
    "真的？！真的。。。 好｡はい": ["真的？！", "真的。。。", "好｡", "はい"],
    "何?!。次": ["何?!。", "次"],
    "오늘은 좋다. 그래요? 네!": ["오늘은 좋다.", "그래요?", "네!"],
    "यह अच्छा है। क्या? हाँ।": ["यह अच्छा है।", "क्या?", "हाँ।"],
    "كيف حالك؟ أنا بخير. شكرا": ["كيف حالك؟", "أنا بخير.", "شكرا"],
    "یہ اچھا ہے۔ ہاں": ["یہ اچھا ہے۔", "ہاں"],
    "מה שלומך? טוב.": ["מה שלומך?", "טוב."],
    "Fine 😀. 👍 Ok!😀 So": ["Fine 😀.", "👍 Ok!😀 So"],
    "a\x00b. C\ufeff. \ufeffD\u200b. E": ["a\x00b.", "C\ufeff.", "\ufeffD\u200b.", "E"],
    "half\u00a0space.\u00a0Next.\u2003Last": ["half\u00a0space.", "Next.", "Last"],
    "?!": ["?!"],
    ". . .": [". . ."],
}


@pytest.mark.parametrize("text", CASES)
def test_split_sentences(text: str) -> None:
    assert split_sentences(text) == CASES[text]


def test_lines_end_at_line_ends_only() -> None:
    text = " One. Two! 三。四 \n\n Three\x85\u2029four. \r\n"
    assert split_sentences(text, "lines") == ["One. Two! 三。四", "Three", "four."]
    assert split_sentences("\n \n", "lines") == []


CHARACTERS = st.sampled_from("aAIjМrD.!?…。！\"'”“)( \t\n\r\u2028\x1c▁é好1") | (
    st.characters(exclude_categories=["Cs"])
)


@given(st.text(CHARACTERS, max_size=40), st.sampled_from(sorted(BOUNDARIES)))
def test_sentences_cover_all_visible_characters(text: str, rule: str) -> None:
    sentences, end = split_sentences(text, rule), 0
    for sentence in sentences:
        start = text.index(sentence, end)
        assert not text[end:start].replace("▁", "").strip()
        assert sentence == sentence.strip() != ""
        assert len(sentence.splitlines()) == 1
        end = start + len(sentence)
    assert not text[end:].replace("▁", "").strip()


@given(st.text(CHARACTERS, max_size=40))
def test_sentences_as_lines_are_the_same_sentences(text: str) -> None:
    """A list of sentences is a text with a line for each of them."""
    for rule in BOUNDARIES:
        sentences = split_sentences(text, rule)
        assert split_sentences("\n".join(sentences), "lines") == sentences


def test_white_space_is_that_of_the_tokenizers() -> None:
    def expand(inside: str) -> set[str]:
        return {chr(c) for c in range(0x3100) if re.match(f"[{inside}]", chr(c))}

    assert expand(SPACES) == expand(WHITE_SPACE)
    assert expand(LINE_ENDS) == {c for c in map(chr, range(0x3100)) if f"a{c}b".splitlines()[1:]}


LONG = {
    "prose": "He went home. ",
    "dots": ".",
    "spaced dots": ". ",
    "initials": "J. ",
    "quotes": '."',
    "blank": " ",
    "brackets": "(",
    "letters": "x",
    "wide": "。",
}


@pytest.mark.full
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("last", ["", "x", "\n"], ids=["", "x", "newline"])
def test_time_is_linear(name: str, last: str) -> None:
    """Of 1 MB; quadratic time would be more than a thousand times the limit."""
    text = LONG[name] * (1_000_000 // len(LONG[name])) + last
    start = time.process_time()
    sentences = split_sentences(text)
    assert time.process_time() - start < 10
    assert "".join("".join(sentences).split()) == "".join(text.split())


@refuses(
    ("line", "rule must be one of lines, punctuation, got 'line'; did you mean 'lines'?"),
    (None, "rule must be one of lines, punctuation, got None"),
)
def test_unknown_rules_raise(rule: str) -> None:
    split_sentences("a", rule)

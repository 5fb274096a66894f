"""Splitting of plain text into words, with their positions in the text.

The rules are made for languages that write spaces. A word is

1. a run of letters, digits and `_`, with one apostrophe, hyphen or full stop between two of them
   (`don't`, `well-known`, `U.S`, `example.org`), or one comma or colon between digits (`1,000.5`,
   `12:30`); or
2. symbols that a zero-width joiner connects (an emoji of several parts); or
3. any other visible character alone: punctuation marks, symbols, CJK characters.

Combining marks, emoji modifiers and other characters that combine with the preceding one stay with
it. White space and invisible characters (controls, marks of writing direction, the zero-width
space) are in no word.

The character classes are those of the tokenizers' engine. Whether a word begins at a character
depends only on the characters around it, so a graph of core TensorFlow ops can split texts in the
same way.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from tokenizers import Regex, pre_tokenizers

from attention_zoo.data.tokenizers.tokenizer import CJK, WHITE_SPACE
from attention_zoo.data.tokenizers.vocabulary import check_unicode

# The inside of Oniguruma character classes.
INVISIBLE = f"{WHITE_SPACE}\\p{{Cc}}\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
SKIN_TONES = "\U0001f3fb-\U0001f3ff"
LETTERS = rf"\p{{L}}\p{{N}}_&&[^{CJK}]"
DIGITS = r"\p{Nd}"
SYMBOLS = rf"\p{{S}}&&[^{INVISIBLE}{CJK}{SKIN_TONES}]"
EXTENDERS = rf"\p{{M}}\p{{Cf}}{SKIN_TONES}&&[^{INVISIBLE}]"
JOINERS = "'’.\\-‐‑"
DIGIT_JOINERS = ",:"
ZERO_WIDTH_JOINER = "\u200d"

_LETTER = f"[{LETTERS}][{EXTENDERS}]*"
_SYMBOL = f"[{SYMBOLS}][{EXTENDERS}]*"
_BETWEEN_DIGITS = f"(?<=[{DIGITS}])[{DIGIT_JOINERS}](?=[{DIGITS}])"
WORDS = (
    f"{_LETTER}(?:(?:[{JOINERS}]|{_BETWEEN_DIGITS})?{_LETTER})*"
    f"|{_SYMBOL}(?:(?<={ZERO_WIDTH_JOINER}){_SYMBOL})*"
    f"|[^{INVISIBLE}][{EXTENDERS}]*"
)


class Word(NamedTuple):
    """A word and its position.

    Attributes:
        text: the characters of the word.
        start: index of its first character in the text, counted from 0.
        end: index after its last character.
    """

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Return the words of a text in order; white space is in none.

    Example:
        >>> from attention_zoo.data import split_words
        >>> [word.text for word in split_words("Don't pay 1,000.50 in New York!")]
        ["Don't", 'pay', '1,000.50', 'in', 'New', 'York', '!']

    Raises:
        ValueError: the text is invalid Unicode (a lone surrogate).
    """
    if not text.isascii():
        check_unicode(text, "text 0")
    return [Word(word, *span) for word, span in _make_pre_tokenizer().pre_tokenize_str(text)]


@functools.cache
def _make_pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)

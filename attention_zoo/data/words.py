"""The words of a plain sentence, and where in it they stand.

One rule for text that nobody has cut yet, made for languages that write spaces. A word is

1. a run of letters, digits and `_`, with one apostrophe, hyphen or full stop between two of them
   (`don't`, `well-known`, `U.S`, `example.org`), or one comma or colon between digits (`1,000.5`,
   `12:30`); or
2. symbols that a zero-width joiner ties (an emoji of several parts); or
3. any other visible character alone: punctuation marks, symbols, CJK characters.

Combining marks, emoji modifiers and other signs that show with what stands before them stay with
it. White space and characters that cannot be seen (controls, marks of writing direction, the
zero-width space) are in no word.

The classes are those of the tokenizers' engine, and whether a word begins at a character depends on
the characters around it alone; so a graph of core TensorFlow operations can cut alike.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from tokenizers import Regex, pre_tokenizers

from attention_zoo.data.tokenizer import CJK, WHITE_SPACE
from attention_zoo.data.vocabulary import check_unicode

# The inside of character classes of Oniguruma.
UNSEEN = f"{WHITE_SPACE}\\p{{Cc}}\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
SKIN_TONES = "\U0001f3fb-\U0001f3ff"
LETTERS = rf"\p{{L}}\p{{N}}_&&[^{CJK}]"
DIGITS = r"\p{Nd}"
SYMBOLS = rf"\p{{S}}&&[^{UNSEEN}{CJK}{SKIN_TONES}]"
EXTENDERS = rf"\p{{M}}\p{{Cf}}{SKIN_TONES}&&[^{UNSEEN}]"
JOINERS = "'’.\\-‐‑"
DIGIT_JOINERS = ",:"
TIE = "\u200d"

_LETTER = f"[{LETTERS}][{EXTENDERS}]*"
_SYMBOL = f"[{SYMBOLS}][{EXTENDERS}]*"
_BETWEEN_DIGITS = f"(?<=[{DIGITS}])[{DIGIT_JOINERS}](?=[{DIGITS}])"
WORDS = (
    f"{_LETTER}(?:(?:[{JOINERS}]|{_BETWEEN_DIGITS})?{_LETTER})*"
    f"|{_SYMBOL}(?:(?<={TIE}){_SYMBOL})*"
    f"|[^{UNSEEN}][{EXTENDERS}]*"
)


class Word(NamedTuple):
    """A word and its place.

    Attributes:
        text: the characters of the word.
        start: the place of the first in the sentence, counted in characters from 0.
        end: the place after the last.
    """

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """The words of a text in order; none of white space alone.

    Example:
        >>> from attention_zoo.data import split_words
        >>> [word.text for word in split_words("Don't pay 1,000.50 in New York!")]
        ["Don't", 'pay', '1,000.50', 'in', 'New', 'York', '!']

    Raises:
        ValueError: the text is no Unicode (a lone surrogate).
    """
    if not text.isascii():
        check_unicode(text, 0)
    return [Word(found, *place) for found, place in _engine().pre_tokenize_str(text)]


@functools.cache
def _engine() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)

"""Splitting of text into sentences.

A text is cut into pieces: a run of visible characters with the white space after it. Whether a
sentence ends with a piece depends only on this piece and the first character of the next one. The
patterns are valid in Python and in RE2, so a graph of core TensorFlow operations can split texts in
the same way.
"""

from __future__ import annotations

import re
from itertools import pairwise

from attention_zoo.registry import check_choice

# The inside of character classes.
LINE_ENDS = "\n-\r\x1c-\x1e\x85\u2028\u2029"  # those of `str.splitlines()`
BLANKS = "\t\x1f \xa0\u1680\u2000-\u200a\u202f\u205f\u3000▁"
SPACES = LINE_ENDS + BLANKS  # equals `WHITE_SPACE` of the tokenizers
_SPACE_CHARACTERS = "".join(re.findall(f"[{SPACES}]", "".join(map(chr, range(0x3001)))))
WIDE_ENDS = "。！？｡"  # end a sentence without a space after them
ENDS = f".!?…؟۔।{WIDE_ENDS}"
CLOSING = "\"'”’“»›)\\]}」』）】》〉"  # “ closes a quotation in German
OPENING = "\"'“‘„«‹(\\[{—–\\-"
CAPITALS = "A-ZÀ-ÖØ-ÞА-Я"
SMALL = "a-zß-öø-ÿа-я"

ABBREVIATIONS = (
    *("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Mt", "Jr", "Sr", "Rev", "Hon"),
    *("Gen", "Col", "Capt", "Lt", "Sgt", "Gov", "Sen", "Rep"),
    *("e\\.g", "E\\.g", "i\\.e", "I\\.e", "cf", "Cf", "vs", "approx", "al", "pp", "Fig", "Eq"),
)
# A single initial, except the pronoun "I", or letters with full stops between them.
_INITIALS = f"[A-HJ-ZÀ-ÖØ-ÞА-Я]|[{CAPITALS}](?:\\.[{CAPITALS}])+"
_NO_END = f"[{OPENING}]*(?:{'|'.join(ABBREVIATIONS)}|{_INITIALS})\\.[{BLANKS}]+"

PIECES = (
    f"(?:{_NO_END})*[^{SPACES}{WIDE_ENDS}]*[{WIDE_ENDS}]+[{CLOSING}]*[{SPACES}]*"
    f"|(?:{_NO_END})*[^{SPACES}{WIDE_ENDS}]+[{SPACES}]*"
    f"|[{SPACES}]+"
)
"""Pattern of a piece. An abbreviation and the word after it are one piece."""

_AT_LINE_END = f".*[{LINE_ENDS}].*"
BOUNDARIES = {
    "lines": f"(?s){_AT_LINE_END}",
    "punctuation": (
        f"(?s){_AT_LINE_END}"
        f"|.*[{WIDE_ENDS}][{CLOSING}]*[{SPACES}]*[^{ENDS}]"
        f"|.*[{ENDS}][{CLOSING}]*[{BLANKS}]+[^{ENDS}{SMALL}]"
    ),
}
"""Patterns of a piece and the first character after it, if a sentence ends between them."""


def split_sentences(text: str, rule: str = "punctuation") -> list[str]:
    r"""Return the sentences of a text in order, without the white space around them.

    With rule "lines", each line that is not blank is a sentence. With rule "punctuation", sentences
    also end after

    - one or more of `.!?…؟۔।` and any closing quotes or brackets, before white space, and
    - one or more of `。！？｡` and any closing quotes or brackets, with or without white space.

    There is no end before another of these marks, nor before a small letter (Latin or Cyrillic;
    this does not apply to `。！？｡`). There is no end after a common English abbreviation ("Mr.",
    "e.g."; not "etc.", which often is the last word), after a single initial ("J. Smith"; not "I.")
    or after letters with full stops between them ("U.S. dollars"). A list of sentences is
    represented by a text with a line for each of them.

    Args:
        text: any text; a blank one has no sentences.
        rule: "punctuation" or "lines".

    Example:
        >>> from attention_zoo.data import split_sentences
        >>> split_sentences("Dr. J. Smith met us. \"Is it 3.5 km?\" she asked. We left...\nLate")
        ['Dr. J. Smith met us.', '"Is it 3.5 km?" she asked.', 'We left...', 'Late']

    Raises:
        ValueError: for an unknown rule.
    """
    check_choice("rule", rule, BOUNDARIES)
    pieces = re.findall(PIECES, text)
    is_boundary = re.compile(BOUNDARIES[rule]).fullmatch
    sentences, start, end = [], 0, 0
    for piece, following in pairwise([*pieces, ""]):
        end += len(piece)
        if is_boundary(piece + following[:1]):
            sentences.append(text[start:end])
            start = end
    sentences.append(text[start:])
    stripped = (sentence.strip(_SPACE_CHARACTERS) for sentence in sentences)
    return [sentence for sentence in stripped if sentence]

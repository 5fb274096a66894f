"""What words are, and what those of summaries show: said twice, taken from the source, or wrong.

Words are what white space parts, without the signs around them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from attention_zoo.metrics.check import check_same_length

AROUND = "\"'`.,;:!?()[]{}<>“”‘’«»„…-–—*"  # signs around a word that are none of it
ENDS = (".", "!", "?")
TITLES = {"Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Gen", "Gov", "Rep", "Sen"}
"""Short words before a name; their full stop ends no sentence."""
INITIALS = re.compile(r"[A-Z]|[^\W\d_]{1,2}(\.[^\W\d_]{1,2})+")
CONTRACTED = re.compile(r"(?<=\w)(?:(n't)|'(s|re|ve|ll|d|m))$")


@dataclass(frozen=True)
class FactScore:
    """How many names and figures are right; all 0 to 100.

    Attributes:
        precision: percent of the written ones that the references have, as often as those do.
        recall: percent of those of the references that are written.
        f1: 2 precision recall / (precision + recall).
    """

    precision: float
    recall: float
    f1: float


def repeated_ngrams(texts: Sequence[str], n: int = 3) -> float:
    """Percent of the n-grams of words, in any case, that stood in the same text before; 0 of none.

    Signs alone are no words, so that ". A fire" is not said twice where two sentences begin so.

    Reference:
        See et al. 2017, figure 4, has it for n from 1 to 4.

    Raises:
        ValueError: n below 1, or one string instead of a list.
    """
    if n < 1:
        raise ValueError(f"n is {n}: it must be at least 1")
    if isinstance(texts, str):
        raise ValueError("texts is one string: give a list of strings")
    all_of_them = distinct = 0
    for text in texts:
        words = _bare(text)
        ngrams = [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]
        all_of_them += len(ngrams)
        distinct += len(set(ngrams))
    return _percent(all_of_them - distinct, all_of_them)


def copied_share(texts: Sequence[str], sources: Sequence[str]) -> float:
    """Percent of the words of texts that stand in their source, in any case; 0 of no words.

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    check_same_length(texts=texts, sources=sources)
    found = words = 0
    for text, source in zip(texts, sources, strict=True):
        there = set(_bare(source))
        own = _bare(text)
        found += sum(word in there for word in own)
        words += len(own)
    return _percent(found, words)


def facts(text: str) -> list[str]:
    """The names and figures of a text: words with a digit, or with a capital that does not only
    begin a sentence.

    Signs around a word are no part of it. A sentence begins with the text, and after a word or sign
    that ends in a question mark, an exclamation mark or a full stop, but for that of an initial
    ("J."), of letters with full stops between them ("U.S.") and of titles such as "Dr.".

    Example:
        >>> from attention_zoo.metrics import facts
        >>> facts("Fire in Tromak hurts 412. Police of NYC: no word from (Ilda) yet.")
        ['Tromak', '412', 'NYC', 'Ilda']
    """
    found, begins = [], True
    for word in text.split():
        bare = word.strip(AROUND)
        if bare:
            inside = bare[1:] if begins else bare
            if any(c.isdigit() for c in bare) or any(c.isupper() for c in inside):
                found.append(bare)
            begins = False
        begins = begins or _ends_sentence(word)
    return found


def _ends_sentence(word: str) -> bool:
    """Whether the word, with the signs around it, is the last one of its sentence."""
    bare = word.strip(AROUND)
    short = bare in TITLES or INITIALS.fullmatch(bare)
    return word.rstrip("\"'”’»)]").endswith(ENDS[1:] if short else ENDS)


def first_sentence(text: str) -> str:
    """What stands before the first line end, and up to the first full stop, question mark or
    exclamation mark with white space behind it: the baseline "lead-1" of summaries."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]


def fact_score(hypotheses: Sequence[str], references: Sequence[str]) -> FactScore:
    """How many `facts` of the references are written, and how many of the written are theirs.

    All texts count together; without a fact on either side nothing is wrong, and all are 100.

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    check_same_length(hypotheses=hypotheses, references=references)
    written = expected = right = 0
    for text, reference in zip(hypotheses, references, strict=True):
        own, true = Counter(facts(text)), Counter(facts(reference))
        written += own.total()
        expected += true.total()
        right += (own & true).total()
    if not written + expected:
        return FactScore(100.0, 100.0, 100.0)
    return FactScore(
        _percent(right, written),
        _percent(right, expected),
        _percent(2 * right, written + expected),
    )


def caption_words(text: str) -> list[str]:
    """The words in lower case, without signs around them, contracted ones in two ("it s").

    COCO counts captions in words as the Penn Treebank parts them, without punctuation marks; so are
    these, but for signs within a word ("red,blue", "50%") and for words run together ("cannot"),
    which are left whole. Words parted already stay as they are. Those of languages without spaces
    have to be parted before.
    """
    words = _bare(text.replace("’", "'"))
    return [part for word in words for part in CONTRACTED.sub(r" \1\2", word).split()]


def _bare(text: str) -> list[str]:
    """The words in lower case, without signs around them; signs alone are none."""
    words = (word.strip(AROUND).lower() for word in text.split())
    return [word for word in words if word]


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0

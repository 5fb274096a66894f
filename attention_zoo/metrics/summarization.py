"""Word splitting, and metrics of summaries: repetition, copying, names and figures.

Words are separated by white space, without the punctuation around them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from attention_zoo.metrics.check import check_same_length
from attention_zoo.metrics.scores import compute_f1, compute_percentage

PUNCTUATION = "\"'`.,;:!?()[]{}<>“”‘’«»„…-–—*"  # punctuation that is not part of a word
ENDS = (".", "!", "?")
TITLES = {"Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Gen", "Gov", "Rep", "Sen"}
"""Abbreviated titles before a name; their full stop does not end a sentence."""
INITIALS = re.compile(r"[A-Z]|[^\W\d_]{1,2}(\.[^\W\d_]{1,2})+")
CONTRACTION = re.compile(r"(?<=\w)(?:(n't)|'(s|re|ve|ll|d|m))$")


@dataclass(frozen=True)
class FactScore:
    """Correctness of names and figures; all scores are 0 to 100.

    Attributes:
        precision: percentage of the generated ones that the references contain, counting
            repetitions.
        recall: percentage of those in the references that are generated.
        f1: 2 precision recall / (precision + recall).
    """

    precision: float
    recall: float
    f1: float


def repeated_ngrams(texts: Sequence[str], n: int = 3) -> float:
    """Compute the percentage of word n-grams that occurred earlier in their text; 0 if none exist.

    Case is ignored. Punctuation is not a word, so two sentences that start with "A fire" do not
    repeat the trigram ". A fire".

    Reference:
        See et al. 2017, figure 4, for n from 1 to 4.

    Raises:
        ValueError: if n is below 1, or `texts` is one string.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if isinstance(texts, str):
        raise ValueError("texts must be a list of strings, got one string")
    num_ngrams = num_distinct = 0
    for text in texts:
        words = _split_into_words(text)
        ngrams = [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
        num_ngrams += len(ngrams)
        num_distinct += len(set(ngrams))
    return compute_percentage(num_ngrams - num_distinct, num_ngrams)


def copied_share(texts: Sequence[str], sources: Sequence[str]) -> float:
    """Compute the percentage of words that occur in the source, ignoring case; 0 without words.

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    check_same_length(texts=texts, sources=sources)
    is_copied: list[bool] = []
    for text, source in zip(texts, sources, strict=True):
        source_words = set(_split_into_words(source))
        is_copied += [word in source_words for word in _split_into_words(text)]
    return compute_percentage(sum(is_copied), len(is_copied))


def extract_facts(text: str) -> list[str]:
    """Return the names and figures of a text.

    These are words with a digit, or with a capital letter other than the first letter of a
    sentence.

    Punctuation around a word is not part of it. A sentence starts with the text, and after a word
    or punctuation mark that ends in a question mark, an exclamation mark or a full stop. Exceptions
    are the full stops of an initial ("J."), of letters with full stops between them ("U.S.") and of
    titles such as "Dr.".

    Example:
        >>> from attention_zoo.metrics import extract_facts
        >>> extract_facts("Fire in Tromak hurts 412. Police of NYC: no word from (Ilda) yet.")
        ['Tromak', '412', 'NYC', 'Ilda']
    """
    facts, at_sentence_start = [], True
    for word in text.split():
        stripped = word.strip(PUNCTUATION)
        if stripped:
            rest = stripped[1:] if at_sentence_start else stripped
            if any(c.isdigit() for c in stripped) or any(c.isupper() for c in rest):
                facts.append(stripped)
            at_sentence_start = False
        at_sentence_start = at_sentence_start or _ends_sentence(word)
    return facts


def _ends_sentence(word: str) -> bool:
    """Return whether a word, with the punctuation around it, is the last of its sentence."""
    stripped = word.strip(PUNCTUATION)
    is_abbreviation = stripped in TITLES or INITIALS.fullmatch(stripped)
    return word.rstrip("\"'”’»)]").endswith(ENDS[1:] if is_abbreviation else ENDS)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text: the "lead-1" baseline of summarization.

    It ends at the first line end, or at the first full stop, question mark or exclamation mark that
    is followed by white space.
    """
    line = text.strip().splitlines()[0] if text.strip() else ""
    return re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0]


def fact_score(hypotheses: Sequence[str], references: Sequence[str]) -> FactScore:
    """Compute precision and recall of the facts of hypotheses against those of references.

    Facts are those of `extract_facts`, counted over all texts together. If there are none on both
    sides, all scores are 100.

    Raises:
        ValueError: if the lists are empty or differ in length.
    """
    check_same_length(hypotheses=hypotheses, references=references)
    num_correct = num_generated = num_expected = 0
    for text, reference in zip(hypotheses, references, strict=True):
        generated, expected = Counter(extract_facts(text)), Counter(extract_facts(reference))
        num_correct += (generated & expected).total()
        num_generated += generated.total()
        num_expected += expected.total()
    if not num_generated + num_expected:
        return FactScore(100.0, 100.0, 100.0)
    return FactScore(*compute_f1(num_correct, num_generated, num_expected))


def caption_words(text: str) -> list[str]:
    """Return lower-case words without punctuation around them; contractions become two ("it s").

    COCO's evaluation splits captions by the rules of the Penn Treebank, without punctuation. This
    function does the same, except that it does not split at symbols within a word ("red,blue",
    "50%") and does not split words run together ("cannot"). Words that are already split stay as
    they are. Text in languages without spaces must be split beforehand.
    """
    words = _split_into_words(text.replace("’", "'"))
    return [part for word in words for part in CONTRACTION.sub(r" \1\2", word).split()]


def _split_into_words(text: str) -> list[str]:
    """Return lower-case words without punctuation around them; punctuation alone is dropped."""
    words = (word.strip(PUNCTUATION).lower() for word in text.split())
    return [word for word in words if word]

"""Word alignments of the generated corpus `dates`.

Words of one concept are linked: in "they arrive on March 3" and "ils arrivent le 3 mars", "they"
with "ils", "March" with "mars". A link is sure, or only possible: between "was born" and "née",
"born" has the sure link and "was" a possible one. Function words ("on", "le") and punctuation have
no links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attention_zoo.data.synthetic.clause_templates import PUNCTUATION
from attention_zoo.data.synthetic.dates import Clause, sample_sentences

Span = tuple[int, int]
Link = tuple[int, int]

_PARTS = re.compile(r"\{0\}|\{(?P<concept>\w+):(?P<word>.+?)\}|(?P<other>[^{}]+)")
_WORDS = re.compile(r"[^\W\d]+|\d+|[^\w\s]")


class AlignedPair(NamedTuple):
    """A sentence pair with its gold alignment.

    Attributes:
        source: the source sentence.
        target: the target sentence.
        source_words: start and end of each source word, in characters, without the end.
        target_words: the same of the target words.
        sure: unambiguous links, pairs (target word, source word) of positions from 0.
        possible: links that are not wrong, among them the sure ones.
    """

    source: str
    target: str
    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]


def generate_aligned_dates(
    size: int,
    source: str = "en",
    target: str = "fr",
    split: str = "train",
    seed: int = 1,
    min_phrases: int = 1,
    max_phrases: int = 6,
) -> list[AlignedPair]:
    """Generate the sentence pairs of `generate_dates` with the links between their words.

    Args:
        size, source, target, split, seed, min_phrases, max_phrases: as in `generate_dates`.

    Returns:
        The same pairs in the same order. `inspection.alignment_error_rate` compares alignments
        with their links.

    Raises:
        ValueError: as `generate_dates`.

    Example:
        >>> from attention_zoo.data import generate_aligned_dates
        >>> pair = generate_aligned_dates(3)[2]
        >>> pair.source, pair.target
        ('he slept for 65 hours.', 'il a dormi 65 heures.')
        >>> [pair.target[start:end] for start, end in pair.target_words]
        ['il', 'a', 'dormi', '65', 'heures', '.']
        >>> sorted(pair.sure), sorted(pair.possible - pair.sure)
        ([(0, 0), (2, 1), (3, 3), (4, 4)], [(1, 1)])
    """
    sentences = sample_sentences(size, source, target, split, seed, min_phrases, max_phrases)
    return [align_clauses(clauses, source, target) for clauses in sentences.values()]


class _Word(NamedTuple):
    """A word: its span in the sentence, its clause and its concept, "" for a function word."""

    span: Span
    clause: int
    concept: str


def align_clauses(clauses: Sequence[Clause], source: str, target: str) -> AlignedPair:
    """Return the aligned sentences of clauses in two languages."""
    (source_text, sources), (target_text, targets) = (
        _find_words(clauses, language) for language in (source, target)
    )
    sure, possible = set(), set()
    for t, target_word in enumerate(targets):
        for s, source_word in enumerate(sources):
            concept = target_word.concept.removesuffix("_")
            if concept and (target_word.clause, concept) == (
                source_word.clause,
                source_word.concept.removesuffix("_"),
            ):
                possible.add((t, s))
                if target_word.concept == source_word.concept == concept:
                    sure.add((t, s))
    source_spans, target_spans = (
        tuple(word.span for word in words) for words in (sources, targets)
    )
    links = frozenset(sure), frozenset(possible)
    return AlignedPair(source_text, target_text, source_spans, target_spans, *links)


def _find_words(clauses: Sequence[Clause], language: str) -> tuple[str, list[_Word]]:
    """Return the sentence of clauses, and its words."""
    separator, end = PUNCTUATION[language]
    text, words = "", []
    for number, clause in enumerate(clauses):
        after = end if number == len(clauses) - 1 else separator
        for part, concept in [*_split_clause(clause, language), (after, "")]:
            spans = [(0, len(part))] if concept else [m.span() for m in _WORDS.finditer(part)]
            words += [
                _Word((len(text) + start, len(text) + end), number, concept) for start, end in spans
            ]
            text += part
    return text, words


def _split_clause(clause: Clause, language: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a clause: words with their concepts, and the text between them with ""."""
    template, value = clause
    for part in _PARTS.finditer(template.marked_texts[language]):
        if part["concept"]:
            yield part["word"], part["concept"]
        elif part["other"]:
            yield part["other"], ""
        else:
            text = template.slot.format(value, language)
            yield from _split_value(text, template.slot.get_words(language))


def _split_value(text: str, words: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a formatted value, as `_split_clause`."""
    match = words.fullmatch(text)
    if match is None:
        raise AssertionError(f"{text!r} does not match {words.pattern!r}")
    position = 0
    for name in sorted(match.groupdict(), key=match.start):
        start, end = match.span(name)
        if start >= 0:
            yield text[position:start], ""
            yield text[start:end], name
            position = end
    yield text[position:], ""

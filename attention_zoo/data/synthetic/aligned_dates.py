"""Gold word alignments of the generated corpus `dates`.

Words of one concept are linked: in "they arrive on March 3" and "ils arrivent le 3 mars", "they"
with "ils", "March" with "mars". A link is sure, or only possible: between "was born" and "est née",
"was" has a sure link to "est" and a possible one to "née". Function words ("on", "le") and
punctuation have no links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attention_zoo.data.synthetic.clause_templates import PUNCTUATION
from attention_zoo.data.synthetic.dates import Clause, sample_sentences

Span = tuple[int, int]
Link = tuple[int, int]

_PARTS = re.compile(r"\{0\}|\{(?P<concepts>[\w,]+):(?P<word>.+?)\}|(?P<other>[^{}]+)")
_WORDS = re.compile(r"[^\W\d]+|\d+|[^\w\s]")


class AlignedPair(NamedTuple):
    """A sentence pair with its gold alignment.

    Attributes:
        source: the source sentence.
        target: the target sentence.
        source_words: start and end of each source word, in characters, end exclusive.
        target_words: start and end of each target word.
        sure: unambiguous links, pairs (target position, source position) of words, from 0.
        possible: links that are not wrong, including the sure ones.
        target_values: positions of the target words of dates, times and quantities.
    """

    source: str
    target: str
    source_words: tuple[Span, ...]
    target_words: tuple[Span, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]
    target_values: frozenset[int]


def generate_aligned_dates(
    size: int,
    source: str = "en",
    target: str = "fr",
    split: str = "train",
    seed: int = 1,
    min_phrases: int = 1,
    max_phrases: int = 6,
) -> list[AlignedPair]:
    """Generate the sentence pairs of `generate_dates` with their gold word alignments.

    Args:
        size, source, target, split, seed, min_phrases, max_phrases: as in `generate_dates`.

    Returns:
        The same pairs in the same order. Their links are the gold links of
        `inspection.alignment_error_rate`.

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
    """A word of a sentence.

    Attributes:
        span: its start and end in the sentence.
        clause: index of its clause.
        sure: its concepts.
        possible: its concepts, and those to whose words it may also be linked.
    """

    span: Span
    clause: int
    sure: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()


def align_clauses(clauses: Sequence[Clause], source: str, target: str) -> AlignedPair:
    """Return the sentence pair of clauses in two languages, with its gold alignment."""
    (source_text, sources), (target_text, targets) = (
        _find_words(clauses, language) for language in (source, target)
    )
    possible = {
        (t, s)
        for t, target_word in enumerate(targets)
        for s, source_word in enumerate(sources)
        if target_word.clause == source_word.clause and target_word.possible & source_word.possible
    }
    sure = {(t, s) for t, s in possible if targets[t].sure & sources[s].sure}
    source_spans, target_spans = (
        tuple(word.span for word in words) for words in (sources, targets)
    )
    values = (t for t, word in enumerate(targets) if not all(map(str.isdecimal, word.possible)))
    links = frozenset(sure), frozenset(possible), frozenset(values)
    return AlignedPair(source_text, target_text, source_spans, target_spans, *links)


def _find_words(clauses: Sequence[Clause], language: str) -> tuple[str, list[_Word]]:
    """Return the sentence that clauses form, and its words."""
    separator, full_stop = PUNCTUATION[language]
    text = ""
    words: list[_Word] = []
    for index, clause in enumerate(clauses):
        after = full_stop if index == len(clauses) - 1 else separator
        for part, names in [*_split_clause(clause, language), (after, [])]:
            position, text = len(text), text + part
            if names:
                sure = frozenset(name for name in names if not name.endswith("_"))
                possible = frozenset(name.rstrip("_") for name in names)
                words.append(_Word((position, len(text)), index, sure, possible))
                continue
            for match in _WORDS.finditer(part):
                span = position + match.start(), position + match.end()
                words.append(_Word(span, index))
    return text, words


def _split_clause(clause: Clause, language: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of a clause: words with their concepts, and the text between them with []."""
    template, value = clause
    for part in _PARTS.finditer(template.marked_texts[language]):
        if part["concepts"]:
            yield part["word"], part["concepts"].split(",")
        elif part["other"]:
            yield part["other"], []
        else:
            text = template.slot.format(value, language)
            yield from _split_value(text, template.slot.get_word_pattern(language))


def _split_value(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of a formatted value, as `_split_clause`."""
    match = pattern.fullmatch(text)
    if match is None:
        raise AssertionError(f"{text!r} does not match {pattern.pattern!r}")
    concepts: dict[Span, list[str]] = {}
    for name in match.groupdict():
        if match[name] is not None:
            concepts.setdefault(match.span(name), []).append(name)
    position = 0
    for (start, end), names in sorted(concepts.items()):
        yield text[position:start], []
        yield text[start:end], names
        position = end
    yield text[position:], []

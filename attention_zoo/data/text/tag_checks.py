"""Validation of a corpus's tags against a tagging scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attention_zoo.data.text.tagged import TaggedSentences
from attention_zoo.ops.tag_schemes import OUTSIDE, TAG_SCHEMES, TagConstraints, tag_constraints


def check_tags(sentences: TaggedSentences, scheme: str, strict: bool = True) -> None:
    """Raise ValueError, with the word's location, if a tag violates the tagging scheme.

    Args:
        sentences: the corpus.
        scheme: "BIO" (IOB2), "IOB1", "BIOES", "BMES", or another of `ops.TAG_SCHEMES`.
        strict: also reject invalid sequences, such as "O I-LOC" in BIO. Otherwise, only the form of
            each tag is checked, and metrics interpret such sequences as conlleval does.
    """
    TAG_SCHEMES.get(scheme)
    strange = {tag: problem for tag in sentences.known_tags for problem in _problem(scheme, tag)}
    if strange:
        row, word = next(
            (row, word)
            for row, tags in enumerate(sentences.tags)
            for word, tag in enumerate(tags)
            if tag in strange
        )
        raise ValueError(f"{sentences.place(row, word)}: {strange[sentences.tags[row][word]]}")
    if strict:
        for row, word in _broken(sentences, scheme):
            raise ValueError(_told(sentences, scheme, row, word))


def _problem(scheme: str, tag: str) -> Iterator[str]:
    """Yield an error message if the form of a tag is invalid."""
    try:
        _constraints(scheme, [tag])
    except ValueError as error:
        yield str(error)


def _constraints(scheme: str, tags: Sequence[str]) -> tuple[list[str], TagConstraints]:
    """Return the tags, completed by all other tags of their types, and their constraints."""
    letters = TAG_SCHEMES.get(scheme)().letters()
    kinds = {tag.partition("-")[2] for tag in tags}
    others = {f"{letter}-{kind}" if kind else letter for letter in letters for kind in kinds}
    names = sorted({OUTSIDE, *tags, *others})
    return names, tag_constraints(scheme, names)


def _broken(sentences: TaggedSentences, scheme: str) -> Iterator[tuple[int, int]]:
    """Yield each sentence that violates the scheme, and the index of its first invalid word.

    The index is the number of words if the sentence ends too early.
    """
    names, rules = _constraints(scheme, sentences.known_tags)
    numbers = {name: number for number, name in enumerate(names)}
    for row, tags in enumerate(sentences.tags):
        word = rules.first_broken([numbers[tag] for tag in tags])
        if word is not None:
            yield row, word


def _told(sentences: TaggedSentences, scheme: str, row: int, word: int) -> str:
    tags = sentences.tags[row]
    if word == len(tags):
        place, wrong = sentences.place(row, word - 1), f"{tags[-1]!r} may not end a sentence"
    else:
        after = f"come after {tags[word - 1]!r}" if word else "begin a sentence"
        place, wrong = sentences.place(row, word), f"{tags[word]!r} may not {after}"
    others = [name for name in TAG_SCHEMES.names() if name != scheme and _fits(sentences, name)]
    named = f", or use the scheme {' or '.join(others)}" if others else ""
    return f"{place}: {wrong} in {scheme}; fix the tag{named}"


def _fits(sentences: TaggedSentences, scheme: str) -> bool:
    try:
        check_tags(sentences, scheme, strict=False)
    except ValueError:
        return False
    return next(_broken(sentences, scheme), None) is None

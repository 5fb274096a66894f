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
    invalid_tags = {
        tag: message for tag in sentences.known_tags for message in _check_form(scheme, tag)
    }
    if invalid_tags:
        row, word = next(
            (row, word)
            for row, tags in enumerate(sentences.tags)
            for word, tag in enumerate(tags)
            if tag in invalid_tags
        )
        raise ValueError(
            f"{sentences.locate_word(row, word)}: {invalid_tags[sentences.tags[row][word]]}"
        )
    if strict:
        for row, word in _find_violations(sentences, scheme):
            raise ValueError(_format_violation(sentences, scheme, row, word))


def _check_form(scheme: str, tag: str) -> Iterator[str]:
    """Yield an error message if the form of a tag is invalid."""
    try:
        _make_constraints(scheme, [tag])
    except ValueError as error:
        yield str(error)


def _make_constraints(scheme: str, tags: Sequence[str]) -> tuple[list[str], TagConstraints]:
    """Return the tags, completed by all other tags of their types, and their constraints."""
    prefixes = TAG_SCHEMES.get(scheme)().letters()
    types = {tag.partition("-")[2] for tag in tags}
    other_tags = {f"{prefix}-{name}" if name else prefix for prefix in prefixes for name in types}
    tag_names = sorted({OUTSIDE, *tags, *other_tags})
    return tag_names, tag_constraints(scheme, tag_names)


def _find_violations(sentences: TaggedSentences, scheme: str) -> Iterator[tuple[int, int]]:
    """Yield each sentence that violates the scheme, and the index of its first invalid word.

    The index is the number of words if the sentence ends too early.
    """
    names, rules = _make_constraints(scheme, sentences.known_tags)
    numbers = {name: number for number, name in enumerate(names)}
    for row, tags in enumerate(sentences.tags):
        word = rules.find_first_violation([numbers[tag] for tag in tags])
        if word is not None:
            yield row, word


def _format_violation(sentences: TaggedSentences, scheme: str, row: int, word: int) -> str:
    tags = sentences.tags[row]
    if word == len(tags):
        location = sentences.locate_word(row, word - 1)
        problem = f"{tags[-1]!r} may not end a sentence"
    else:
        position = f"come after {tags[word - 1]!r}" if word else "begin a sentence"
        location = sentences.locate_word(row, word)
        problem = f"{tags[word]!r} may not {position}"
    alternatives = [
        name for name in TAG_SCHEMES.names() if name != scheme and _is_valid(sentences, name)
    ]
    hint = f", or use the scheme {' or '.join(alternatives)}" if alternatives else ""
    return f"{location}: {problem} in {scheme}; fix the tag{hint}"


def _is_valid(sentences: TaggedSentences, scheme: str) -> bool:
    try:
        check_tags(sentences, scheme, strict=False)
    except ValueError:
        return False
    return next(_find_violations(sentences, scheme), None) is None

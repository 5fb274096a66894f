"""Validation of a corpus's tags against a tagging scheme."""

from __future__ import annotations

from collections.abc import Iterator

from attention_zoo.data.text.tagged import TaggedSentences
from attention_zoo.ops.tag_schemes import (
    OUTSIDE,
    TAG_SCHEMES,
    TagConstraints,
    get_tag_scheme,
    split_tag,
    tag_constraints,
)


def check_tags(sentences: TaggedSentences, scheme: str, strict: bool = True) -> None:
    """Raise ValueError, with the word's location, if a tag violates the tagging scheme.

    Args:
        sentences: the corpus.
        scheme: "BIO" (or "IOB2"), "IOB1", "BIOES", "BILOU", "BMES", or another of
            `ops.TAG_SCHEMES`.
        strict: also reject invalid sequences, such as "O I-LOC" in BIO. Otherwise, only the form of
            each tag is checked, and metrics interpret such sequences as conlleval does.
    """
    for _, problem in find_tag_errors(sentences, scheme, strict):
        raise ValueError(problem)


def find_tag_errors(
    sentences: TaggedSentences, scheme: str, strict: bool = True
) -> Iterator[tuple[int, str]]:
    """Yield the index of each sentence that violates the scheme, and its first problem."""
    get_tag_scheme(scheme)
    others: str | None = None
    for row, word, is_malformed in _find_violations(sentences, scheme, strict):
        if others is None:
            others = " or ".join(_find_schemes(sentences))
        tags = sentences.tags[row]
        if is_malformed:
            problem = _describe_malformed(tags[word], scheme) + (others and f": {others}")
        else:
            fix = "fix the tag" + (others and f", or use the scheme {others}")
            problem = f"{_describe_violation(tags, word, scheme)}; {fix}"
        yield row, f"{sentences.locate_word(row, min(word, len(tags) - 1))}: {problem}"


def _find_violations(
    sentences: TaggedSentences, scheme: str, strict: bool
) -> Iterator[tuple[int, int, bool]]:
    """Yield the first violation of each sentence.

    A violation is the index of the sentence, that of the bad word, and whether its tag is
    malformed. The index of the word is the number of words if the sentence ends too early.
    """
    names, constraints = _make_constraints(sentences, scheme)
    numbers = {name: number for number, name in enumerate(names)}
    for row, tags in enumerate(sentences.tags):
        malformed = next((word for word, tag in enumerate(tags) if tag not in numbers), None)
        if malformed is not None:
            yield row, malformed, True
        elif strict:
            word = constraints.find_first_violation([numbers[tag] for tag in tags])
            if word is not None:
                yield row, word, False


def _make_constraints(sentences: TaggedSentences, scheme: str) -> tuple[list[str], TagConstraints]:
    """Return the well-formed tags, with all prefixes of each type, and their constraints."""
    known_tags = {tag for tag in sentences.known_tags if not _describe_malformed(tag, scheme)}
    types = {tag.partition("-")[2] for tag in known_tags}
    prefixes = get_tag_scheme(scheme).letters()
    other_tags = {f"{prefix}-{name}" if name else prefix for prefix in prefixes for name in types}
    names = sorted({OUTSIDE, *known_tags, *other_tags})
    return names, tag_constraints(scheme, names)


def _describe_malformed(tag: str, scheme: str) -> str:
    """Return why a tag is not one of the scheme; an empty string if it is."""
    try:
        split_tag(tag, scheme)
    except ValueError as error:
        return str(error)
    return ""


def _describe_violation(tags: tuple[str, ...], word: int, scheme: str) -> str:
    if word == len(tags):
        return f"{tags[-1]!r} may not end a sentence in {scheme}"
    position = f"come after {tags[word - 1]!r}" if word else "begin a sentence"
    return f"{tags[word]!r} may not {position} in {scheme}"


def _find_schemes(sentences: TaggedSentences) -> list[str]:
    """Return the schemes that the whole corpus follows."""
    return [
        name
        for name in TAG_SCHEMES.names()
        if next(_find_violations(sentences, name, strict=True), None) is None
    ]

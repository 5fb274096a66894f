"""Validation of a corpus's tags against a tagging scheme."""

from __future__ import annotations

from collections.abc import Iterator

from attention_zoo.data.text.tagged import TaggedSentences
from attention_zoo.ops.tag_schemes import OUTSIDE, TAG_SCHEMES, split_tag, tag_constraints


def check_tags(sentences: TaggedSentences, scheme: str, strict: bool = True) -> None:
    """Raise ValueError, with the word's location, if a tag violates the tagging scheme.

    Args:
        sentences: the corpus.
        scheme: "BIO" (IOB2), "IOB1", "BIOES", "BMES", or another of `ops.TAG_SCHEMES`.
        strict: also reject invalid sequences, such as "O I-LOC" in BIO. Otherwise, only the form of
            each tag is checked, and metrics interpret such sequences as conlleval does.
    """
    rules, valid_tags = TAG_SCHEMES.get(scheme)(), set[str]()
    for row, tags in enumerate(sentences.tags):
        for word, tag in enumerate(tags):
            if tag not in valid_tags:
                try:
                    split_tag(tag, scheme, rules)
                except ValueError as error:
                    raise ValueError(f"{sentences.locate_word(row, word)}: {error}") from None
                valid_tags.add(tag)
    if strict:
        for row, word in _find_violations(sentences, scheme):
            raise ValueError(_format_violation(sentences, scheme, row, word))


def _find_violations(sentences: TaggedSentences, scheme: str) -> Iterator[tuple[int, int]]:
    """Yield each sentence that violates the scheme, and the index of its first invalid word.

    The index is the number of words if the sentence ends too early.
    """
    known_tags, prefixes = sentences.known_tags, TAG_SCHEMES.get(scheme)().letters()
    types = {tag.partition("-")[2] for tag in known_tags}
    other_tags = {f"{prefix}-{name}" if name else prefix for prefix in prefixes for name in types}
    names = sorted({OUTSIDE, *known_tags, *other_tags})  # with them, every known tag can occur
    constraints = tag_constraints(scheme, names)
    numbers = {name: number for number, name in enumerate(names)}
    for row, tags in enumerate(sentences.tags):
        word = constraints.find_first_violation([numbers[tag] for tag in tags])
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

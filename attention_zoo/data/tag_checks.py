"""Whether the tags of a corpus are of the scheme that it is said to have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attention_zoo.data.tagged import TaggedSentences
from attention_zoo.ops.tag_schemes import OUTSIDE, TAG_SCHEMES, TagConstraints, tag_constraints


def check_tags(sentences: TaggedSentences, scheme: str, strict: bool = True) -> None:
    """ValueError, naming the word's place, for a tag that a scheme has not or does not let stand.

    Args:
        sentences: the corpus.
        scheme: "BIO" (IOB2), "IOB1", "BIOES", "BMES", or another of `ops.TAG_SCHEMES`.
        strict: also refuse sequences that break the scheme, as "O I-LOC" does BIO; else the form
            of each tag alone is checked, and metrics read such sequences as conlleval does.
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
    """What is wrong with the form of a tag, if anything is."""
    try:
        _constraints(scheme, [tag])
    except ValueError as error:
        yield str(error)


def _constraints(scheme: str, tags: Sequence[str]) -> tuple[list[str], TagConstraints]:
    """The tags with all others of their types, so that none is without company, and their rules."""
    letters = TAG_SCHEMES.get(scheme)().letters()
    kinds = {tag.partition("-")[2] for tag in tags}
    others = {f"{letter}-{kind}" if kind else letter for letter in letters for kind in kinds}
    names = sorted({OUTSIDE, *tags, *others})
    return names, tag_constraints(scheme, names)


def _broken(sentences: TaggedSentences, scheme: str) -> Iterator[tuple[int, int]]:
    """Each sentence that breaks a scheme, and its first word that does.

    The number of its words where it only ends too soon.
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
    named = f", or name {' or '.join(others)} as the scheme" if others else ""
    return f"{place}: {wrong} in {scheme}; mend the tag{named}"


def _fits(sentences: TaggedSentences, scheme: str) -> bool:
    try:
        check_tags(sentences, scheme, strict=False)
    except ValueError:
        return False
    return next(_broken(sentences, scheme), None) is None

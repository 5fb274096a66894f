"""Generated corpus `dates`: dates, times and quantities in sentences of four languages.

A sentence is a chain of clauses ("trains leave at 5:04 PM; it weighs 12 kilograms."). Babel formats
the values of their slots from the Unicode CLDR, so they differ as they do between the languages:
"Monday, March 3, 2031" is "lundi 3 mars 2031", "Montag, 3. März 2031" and "2031年3月3日星期一",
5:04 PM is 17:04, "3 days ago" is "il y a 3 jours". The word order within a clause depends on the
language. The order of the clauses does not.

Every sentence has exactly one correct translation, so exact match is a fair metric. No clause
occurs twice in a sentence, so the clause to attend to is always identified by its content. This
also holds in the split `long`, whose sentences have up to twice as many clauses as those of
training. Clauses are short, and training sentences have up to six. With only two or three, a model
learns the positions of the first, middle and last clause instead of how to move from one clause to
the next, and fails on longer chains.

The split of a sentence is determined by a hash of its English text. No sentence is ever in two
splits, whatever the sizes, seeds and languages.
"""

from __future__ import annotations

from typing import Any

from attention_zoo.data.synthetic.clause_templates import (
    CLAUSE_TEMPLATES,
    PUNCTUATION,
    ClauseTemplate,
)
from attention_zoo.data.synthetic.slots import RandomBelow, Value
from attention_zoo.data.synthetic.splits import Candidate, PartRange, sample_corpus
from attention_zoo.data.text.lines import TextLines
from attention_zoo.data.text.pairs import TextPairs
from attention_zoo.registry import check_known

LANGUAGES = tuple(PUNCTUATION)

Clause = tuple[ClauseTemplate, Value]


def generate_dates(
    size: int,
    source: str = "en",
    target: str = "fr",
    split: str = "train",
    seed: int = 1,
    min_phrases: int = 1,
    max_phrases: int = 6,
) -> TextPairs:
    """Generate sentence pairs, all different. A corpus of size n is a prefix of any larger one.

    Args:
        size: number of pairs.
        source: source language: "en", "fr", "de" or "zh".
        target: target language, different from `source`.
        split: "train", "validation" or "test" with min_phrases to max_phrases clauses a sentence,
            or "long" with max_phrases + 1 to 2 * max_phrases.
        seed: seed of the corpus. The same seed gives the same sentences in all languages.
        min_phrases: minimum number of clauses in a sentence.
        max_phrases: maximum number of clauses in a sentence outside of "long".

    Raises:
        ValueError: a size below 1, an unknown language or split, the same language twice, fewer
            than one clause, `max_phrases` above half the number of templates.
    """
    sentences = sample_sentences(size, source, target, split, seed, min_phrases, max_phrases)
    targets = [_format_sentence(clauses, target) for clauses in sentences.values()]
    return TextPairs(list(sentences), targets, f"dates {source}-{target} {split} (seed {seed})")


def sample_sentences(
    size: int,
    source: str,
    target: str,
    split: str,
    seed: int,
    min_phrases: int,
    max_phrases: int,
) -> dict[str, list[Clause]]:
    """Sample sentences; see `generate_dates`.

    Returns:
        The clauses of each sentence, by its text in the source language.
    """
    check_known("dates: unknown language", (source, target), LANGUAGES)
    if source == target:
        raise ValueError(f"dates: source and target must differ, got {source!r} for both")

    def sample(phrases: int, randbelow: RandomBelow) -> Candidate:
        clauses = _sample_clauses(phrases, randbelow)
        english = _format_sentence(clauses, "en")

        def make_entry() -> tuple[str, list[Clause]]:
            return english if source == "en" else _format_sentence(clauses, source), clauses

        return english, make_entry

    part_range = PartRange("phrases", min_phrases, max_phrases, limit=len(CLAUSE_TEMPLATES) // 2)
    return sample_corpus("dates", split, seed, size, part_range, sample)


def _sample_clauses(phrases: int, randbelow: RandomBelow) -> list[Clause]:
    """Sample different templates, each with a value for its slot."""
    remaining = list(CLAUSE_TEMPLATES)
    templates = (remaining.pop(randbelow(len(remaining))) for _ in range(phrases))
    return [(template, template.slot.sample(randbelow)) for template in templates]


def _format_sentence(clauses: list[Clause], language: str) -> str:
    separator, end = PUNCTUATION[language]
    texts = [
        template.texts[language].format(template.slot.format(value, language))
        for template, value in clauses
    ]
    return separator.join(texts) + end


def generate_date_lines(
    size: int, language: str = "en", split: str = "train", **options: Any
) -> TextLines:
    """Generate one side of the corpus of dates, times and quantities; all lines are different.

    Args:
        size: number of lines.
        language: "en", "fr", "de" or "zh".
        split: "train", "validation", "test" or "long".
        **options: `seed`, `min_phrases` and `max_phrases` of `generate_dates`.

    Raises:
        ValueError: as `generate_dates`.
    """
    other = "fr" if language == "en" else "en"
    pairs = generate_dates(size, source=language, target=other, split=split, **options)
    return TextLines(pairs.sources, pairs.origin.replace(f"{language}-{other}", language))

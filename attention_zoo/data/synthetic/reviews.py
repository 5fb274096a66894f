"""Generated corpus `reviews`: text classification by one sentence among similar ones.

    A horse called shabby Nelly had won the race in Nimun! We arrived in the rain. In my own
    judgement, the soup is splendid here. According to Tidur, the lift seems average on the whole.

One sentence gives the reviewer's own opinion. Its opinion word determines the class: negative,
mixed or positive. Other sentences contain opinions of other people, of brochures or of earlier
visits, and opinion words in neutral use. The order of the sentences is random.

Word counts do not depend on the class: every review has the same number of opinion words of each
class, and which of them is in the reviewer's own opinion is independent of all other words.
Exchanging it with another opinion word changes the class, but no word count. So every classifier
that depends on word counts only, such as a linear model of TF-IDF features or the mean of word
embeddings, has an accuracy of one third. The same holds for counts of two adjacent words: the
clause with the opinion has the same form in the reviewer's own sentence and in others, and the
numbers of these clauses and of neutral uses are also the same for each class.

In the multi-label variant, the classes are aspects (service, room, food, price, location,
equipment). A review states the reviewer's own opinion on several aspects, at most one for each; the
labels are those on which it is a complaint, of 51 % (service) down to 6 % (equipment) of the
reviews. For every complaint of the reviewer, somebody else praises the same aspect, and conversely.

Names of places, people and products are those of the corpus `reports`: `unseen` has names that
never occur in other splits.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from attention_zoo.data.synthetic.reports import SPLITS, VALUE_KINDS, VALUES
from attention_zoo.data.synthetic.sampling import choose, shuffle
from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import Candidate, PartRange, sample_corpus
from attention_zoo.data.text.labelled import LabelledTexts
from attention_zoo.data.text.sentences import split_sentences
from attention_zoo.ops.arguments import whole_number

MIN_SENTENCES, MAX_SENTENCES = 3, 40  # range of the number of sentences outside of `long`
PEOPLE = 3  # names of people in a review

CONTENT: dict[str, Any] = json.loads((files(__package__) / "reviews.json").read_text("utf-8"))
"""Templates and words by kind."""

OPINIONS: dict[str, list[str]] = CONTENT["opinions"]
"""Opinion words by class."""

ASPECTS: dict[str, dict[str, Any]] = CONTENT["aspects"]
"""Nouns and complaint rate of each class of the multi-label variant."""

NOUNS = [noun for aspect in ASPECTS.values() for noun in aspect["nouns"]]

_OWN_SOURCE = "|".join(map(re.escape, CONTENT["own_sources"]))
_OWN_OPINION = re.compile(f"(?i:{_OWN_SOURCE}), .*|.*, (?:{_OWN_SOURCE})\\.")


def generate_reviews(
    size: int,
    split: str = "train",
    seed: int = 1,
    min_sentences: int = 5,
    max_sentences: int = 40,
    multi_label: bool = False,
) -> LabelledTexts:
    """Generate reviews, all different, with their classes.

    Args:
        size: number of reviews; a corpus of size n is a prefix of any larger one.
        split: "train", "validation", "test" and "unseen" with min_sentences to max_sentences
            sentences a review, or "long" with max_sentences + 1 to 2 * max_sentences.
        seed: seed of the corpus.
        min_sentences: minimum number of sentences of a review; at least 3.
        max_sentences: maximum number of sentences of a review outside of "long"; at most 40.
        multi_label: whether the classes are aspects with complaints, any number for each review,
            instead of "negative", "mixed" or "positive".

    Returns:
        The reviews, with the labels "negative", "mixed" and "positive", or with aspects.

    Example:
        >>> from attention_zoo.data import generate_reviews
        >>> generate_reviews(300).known_classes
        ('mixed', 'negative', 'positive')

    Raises:
        ValueError: a size below 1, an unknown split, an invalid range of the number of sentences.
    """
    whole_number("min_sentences", min_sentences, MIN_SENTENCES)
    corpus = "multi-label reviews" if multi_label else "reviews"
    kind = VALUE_KINDS.get(split, "any")

    def sample(sentences: int, randbelow: RandomBelow) -> Candidate:
        writer = _Writer(kind, randbelow)
        sample_review = _sample_complaints if multi_label else _sample_verdict
        parts, labels = sample_review(sentences, writer, randbelow)
        review = " ".join(shuffle(parts, randbelow))
        return review, lambda: (review, labels)

    part_range = PartRange("sentences", min_sentences, max_sentences, limit=MAX_SENTENCES)
    labels = sample_corpus(corpus, split, seed, size, part_range, sample, SPLITS)
    return LabelledTexts(list(labels), list(labels.values()), f"{corpus} {split} (seed {seed})")


def find_own_opinions(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences that determine the labels of a generated review.

    Args:
        text: a review of `generate_reviews`.

    Returns:
        Start and end of each sentence with the reviewer's own opinion, in characters, end
        exclusive: exactly one, or in the multi-label variant one for each aspect on which the
        review has such an opinion, whether it is a complaint or not.

    Example:
        >>> from attention_zoo.data.synthetic.reviews import find_own_opinions
        >>> text = "We arrived in the rain. To my mind, the soup is splendid here."
        >>> [text[start:end] for start, end in find_own_opinions(text)]
        ['To my mind, the soup is splendid here.']
    """
    spans, end = [], 0
    for sentence in split_sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        if _OWN_OPINION.fullmatch(sentence):
            spans.append((start, end))
    return spans


class _Writer:
    """Writer of the sentences of one review."""

    def __init__(self, kind: str, randbelow: RandomBelow) -> None:
        self._randbelow = randbelow
        names: list[str] = []
        while len(names) < PEOPLE + 3:
            name = VALUES["name"].sample(kind, randbelow)
            names += [name] * (name not in names)
        self._names = dict(zip(("place", "town", "product"), names, strict=False))
        self._people = names[3:]

    def state_opinion(self, sources: str, nouns: list[str], opinion: str) -> str:
        """Return a statement with a source, which stands before or after it."""
        source = self._choose(CONTENT[sources])
        statement = self._choose(CONTENT["statements"])
        first, second = (source, statement) if self._randbelow(2) else (statement, source)
        text = self._fill(f"{first}, {second}.", noun=self._choose(nouns), opinion=opinion)
        return text[0].upper() + text[1:]

    def mention_word(self, opinion: str) -> str:
        """Return a sentence that contains an opinion word and states no opinion on the place."""
        return self._fill(self._choose(CONTENT["neutral_uses"]), opinion=opinion)

    def write_fillers(self, count: int) -> list[str]:
        """Return sentences without opinion words; templates recur only when all are used."""
        templates: list[str] = []
        while len(templates) < count:
            templates += shuffle(CONTENT["fillers"], self._randbelow)
        return [self._fill(template) for template in templates[:count]]

    def _choose(self, items: list[str]) -> str:
        return choose(items, self._randbelow)

    def _fill(self, template: str, **words: str) -> str:
        number, person = str(2 + self._randbelow(98)), self._choose(self._people)
        return template.format(number=number, person=person, **self._names, **words)


def _sample_verdict(
    sentences: int, writer: _Writer, randbelow: RandomBelow
) -> tuple[list[str], tuple[str, ...]]:
    """Sample the sentences and the class of a review with one opinion of the reviewer's own.

    For each class, a sixth to a third of the sentences contain one of its opinion words. As many
    of them are neutral uses for each class.
    """
    most = sentences // 3
    least = max(1, sentences // 6)
    count = least + randbelow(most - least + 1)
    neutral = sum(randbelow(4) == 0 for _ in range(count - 1))
    verdict = choose(list(OPINIONS), randbelow)
    parts: list[str] = []
    for name, opinions in OPINIONS.items():
        words = [choose(opinions, randbelow) for _ in range(count)]
        sources = ["own_sources" if name == verdict else "other_sources"]
        sources += ["other_sources"] * (count - neutral - 1)
        for source in sources:
            parts.append(writer.state_opinion(source, NOUNS, words.pop()))
        parts += map(writer.mention_word, words)
    return parts + writer.write_fillers(sentences - len(parts)), (verdict,)


def _sample_complaints(
    sentences: int, writer: _Writer, randbelow: RandomBelow
) -> tuple[list[str], tuple[str, ...]]:
    """Sample the sentences of a multi-label review, and the aspects with complaints.

    Each aspect takes two sentences: an opinion of the reviewer's own, and an opposite one of
    somebody else. Half of the other sentences contain opinions of other people.
    """
    parts: list[str] = []
    labels: list[str] = []
    for name in shuffle(list(ASPECTS), randbelow)[: sentences // 2]:
        nouns, percent = ASPECTS[name]["nouns"], ASPECTS[name]["complaint_percent"]
        words = [choose(OPINIONS[name], randbelow) for name in ("negative", "positive")]
        if randbelow(100) < percent:
            labels.append(name)
        else:
            words.reverse()
        own, other = words
        parts.append(writer.state_opinion("own_sources", nouns, own))
        parts.append(writer.state_opinion("other_sources", nouns, other))
    for _ in range((sentences - len(parts)) // 2):
        word = choose(OPINIONS[choose(list(OPINIONS), randbelow)], randbelow)
        parts.append(writer.state_opinion("other_sources", NOUNS, word))
    return parts + writer.write_fillers(sentences - len(parts)), tuple(sorted(labels))

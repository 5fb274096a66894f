"""Generated corpus `ranked claims`: rank candidate answers to a question about a small world.

    Who gave the red ball to Ben?

    Ada owns ten cats. The red ball was given to Ben by Pia.             relevant
    Ben gave the red ball to Tess. Sam got the blue lamp from Uma.       not relevant
    Ida gave the blue lamp to Ben. Jon gave the red ball to Kira.        not relevant
    Max did not give the red ball to Ben. Will gave the grey cup to Lea. not relevant

Each question has ten candidates, of which none (in 10 % of the questions), one (50 %) or two (40 %)
are relevant. A relevant candidate states a fact that answers the question. In others, the roles of
giver and receiver are exchanged, or a word of that fact and one of another fact are exchanged, or
the fact is denied.

Every candidate contains each name, colour, number and item of its question exactly once, and all
other words have the same distribution in relevant candidates and in others. So the number of
shared words and all other word counts are not informative.
"""

from __future__ import annotations

from attention_zoo.data.synthetic.sampling import choose, shuffle
from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import Candidate, PartRange, sample_corpus
from attention_zoo.data.synthetic.worlds import (
    CONTENT,
    SLOTS,
    Fact,
    WordSampler,
    fill_template,
    write_fact,
)
from attention_zoo.data.text.labelled_pairs import LabelledPairs

CANDIDATES = 10  # candidates of a question
NUM_RELEVANT = (0, 1, 1, 1, 1, 1, 2, 2, 2, 2)  # relevant candidates, all equally frequent
FACTS = PartRange("facts", 2, 3, limit=3)  # facts of a candidate outside of `long`


def generate_ranked_claims(size: int, split: str = "train", seed: int = 1) -> LabelledPairs:
    """Generate questions, all different, each with ten candidates and their relevance.

    Args:
        size: number of questions; a corpus of size n is a prefix of any larger one.
        split: "train", "validation" or "test" with two or three facts a candidate, or "long" with
            four to six.
        seed: seed of the corpus.

    Returns:
        Ten pairs of question and candidate for each question, in order. The score is 1.0 for
        relevant candidates, 0.0 for others. The group is the question.

    Example:
        >>> from attention_zoo.data import generate_ranked_claims
        >>> pairs = generate_ranked_claims(2)
        >>> len(pairs), len(set(pairs.groups))
        (20, 2)

    Raises:
        ValueError: a size below 1, an unknown split.
    """

    def sample(count: int, randbelow: RandomBelow) -> Candidate:
        question, fact = _sample_question(randbelow)
        return question, lambda: (question, _sample_candidates(fact, count, randbelow))

    candidates = sample_corpus("ranked claims", split, seed, size, FACTS, sample)
    questions = [question for question in candidates for _ in range(CANDIDATES)]
    pairs = [pair for group in candidates.values() for pair in group]
    seconds, scores = [text for text, _ in pairs], [score for _, score in pairs]
    origin = f"ranked claims {split} (seed {seed})"
    return LabelledPairs(questions, seconds, None, scores, [*questions], origin)


def _sample_question(randbelow: RandomBelow) -> tuple[str, Fact]:
    """Sample a question, and the fact that it asks for, whose unknown words are None.

    Four in five questions are about gifts.
    """
    kind = "gift" if randbelow(5) else "holding"
    fact = WordSampler(randbelow).sample_fact(kind)
    question_slot, templates = choose(list(CONTENT["questions"][kind].items()), randbelow)
    slots = ["item", "colour"] if (kind, question_slot) == ("gift", "item") else [question_slot]
    fact.words.update(dict.fromkeys(slots))
    return fill_template(choose(templates, randbelow), fact.words), fact


def _sample_candidates(fact: Fact, count: int, randbelow: RandomBelow) -> list[tuple[str, float]]:
    """Sample the candidates of a question and their relevance."""
    num_relevant = choose(NUM_RELEVANT, randbelow)
    relevance = shuffle([True] * num_relevant + [False] * (CANDIDATES - num_relevant), randbelow)
    return [
        (_sample_candidate(fact, is_relevant, count, randbelow), float(is_relevant))
        for is_relevant in relevance
    ]


def _sample_candidate(fact: Fact, is_relevant: bool, count: int, randbelow: RandomBelow) -> str:
    """Sample a candidate with a number of facts: the answer, another of its kind, and others.

    Half of the candidates contain a denied fact: the other one, or the answer in some of those
    that are not relevant.
    """
    known = {slot: word for slot, word in fact.words.items() if word is not None}
    words = WordSampler(randbelow, known.values())
    answer, other = words.sample_fact(fact.kind), words.sample_fact(fact.kind)
    answer.words.update(known)
    rest = [words.sample_fact(choose(list(SLOTS), randbelow)) for _ in range(count - 2)]
    has_denial = randbelow(2) == 1
    edits = [*known, *["roles"] * (fact.kind == "gift"), *["denial"] * has_denial]
    edit = "" if is_relevant else choose(edits, randbelow)
    if edit in known:
        answer.words[edit], other.words[edit] = other.words[edit], answer.words[edit]
    elif edit == "roles":
        giver, receiver = answer.words["giver"], answer.words["receiver"]
        answer.words.update(giver=receiver, receiver=giver)
    if edit == "denial":
        answer = answer._replace(is_denied=True)
    elif has_denial:
        other = other._replace(is_denied=True)
    facts = shuffle([answer, other, *rest], randbelow)
    return " ".join(write_fact(one, randbelow) for one in facts)

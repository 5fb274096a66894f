"""Generated corpus `claims`: entailment, contradiction or neutral.

    Ulla gave the green bell to Said. Kim did not give the cap to Leo. Someone got the map from Eva.

    Said got the green bell from Ulla.  entailment
    Ulla got the bell from Said.        contradiction
    Leo got the cap from Kim.           contradiction
    Leo got the cap from Said.          neutral
    Eva did not give the map to Kim.    neutral

A premise states facts about gifts and numbers of things; some are denied or have an unknown part.
`worlds.py` defines what follows from them. A hypothesis is a claim about one of the facts: as it
is, with an unknown part made up, with the roles of both people exchanged, or with a person, the
colour or the number replaced by another one of the premise. Half of the hypotheses are denied.

No text alone and no word counts of both are informative. A premise is sampled before its label, and
every label is possible for each premise. Each name, colour, number and item occurs exactly once in
a premise, and a hypothesis contains only words of its premise: two people, an item and possibly a
colour of a gift, or a person, a number and an item. Within these kinds, all words have the same
probability for each label. So every classifier that depends only on the words of the premise, those
of the hypothesis, and those that both share or not, has an accuracy of one third.
"""

from __future__ import annotations

from attention_zoo.data.synthetic.sampling import choose
from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import Candidate, PartRange, sample_corpus
from attention_zoo.data.synthetic.worlds import SLOTS, Fact, WordSampler, evaluate_claim, write_fact
from attention_zoo.data.text.labelled_pairs import LabelledPairs
from attention_zoo.ops.arguments import whole_number

MIN_FACTS, MAX_FACTS = 2, 8  # range of the number of facts outside of `long`

LABELS = {"contradiction": False, "entailment": True, "neutral": None}
"""Whether the hypothesis is true, for each class; None if it is not determined."""


def generate_claims(
    size: int, split: str = "train", seed: int = 1, min_facts: int = 2, max_facts: int = 6
) -> LabelledPairs:
    """Generate premises, all different, each with a hypothesis and its label.

    Args:
        size: number of pairs; a corpus of size n is a prefix of any larger one.
        split: "train", "validation" or "test" with min_facts to max_facts facts a premise, or
            "long" with max_facts + 1 to 2 * max_facts.
        seed: seed of the corpus.
        min_facts: minimum number of facts of a premise; at least 2.
        max_facts: maximum number of facts of a premise outside of "long"; at most 8.

    Returns:
        The pairs, with the labels "contradiction", "entailment" and "neutral".

    Example:
        >>> from attention_zoo.data import generate_claims
        >>> generate_claims(50).known_classes
        ('contradiction', 'entailment', 'neutral')

    Raises:
        ValueError: a size below 1, an unknown split, an invalid range of the number of facts.
    """
    whole_number("min_facts", min_facts, MIN_FACTS)

    def sample(count: int, randbelow: RandomBelow) -> Candidate:
        facts, kinds = _sample_facts(count, randbelow)
        premise = " ".join(write_fact(fact, randbelow) for fact in facts)
        return premise, lambda: (premise, _sample_hypothesis(facts, kinds, randbelow))

    part_range = PartRange("facts", min_facts, max_facts, limit=MAX_FACTS)
    pairs = sample_corpus("claims", split, seed, size, part_range, sample)
    hypotheses, labels = zip(*pairs.values(), strict=True)
    origin = f"claims {split} (seed {seed})"
    return LabelledPairs(list(pairs), list(hypotheses), list(labels), None, None, origin)


def _sample_facts(count: int, randbelow: RandomBelow) -> tuple[list[Fact], list[str]]:
    """Sample the facts of a premise, and the kinds of facts with claims of all labels."""
    kinds: list[str] = []
    while not kinds:
        words = WordSampler(randbelow)
        facts = [
            _sample_fact(choose(list(SLOTS), randbelow), words, randbelow) for _ in range(count)
        ]
        kinds = [kind for kind in SLOTS if _has_all_labels([f for f in facts if f.kind == kind])]
    return facts, kinds


def _sample_fact(kind: str, words: WordSampler, randbelow: RandomBelow) -> Fact:
    """Sample a fact: one in four is denied, and one in four has an unknown person or number.

    One in four gifts has no colour.
    """
    fact = words.sample_fact(kind)
    status = randbelow(4)
    if status == 0:
        fact = fact._replace(is_denied=True)
    elif status == 1:
        fact.words[choose(list(SLOTS[kind])[:2], randbelow)] = None
    if kind == "gift" and randbelow(4) == 0:
        fact.words["colour"] = None
    return fact


def _has_all_labels(facts: list[Fact]) -> bool:
    """Return whether facts of one kind have true, false and undetermined claims.

    True: a fact that is not denied and has no unknown part. False: its claim with exchanged roles,
    or with another number. Undetermined: for gifts, another fact, which is denied or has an unknown
    person; for holdings, a claim about another owner.
    """
    is_known = [None not in fact.words.values() and not fact.is_denied for fact in facts]
    if not any(is_known):
        return False
    if facts[0].kind == "gift":
        return any(f.is_denied or None in (f.words["giver"], f.words["receiver"]) for f in facts)
    return sum(fact.words["number"] is not None for fact in facts) >= 2


def _sample_hypothesis(
    facts: list[Fact], kinds: list[str], randbelow: RandomBelow
) -> tuple[str, str]:
    """Sample a hypothesis and its label; its kind and its form are independent of the label."""
    label, kind = choose(list(LABELS), randbelow), choose(kinds, randbelow)
    is_denied, has_colour = randbelow(2) == 1, randbelow(2) == 1
    wanted = LABELS[label]
    if is_denied and wanted is not None:
        wanted = not wanted
    facts = [fact for fact in facts if fact.kind == kind]
    slots = [slot for slot in SLOTS[kind] if has_colour or slot != "colour"]
    while True:
        fact = choose(facts, randbelow)
        claim = _sample_claim(fact, facts, slots, randbelow)
        if claim is not None and evaluate_claim(fact, claim) == wanted:
            return write_fact(claim._replace(is_denied=is_denied), randbelow), label


def _sample_claim(
    fact: Fact, facts: list[Fact], slots: list[str], randbelow: RandomBelow
) -> Fact | None:
    """Sample a claim about the item of a fact.

    At most one slot is replaced, or the roles of giver and receiver are exchanged. Unknown words
    are replaced by other words of the facts. Returns None if there is no other word.
    """
    words = {slot: fact.words[slot] for slot in slots}
    edits = ["none", *(slot for slot in slots if slot != "item")]
    edits += ["roles"] if fact.kind == "gift" else []
    edit = choose(edits, randbelow)
    for slot in slots:
        if slot == edit or words[slot] is None:
            kinds = SLOTS[fact.kind]
            known = [
                f.words[other] for f in facts for other in kinds if kinds[other] == kinds[slot]
            ]
            others = [word for word in known if word not in (None, *words.values())]
            if not others:
                return None
            words[slot] = choose(others, randbelow)
    if edit == "roles":
        words["giver"], words["receiver"] = words["receiver"], words["giver"]
    return Fact(fact.kind, words)

"""Generated corpus `orders`: sequence labeling with dependencies between both ends of a sentence.

    return 812 : Ida Lamp , 12 Mill Lane , York and Omar Rose , 3 Kettle Road , Leeds ; two dozen
    red kettles ; 4 lamps , the other way round .

Quantities and items can be tagged from the words beside them, although names, streets and items
share words and numbers. The sender and the receiver cannot be tagged from nearby words: in an
order, the first party is the receiver; in a return, it is the sender; and "the other way round" at
the very end swaps the roles. Both ends of the sentence are needed, however many items are between
them. Sentences of the split `long` have up to twice as many items as those of training.

The split of a sentence is determined by a hash of its text. No sentence is ever in two splits,
whatever the sizes and seeds.
"""

from __future__ import annotations

import json
from importlib.resources import files

from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import Candidate, PartRange, sample_corpus
from attention_zoo.data.text.tagged import TaggedSentences

MAX_ITEMS = 20  # maximum number of items outside of `long`

WORDS: dict[str, list[str]] = json.loads((files(__package__) / "orders.json").read_text("utf-8"))
"""Words of the sentences by kind of word."""

Span = tuple[str, str]  # words, and their label: "" for none


def generate_orders(
    size: int, split: str = "train", seed: int = 1, min_items: int = 1, max_items: int = 6
) -> TaggedSentences:
    """Generate sentences, all different, with BIO tags of QUANTITY, ITEM, SENDER and RECEIVER.

    Args:
        size: number of sentences; a corpus of size n is a prefix of any larger one.
        split: "train", "validation" or "test" with min_items to max_items items a sentence, or
            "long" with max_items + 1 to 2 * max_items.
        seed: seed of the corpus.
        min_items: minimum number of items in a sentence.
        max_items: maximum number of items in a sentence outside of "long"; at most 20.

    Raises:
        ValueError: a size below 1, an unknown split, an invalid range of the number of items.
    """

    def sample(items: int, randbelow: RandomBelow) -> Candidate:
        spans = _sample_spans(items, randbelow)
        text = " ".join(words for words, _ in spans)
        return text, lambda: (text, spans)

    part_range = PartRange("items", min_items, max_items, limit=MAX_ITEMS)
    spans_by_text = sample_corpus("orders", split, seed, size, part_range, sample)
    words = [tuple(text.split(" ")) for text in spans_by_text]
    tags = [_tag_words(spans) for spans in spans_by_text.values()]
    return TaggedSentences(words, tags, f"orders {split} (seed {seed})")


def _sample_spans(items: int, randbelow: RandomBelow) -> list[Span]:
    """Sample one sentence as spans."""

    def choose(kind: str) -> str:
        return WORDS[kind][randbelow(len(WORDS[kind]))]

    def sample_party() -> str:
        street = f"{1 + randbelow(99)} {choose('street')} {choose('street_type')}"
        return f"{choose('first_name')} {choose('last_name')} , {street} , {choose('city')}"

    is_return, is_reversed = randbelow(2) == 1, randbelow(2) == 1
    roles = ["SENDER", "RECEIVER"] if is_return != is_reversed else ["RECEIVER", "SENDER"]
    spans = [(f"{'return' if is_return else 'order'} {100 + randbelow(900)} :", "")]
    spans += [(sample_party(), roles[0]), ("and", ""), (sample_party(), roles[1])]
    for _ in range(items):
        quantity = str(2 + randbelow(98)) if randbelow(2) else choose("quantity")
        item = f"{choose('colour')} {choose('item')}" if randbelow(2) else choose("item")
        spans += [(";", ""), (quantity, "QUANTITY"), (item, "ITEM")]
    return [*spans, (", the other way round ." if is_reversed else ".", "")]


def _tag_words(spans: list[Span]) -> tuple[str, ...]:
    """Return the BIO tags of the words of the spans."""
    tags: list[str] = []
    for text, label in spans:
        num_words = text.count(" ") + 1
        tags += [f"B-{label}", *[f"I-{label}"] * (num_words - 1)] if label else ["O"] * num_words
    return tuple(tags)

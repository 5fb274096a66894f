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

from attention_zoo.data.synthetic.slots import Pick
from attention_zoo.data.synthetic.splits import Drawn, Parts, draw_sentences
from attention_zoo.data.text.tagged import TaggedSentences

MOST = 20  # maximum number of items outside of `long`

FIRST = [
    "Ada",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gus",
    "Ida",
    "Jon",
    "Kim",
    "Lea",
    "Max",
    "Nina",
    "Omar",
    "Pia",
    "Rosa",
    "Sam",
    "Tess",
]
LAST = [
    "Bell",
    "Berg",
    "Bowl",
    "Cook",
    "Cruz",
    "Diaz",
    "Hill",
    "Kahn",
    "Lamp",
    "Lane",
    "Moss",
    "Pott",
    "Reed",
    "Rose",
    "Stone",
    "Wood",
]
STREETS = [
    "Bell",
    "Cook",
    "Hill",
    "Kettle",
    "Lamp",
    "Mill",
    "Moss",
    "Oak",
    "Park",
    "Rose",
    "Stone",
    "Wood",
]
WAYS = ("Lane", "Road", "Street", "Hill", "Square")
CITIES = ("York", "Leeds", "Bath", "Ely", "Reading", "New Ross", "Stone", "Old Mill", "Hull")
COLOURS = ("red", "blue", "green", "plain", "dark red", "light blue", "black")
ITEMS = [
    "bells",
    "bowls",
    "chairs",
    "clocks",
    "kettles",
    "lamps",
    "mills",
    "pots",
    "roses",
    "stones",
    "tables",
]
MANY = ("two", "five", "a dozen", "two dozen", "half a dozen", "ten", "a hundred")

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

    def draw(items: int, pick: Pick) -> Drawn:
        spans = _draw(items, pick)
        text = " ".join(words for words, _ in spans)
        return text, lambda: (text, spans)

    parts = Parts("items", min_items, max_items, limit=MOST)
    found = draw_sentences("orders", split, seed, size, parts, draw)
    tagged = [_tagged(spans) for spans in found.values()]
    origin = f"orders {split} (seed {seed})"
    return TaggedSentences([words for words, _ in tagged], [tags for _, tags in tagged], origin)


def _draw(items: int, pick: Pick) -> list[Span]:
    """Sample one sentence as spans."""

    def one(choices: tuple[str, ...] | list[str]) -> str:
        return choices[pick(len(choices))]

    def party() -> str:
        street = f"{1 + pick(99)} {one(STREETS)} {one(WAYS)}"
        return f"{one(FIRST)} {one(LAST)} , {street} , {one(CITIES)}"

    sent_back, turned = pick(2) == 1, pick(2) == 1
    roles = ["SENDER", "RECEIVER"] if sent_back != turned else ["RECEIVER", "SENDER"]
    spans = [(f"{'return' if sent_back else 'order'} {100 + pick(900)} :", "")]
    spans += [(party(), roles[0]), ("and", ""), (party(), roles[1])]
    for _ in range(items):
        many = str(2 + pick(98)) if pick(2) else one(MANY)
        item = f"{one(COLOURS)} {one(ITEMS)}" if pick(2) else one(ITEMS)
        spans += [(";", ""), (many, "QUANTITY"), (item, "ITEM")]
    return [*spans, (", the other way round ." if turned else ".", "")]


def _tagged(spans: list[Span]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the spans and their BIO tags."""
    words: list[str] = []
    tags: list[str] = []
    for text, kind in spans:
        inside = text.split(" ")
        words += inside
        tags += [f"B-{kind}", *[f"I-{kind}"] * (len(inside) - 1)] if kind else ["O"] * len(inside)
    return tuple(words), tuple(tags)

"""The generated corpus `orders`: who sends what to whom, as the two ends of a sentence say it.

    return 812 : Ida Lamp , 12 Mill Lane , York and Omar Rose , 3 Kettle Road , Leeds ; two dozen
    red kettles ; 4 lamps , the other way round .

Quantities and items are told by the words beside them, although names, streets and items share
words and numbers. Which of the two parties is the sender is told by nothing near them: in an order
the first one receives, in a return the first one sends, and "the other way round" at the very end
turns this about. Both ends have to be read, however many items stand between; in the split `long`
there are up to twice as many as in training.

Splits are told apart by a hash of the sentence: none is ever in two of them, whatever the sizes and
seeds.
"""

from __future__ import annotations

from attention_zoo.data.slots import Pick
from attention_zoo.data.splits import Drawn, Parts, draw_sentences
from attention_zoo.data.tagged import TaggedSentences

MOST = 20  # items, of a sentence outside of `long`

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
CITIES = ("York", "Leeds", "Bath", "Ely", "DecoderStart", "New Ross", "Stone", "Old Mill", "Hull")
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

Span = tuple[str, str]  # words, and what they are: "" for nothing


def generate_orders(
    size: int, split: str = "train", seed: int = 1, min_items: int = 1, max_items: int = 6
) -> TaggedSentences:
    """Sentences, all different, with BIO tags of QUANTITY, ITEM, SENDER and RECEIVER.

    Args:
        size: how many sentences; the first n of a larger corpus are the corpus of size n.
        split: "train", "validation" or "test" with min_items to max_items items a sentence, or
            "long" with max_items + 1 to 2 * max_items.
        seed: of the corpus.
        min_items: the fewest items of a sentence.
        max_items: the most items of a sentence outside of "long"; at most 20.

    Raises:
        ValueError: a size below 1, an unknown split, or numbers of items that are none.
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
    """One sentence, in spans."""

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
    """Words and their tags."""
    words: list[str] = []
    tags: list[str] = []
    for text, kind in spans:
        inside = text.split(" ")
        words += inside
        tags += [f"B-{kind}", *[f"I-{kind}"] * (len(inside) - 1)] if kind else ["O"] * len(inside)
    return tuple(words), tuple(tags)

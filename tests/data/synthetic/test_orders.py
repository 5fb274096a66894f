"""The corpus `orders`: the same everywhere, apart in its splits, and decided by its two ends."""

from __future__ import annotations

import hashlib

from attention_zoo.data.synthetic.orders import generate_orders
from attention_zoo.data.synthetic.splits import SPLITS
from tests.refusals import refuses


def parties(words: tuple[str, ...], tags: tuple[str, ...]) -> list[str]:
    return [tag[2:] for tag in tags if tag in ("B-SENDER", "B-RECEIVER")]


def test_both_ends_decide_who_sends() -> None:
    corpus = generate_orders(400, seed=2)
    seen = set()
    for words, tags in zip(corpus.words, corpus.tags, strict=True):
        turned = words[-2:] == ("round", ".")
        first = "SENDER" if (words[0] == "return") != turned else "RECEIVER"
        assert parties(words, tags)[0] == first
        assert sorted(parties(words, tags)) == ["RECEIVER", "SENDER"]
        seen.add((words[0], turned))
    assert len(seen) == 4


def test_tags_are_bio_and_items_are_as_many_as_asked() -> None:
    for split, low, high in (("train", 2, 3), ("test", 2, 3), ("long", 4, 6)):
        corpus = generate_orders(100, split, min_items=2, max_items=3)
        counts = set()
        for tags in corpus.tags:
            for before, tag in zip(("O", *tags), tags, strict=False):
                assert not tag.startswith("I-") or before[2:] == tag[2:]
            assert tags.count("B-ITEM") == tags.count("B-QUANTITY")
            counts.add(tags.count("B-ITEM"))
        assert counts == set(range(low, high + 1))
    kinds = ("ITEM", "QUANTITY", "RECEIVER", "SENDER")
    wanted = ["O", *(f"{place}-{kind}" for place in "BI" for kind in kinds)]
    assert corpus.known_tags == sorted(wanted)


def test_words_alone_tell_nothing() -> None:
    """Names, streets, cities and items share words, and numbers stand before both."""
    corpus = generate_orders(2000)
    tags_of: dict[str, set[str]] = {}
    for words, tags in zip(corpus.words, corpus.tags, strict=True):
        for word, tag in zip(words, tags, strict=True):
            tags_of.setdefault(word, set()).add(tag[2:] or tag)
    assert tags_of["12"] >= {"QUANTITY", "SENDER", "RECEIVER"}
    assert tags_of["Stone"] == {"SENDER", "RECEIVER"}
    assert tags_of[","] == {"O", "SENDER", "RECEIVER"}


def test_it_never_changes() -> None:
    """The corpus is part of published results: it may not change unnoticed."""
    corpus = generate_orders(50, "test", seed=3)
    text = repr((corpus.words, corpus.tags)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "cd7bf6a301503fb6"
    longer = generate_orders(80, "test", seed=3)
    assert longer.words[:50] == corpus.words
    assert corpus.origin == "orders test (seed 3)"
    assert generate_orders(50, "test", seed=4).words != corpus.words


def test_no_sentence_is_in_two_splits() -> None:
    found = [set(generate_orders(300, split, max_items=2).words) for split in SPLITS]
    assert [len(one) for one in found] == [300] * 4
    assert not found[0] & found[1]
    assert len(set.union(*found)) == 1200


@refuses(
    ({"split": "tes"}, "orders: unknown split 'tes'; did you mean 'test'"),
    ({"size": 0}, "size must be an integer of at least 1, got 0"),
    ({"min_items": 0}, "min_items=0, max_items=6: expected 1 <= min_items <= max_items <= 20"),
    ({"max_items": 21}, "max_items=21"),
    ({"min_items": 4, "max_items": 3}, "min_items=4, max_items=3"),
)
def test_what_is_refused(options: dict) -> None:
    generate_orders(**{"size": 1, **options})

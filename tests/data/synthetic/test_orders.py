"""The corpus `orders`: deterministic, with disjoint splits and roles that both ends determine."""

from __future__ import annotations

import hashlib

from attention_zoo.data.synthetic.orders import generate_orders
from attention_zoo.data.synthetic.splits import SPLITS
from tests.refusals import refuses


def find_parties(words: tuple[str, ...], tags: tuple[str, ...]) -> list[str]:
    return [tag[2:] for tag in tags if tag in ("B-SENDER", "B-RECEIVER")]


def test_both_ends_determine_the_sender() -> None:
    corpus = generate_orders(400, seed=2)
    cases = set()
    for words, tags in zip(corpus.words, corpus.tags, strict=True):
        is_reversed = words[-2:] == ("round", ".")
        first = "SENDER" if (words[0] == "return") != is_reversed else "RECEIVER"
        assert find_parties(words, tags)[0] == first
        assert sorted(find_parties(words, tags)) == ["RECEIVER", "SENDER"]
        cases.add((words[0], is_reversed))
    assert len(cases) == 4


def test_tags_are_bio_and_item_counts_in_range() -> None:
    for split, low, high in (("train", 2, 3), ("test", 2, 3), ("long", 4, 6)):
        corpus = generate_orders(100, split, min_items=2, max_items=3)
        counts = set()
        for tags in corpus.tags:
            for previous, tag in zip(("O", *tags), tags, strict=False):
                assert not tag.startswith("I-") or previous[2:] == tag[2:]
            assert tags.count("B-ITEM") == tags.count("B-QUANTITY")
            counts.add(tags.count("B-ITEM"))
        assert counts == set(range(low, high + 1))
    kinds = ("ITEM", "QUANTITY", "RECEIVER", "SENDER")
    expected = ["O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in kinds)]
    assert corpus.known_tags == sorted(expected)


def test_words_alone_do_not_determine_tags() -> None:
    """Names, streets, cities and items share words; numbers precede streets and items."""
    corpus = generate_orders(2000)
    tags_by_word: dict[str, set[str]] = {}
    for words, tags in zip(corpus.words, corpus.tags, strict=True):
        for word, tag in zip(words, tags, strict=True):
            tags_by_word.setdefault(word, set()).add(tag[2:] or tag)
    assert tags_by_word["12"] >= {"QUANTITY", "SENDER", "RECEIVER"}
    assert tags_by_word["Stone"] == {"SENDER", "RECEIVER"}
    assert tags_by_word[","] == {"O", "SENDER", "RECEIVER"}


def test_corpus_does_not_change() -> None:
    """Published results depend on the corpus."""
    corpus = generate_orders(50, "test", seed=3)
    text = repr((corpus.words, corpus.tags)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "cd7bf6a301503fb6"
    longer = generate_orders(80, "test", seed=3)
    assert longer.words[:50] == corpus.words
    assert corpus.origin == "orders test (seed 3)"
    assert generate_orders(50, "test", seed=4).words != corpus.words


def test_splits_are_disjoint() -> None:
    words_by_split = [set(generate_orders(300, split, max_items=2).words) for split in SPLITS]
    assert [len(one) for one in words_by_split] == [300] * 4
    assert not words_by_split[0] & words_by_split[1]
    assert len(set.union(*words_by_split)) == 1200


@refuses(
    ({"split": "tes"}, "orders: unknown split 'tes'; did you mean 'test'"),
    ({"size": 0}, "size must be at least 1, got 0"),
    ({"min_items": 0}, "expected 1 <= min_items <= max_items <= 20, got min_items=0, max_items=6"),
    ({"max_items": 21}, "max_items=21"),
    ({"min_items": 4, "max_items": 3}, "min_items=4, max_items=3"),
)
def test_invalid_options_raise(options: dict) -> None:
    generate_orders(**{"size": 1, **options})

"""Choices and permutations of generated corpora."""

from __future__ import annotations

from collections import Counter

from attention_zoo.data.synthetic.sampling import choose, shuffle
from attention_zoo.data.synthetic.splits import make_randbelow


def test_choices_and_orders_have_equal_probability() -> None:
    randbelow = make_randbelow("test")
    items = ["a", "b", "c"]
    choices = Counter(choose(items, randbelow) for _ in range(3000))
    orders = Counter("".join(shuffle(items, randbelow)) for _ in range(6000))
    assert set(choices) == set(items)
    assert set(orders) == {"abc", "acb", "bac", "bca", "cab", "cba"}
    assert all(900 < count < 1100 for count in (*choices.values(), *orders.values()))
    assert items == ["a", "b", "c"]

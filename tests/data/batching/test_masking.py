"""What is hidden is a function of seed, pass and line, in the shares of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.data import Marks, MaskedBatches
from tests.refusals import refuses

MARKS = Marks(start=2, end=3, mask=50, others=np.arange(4, 50))
RNG = np.random.default_rng(0)
LINES = [RNG.integers(4, 50, size=n).tolist() for n in RNG.integers(1, 30, size=60)]


def batches(seed: int = 1, **options: int) -> MaskedBatches:
    return MaskedBatches(LINES, MARKS, **{"batch_size": 8, "seed": seed, **options})


def test_a_line_is_there_but_for_what_is_hidden() -> None:
    made = batches()
    for step in range(made.steps_per_pass):
        inputs, labels = made.at(step)
        tokens = inputs["tokens"]
        assert tokens.dtype == labels.dtype == np.int32
        assert tokens.shape == labels.shape
        assert tokens.shape[1] % 4 == 0
        want = [[2, *LINES[row], 3] for row in made.rows(step)]
        originals = np.where(labels, labels, tokens)
        assert [[int(i) for i in row if i] for row in originals] == want
        assert not labels[tokens == 2].any()
        assert (tokens[labels == 0] != MARKS.mask).all()
        counts = (labels != 0).sum(axis=1)
        assert counts.tolist() == [max(1, round(0.15 * (len(line) - 2))) for line in want]


def test_shares_are_those_of_the_paper() -> None:
    lines = [RNG.integers(4, 50, size=100).tolist() for _ in range(200)]
    made = MaskedBatches(lines, MARKS, batch_size=200, seed=3)
    inputs, labels = made.batch(np.arange(200))
    told, now = labels[labels != 0], inputs["tokens"][labels != 0]
    assert len(told) == 200 * 15
    assert np.mean(now == MARKS.mask) == pytest.approx(0.8, abs=0.02)
    stays = np.mean(now == told)
    assert stays == pytest.approx(0.1 + 0.1 / 46, abs=0.02)
    replaced = now[(now != told) & (now != MARKS.mask)]
    assert set(replaced.tolist()) == set(range(4, 50))
    assert np.std(np.argwhere(labels != 0)[:, 1]) == pytest.approx(100 / 12**0.5, rel=0.05)


def test_masks_are_a_function_of_seed_pass_and_line() -> None:
    one, again, other = batches(), batches(), batches(seed=2)
    steps = one.steps_per_pass
    for step in (0, 3, steps + 3):
        for a, b in zip((one.at(step)[0]["tokens"], one.at(step)[1]), again.at(step), strict=True):
            np.testing.assert_array_equal(a, b["tokens"] if isinstance(b, dict) else b)
    rows = np.arange(8)
    turns = [one.masked(rows, turn)[1] for turn in (0, 1, 2)]
    assert not (turns[0] == turns[1]).all()
    assert not (turns[1] == turns[2]).all()
    assert not (other.masked(rows, 1)[1] == turns[1]).all()
    alone = one.masked(rows[3:4], 1)[1][0]
    together = turns[1][3]
    np.testing.assert_array_equal(alone[alone != 0], together[together != 0])
    number = next(step for step in range(steps) if 5 in one.rows(step))
    place = one.rows(number).tolist().index(5)
    first = one.at(number)[1][place]
    assert first[first != 0].tolist() == [i for i in one.masked(np.array([5]), 1)[1][0] if i]


def test_everything_may_be_hidden() -> None:
    made = MaskedBatches(LINES, MARKS, batch_size=8, seed=1, rate=1.0)
    _, labels = made.at(0)
    assert (labels != 0).sum() == sum(len(LINES[row]) for row in made.rows(0))


@refuses(
    ([], {}, "no lines to make batches of"),
    (LINES, {"rate": 0.0}, "rate must be above 0 and at most 1"),
    (LINES, {"rate": 1.5}, "rate must be above 0 and at most 1"),
    ([[4], []], {}, "line 1 is empty"),
)
def test_mistakes(lines: list, options: dict) -> None:
    MaskedBatches(lines, MARKS, **{"batch_size": 8, "seed": 1, **options})

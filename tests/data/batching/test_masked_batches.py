"""Batches for masked language modeling: masking by seed, epoch and line."""

from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.data import MaskedBatches, MaskingIds
from tests.refusals import refuses

IDS = MaskingIds(start=2, end=3, mask=50, replacements=np.arange(4, 50))
RNG = np.random.default_rng(0)
LINES = [RNG.integers(4, 50, size=n).tolist() for n in RNG.integers(1, 30, size=60)]


def make_batches(seed: int = 1, **options: int) -> MaskedBatches:
    return MaskedBatches(LINES, IDS, **{"batch_size": 8, "seed": seed, **options})


def test_unselected_tokens_are_unchanged() -> None:
    batches = make_batches()
    for step in range(batches.steps_per_epoch):
        inputs, labels = batches.get_batch(step)
        tokens = inputs["tokens"]
        assert tokens.dtype == labels.dtype == np.int32
        assert tokens.shape == labels.shape
        assert tokens.shape[1] % 4 == 0
        expected = [[2, *LINES[row], 3] for row in batches.get_rows(step)]
        originals = np.where(labels, labels, tokens)
        assert [[int(i) for i in row if i] for row in originals] == expected
        assert not labels[tokens == 2].any()
        assert (tokens[labels == 0] != IDS.mask).all()
        counts = (labels != 0).sum(axis=1)
        assert counts.tolist() == [max(1, round(0.15 * (len(line) - 2))) for line in expected]


def test_fractions_equal_those_of_bert() -> None:
    lines = [RNG.integers(4, 50, size=100).tolist() for _ in range(200)]
    batches = MaskedBatches(lines, IDS, batch_size=200, seed=3)
    inputs, labels = batches.make_batch(np.arange(200))
    original_tokens, input_tokens = labels[labels != 0], inputs["tokens"][labels != 0]
    assert len(original_tokens) == 200 * 15
    assert np.mean(input_tokens == IDS.mask) == pytest.approx(0.8, abs=0.02)
    unchanged_share = np.mean(input_tokens == original_tokens)
    assert unchanged_share == pytest.approx(0.1 + 0.1 / 46, abs=0.02)
    replaced = input_tokens[(input_tokens != original_tokens) & (input_tokens != IDS.mask)]
    assert set(replaced.tolist()) == set(range(4, 50))
    assert np.std(np.argwhere(labels != 0)[:, 1]) == pytest.approx(100 / 12**0.5, rel=0.05)


def test_masking_depends_on_seed_epoch_and_line_only() -> None:
    one, again, other = make_batches(), make_batches(), make_batches(seed=2)
    steps = one.steps_per_epoch
    for step in (0, 3, steps + 3):
        for a, b in zip(
            (one.get_batch(step)[0]["tokens"], one.get_batch(step)[1]),
            again.get_batch(step),
            strict=True,
        ):
            np.testing.assert_array_equal(a, b["tokens"] if isinstance(b, dict) else b)
    rows = np.arange(8)
    labels_by_epoch = [one.mask_lines(rows, epoch)[1] for epoch in (0, 1, 2)]
    assert not (labels_by_epoch[0] == labels_by_epoch[1]).all()
    assert not (labels_by_epoch[1] == labels_by_epoch[2]).all()
    assert not (other.mask_lines(rows, 1)[1] == labels_by_epoch[1]).all()
    single_labels = one.mask_lines(rows[3:4], 1)[1][0]
    batch_labels = labels_by_epoch[1][3]
    np.testing.assert_array_equal(
        single_labels[single_labels != 0], batch_labels[batch_labels != 0]
    )
    step = next(step for step in range(steps) if 5 in one.get_rows(step))
    index = one.get_rows(step).tolist().index(5)
    labels = one.get_batch(step)[1][index]
    assert labels[labels != 0].tolist() == [i for i in one.mask_lines(np.array([5]), 1)[1][0] if i]


def test_rate_of_one_selects_all_tokens() -> None:
    batches = MaskedBatches(LINES, IDS, batch_size=8, seed=1, rate=1.0)
    _, labels = batches.get_batch(0)
    assert (labels != 0).sum() == sum(len(LINES[row]) for row in batches.get_rows(0))


@refuses(
    ([], {}, "cannot make batches: there are no examples"),
    (LINES, {"rate": 0.0}, "rate must be above 0 and at most 1"),
    (LINES, {"rate": 1.5}, "rate must be above 0 and at most 1"),
    ([[4], []], {}, "line 2 is empty"),
)
def test_invalid_arguments_raise(lines: list, options: dict) -> None:
    MaskedBatches(lines, IDS, **{"batch_size": 8, "seed": 1, **options})

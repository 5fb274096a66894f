from __future__ import annotations

import itertools

import numpy as np
import pytest
from keras import ops

from attention_zoo.ops.mask_pattern import BlockIterator, MaskPattern
from tests.layers.running import array

REACHES = [
    MaskPattern(),
    MaskPattern(causal=True),
    *(
        MaskPattern(causal, window, leading)
        for causal, window, leading in itertools.product((False, True), (0, 1, 3, 20), (0, 2, 5))
    ),
]


def by_hand(reach: MaskPattern, steps: int, sources: int) -> np.ndarray:
    seen = np.ones((steps, sources), "bool")
    for t, s in itertools.product(range(steps), range(sources)):
        if reach.window is not None:
            seen[t, s] = abs(s - t) <= reach.window or min(s, t) < reach.leading
        seen[t, s] &= not reach.causal or s <= t
    return seen


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_mask(reach: MaskPattern) -> None:
    mask = reach.mask(ops.arange(9), ops.arange(12))
    want = by_hand(reach, 9, 12)
    assert (np.ones((9, 12), "bool") if mask is None else array(mask)).tolist() == want.tolist()
    assert (mask is None) == (reach == MaskPattern())


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_excluded_blocks_are_skipped(reach: MaskPattern) -> None:
    """Each block with a visible position once, in order; one block for a row without any."""
    for steps, sources in ((12, 12), (8, 16), (16, 4), (24, 4)):
        walk = BlockIterator(reach, 4, steps // 4, sources // 4)
        pair, visited = walk.first(), []
        while bool(walk.going(pair)):
            visited.append((int(pair[0]), int(pair[1])))
            assert len(visited) < 100
            pair = walk.next(pair)
        blocks = by_hand(reach, steps, sources).reshape(steps // 4, 4, -1, 4).any((1, 3))
        blocks[~blocks.any(1), -1] = True
        assert visited == [(int(i), int(j)) for i, j in np.argwhere(blocks)]

from __future__ import annotations

import itertools

import numpy as np
import pytest
from keras import ops

from attention_zoo.ops.mask_pattern import BlockIterator, MaskPattern
from tests.layers.running import array

PATTERNS = [
    MaskPattern(),
    MaskPattern(causal=True),
    *(
        MaskPattern(causal, window, leading)
        for causal, window, leading in itertools.product((False, True), (0, 1, 3, 20), (0, 2, 5))
    ),
]


def make_expected_mask(pattern: MaskPattern, steps: int, sources: int) -> np.ndarray:
    visible = np.ones((steps, sources), "bool")
    for t, s in itertools.product(range(steps), range(sources)):
        if pattern.window is not None:
            visible[t, s] = abs(s - t) <= pattern.window or min(s, t) < pattern.leading
        visible[t, s] &= not pattern.causal or s <= t
    return visible


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_mask(pattern: MaskPattern) -> None:
    mask = pattern.mask(ops.arange(9), ops.arange(12))
    expected = make_expected_mask(pattern, 9, 12)
    assert (np.ones((9, 12), "bool") if mask is None else array(mask)).tolist() == expected.tolist()
    assert (mask is None) == (pattern == MaskPattern())


def test_block_size_and_skipped_blocks() -> None:
    assert MaskPattern().block_size == 256
    assert not MaskPattern(causal=True).skips_blocks(10**6)
    for window, leading, size, longest in (
        (8, 0, 64, 192),
        (64, 0, 64, 192),
        (100, 0, 100, 300),
        (64, 5, 64, 256),
        (300, 0, 256, 1280),
    ):
        pattern = MaskPattern(False, window, leading)
        assert pattern.block_size == size
        assert not pattern.skips_blocks(longest)
        assert pattern.skips_blocks(longest + 1)


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_excluded_blocks_are_skipped(pattern: MaskPattern) -> None:
    """Each block with a visible position once, in order; one block for a row without any."""
    for steps, sources in ((12, 12), (8, 16), (16, 4), (24, 4)):
        walk = BlockIterator(pattern, 4, steps // 4, sources // 4)
        pair, visited = walk.first(), []
        while bool(walk.is_valid(pair)):
            visited.append((int(pair[0]), int(pair[1])))
            assert len(visited) < 100
            pair = walk.next(pair)
        blocks = (
            make_expected_mask(pattern, steps, sources).reshape(steps // 4, 4, -1, 4).any((1, 3))
        )
        blocks[~blocks.any(1), -1] = True
        assert visited == [(int(i), int(j)) for i, j in np.argwhere(blocks)]

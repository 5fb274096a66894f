from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo import ops as zoo_ops
from tests.layers.running import (
    MODES,
    array,
    arrays,
    compiled,
    needs_dynamic_shapes,
    quick,
    same,
    with_dynamic_shapes,
)
from tests.ops import chain_oracle as oracle

COUNT = 5


def searches(*energies: Any) -> tuple[Any, ...]:
    chain = zoo_ops.make_chain(*energies)
    return *zoo_ops.best_path(chain), *zoo_ops.best_paths(chain, COUNT)


@pytest.mark.parametrize(("mode", "shape"), oracle.CASES, ids=str)
def test_finds_the_best_of_all_sequences(mode: str, shape: tuple[int, int, int]) -> None:
    run = compiled(searches, mode)
    for seed in range(2 if mode == "eager" else 6):
        of = oracle.energies(*shape, seed, forbidden=0.5 * (seed % 2))
        tags, score, several, scores = arrays(run(*of))
        for row in range(shape[0]):
            paths, listed = oracle.every(of, row)
            order = np.argsort(-listed, kind="stable")[:COUNT]
            order = order[np.isfinite(listed[order])]
            wanted = np.full(COUNT, -np.inf)
            wanted[: len(order)] = listed[order]
            np.testing.assert_allclose(scores[row], wanted, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(score[row], wanted[0], rtol=1e-5, atol=1e-5)
            for number, place in enumerate(order):
                want = oracle.spread(paths[place], of.mask[row])
                assert several[row, number].tolist() == want.tolist()
            same(tags[row], several[row, 0])
            assert not several[row, len(order) :].any()


def test_what_is_forbidden_is_never_taken() -> None:
    of = oracle.energies(3, 4, 2)
    emissions = np.zeros_like(of.emissions)
    emissions[..., 1] = 1e6
    transitions = np.array([[0, -np.inf], [-np.inf, -np.inf]], "float32")
    starts = np.array([0, -np.inf], "float32")
    chain = zoo_ops.make_chain(emissions, transitions, starts)
    assert not array(zoo_ops.best_path(chain)[0]).any()
    tags, scores = arrays(zoo_ops.best_paths(chain, 3))
    assert not tags.any()
    assert np.isneginf(scores).tolist() == 3 * [[False, True, True]]
    assert not array(zoo_ops.sample(chain, 20)).any()


def test_where_nothing_is_allowed() -> None:
    chain = zoo_ops.make_chain(
        np.ones((1, 3, 2), "float32"), np.full((2, 2), -np.inf), np.ones(2, "float32")
    )
    tags, score = arrays(zoo_ops.best_path(chain))
    assert (tags.tolist(), score.tolist()) == ([[0, 0, 0]], [-np.inf])
    tags, scores = arrays(zoo_ops.best_paths(chain, 2))
    assert not tags.any()
    assert np.isneginf(scores).all()
    assert not array(zoo_ops.sample(chain, 2)).any()


def test_the_lowest_tag_wins_among_equals() -> None:
    chain = zoo_ops.make_chain(np.zeros((1, 3, 4), "float32"), np.zeros((4, 4), "float32"))
    assert not array(zoo_ops.best_path(chain)[0]).any()


@pytest.mark.parametrize("pads", [1, 40])
@pytest.mark.parametrize("side", ["right", "left"])
def test_pads_cannot_be_seen(side: str, pads: int) -> None:
    of = oracle.energies(4, 6, 3)
    mask = np.ones_like(of.mask)

    def run(emissions: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        chain = zoo_ops.make_chain(emissions, *of[1:4], mask)
        found = zoo_ops.best_path(chain)[0], zoo_ops.best_paths(chain, 3)[0]
        return [array(x) for x in (*found, zoo_ops.sample(chain, 3, seed=4))]

    wanted = run(of.emissions, mask)
    longer, shown = np.full((4, 6 + pads, 3), 9, "float32"), np.zeros((4, 6 + pads), "bool")
    places = slice(0, 6) if side == "right" else slice(pads, None)
    longer[:, places], shown[:, places] = of.emissions, True
    for got, want in zip(run(longer, shown), wanted, strict=True):
        same(got[..., places], want)
        assert got.sum() == want.sum()


def test_draws_are_as_frequent_as_they_are_likely() -> None:
    """20,000 of each sentence: within five standard deviations, sequence by sequence."""
    of = oracle.energies(3, 4, 2, forbidden=0.2)
    count = 20_000
    drawn = array(quick(lambda *x: zoo_ops.sample(zoo_ops.make_chain(*x), count, 1))(*of))
    assert drawn.shape == (3, count, 4)
    for row in range(3):
        mask = of.mask[row]
        paths, scores = oracle.every(of, row)
        assert not drawn[row][:, ~mask].any()
        powers = 2 ** np.arange(mask.sum())
        seen = np.bincount((drawn[row][:, mask] @ powers).astype(int), minlength=len(paths))
        likely = oracle.probabilities(scores)
        frequency = seen[paths @ powers] / count
        bound = 5 * np.sqrt(likely * (1 - likely) / count) + 1e-9
        assert (np.abs(frequency - likely) <= bound).all()


@pytest.mark.parametrize("mode", MODES[1:])
def test_one_seed_draws_one_result(mode: str) -> None:
    of = oracle.energies(3, 5, 4)

    def run(seed: Any, *energies: Any) -> Any:
        return zoo_ops.sample(zoo_ops.make_chain(*energies), 4, seed)

    drawn = compiled(run, mode)
    first = drawn(np.int32(1), *of)
    same(drawn(np.int32(1), *of), first)
    same(run(1, *of), first)
    assert (array(drawn(np.int32(2), *of)) != array(first)).any()
    assert (array(first)[0, 0] != array(first)[0, 1:]).any()
    rows = oracle.Energies(np.repeat(of.emissions[:1], 3, 0), *of[1:4], np.ones((3, 5), "bool"))
    assert (array(drawn(np.int32(1), *rows))[0] != array(drawn(np.int32(1), *rows))[1]).any()


@needs_dynamic_shapes
def test_sizes_that_are_not_known_when_it_is_traced() -> None:
    def run(emissions: Any, transitions: Any, mask: Any) -> Any:
        chain = zoo_ops.make_chain(emissions, transitions, mask=mask)
        return (
            *zoo_ops.best_path(chain),
            *zoo_ops.best_paths(chain, 3),
            zoo_ops.sample(chain, 2, 5),
        )

    unknown = with_dynamic_shapes(run, (None, None, 3), (3, 3), ((None, None), "bool"))
    for shape in ((3, 4, 3), (2, 0, 3), (0, 2, 3)):
        of = oracle.energies(*shape)
        given = of.emissions, of.transitions, of.mask
        for got, want in zip(unknown(*given), run(*given), strict=True):
            np.testing.assert_allclose(array(got), array(want), atol=1e-5)

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


def run_searches(*make_energies: Any) -> tuple[Any, ...]:
    chain = zoo_ops.make_chain(*make_energies)
    return *zoo_ops.best_path(chain), *zoo_ops.best_paths(chain, COUNT)


@pytest.mark.parametrize(("mode", "shape"), oracle.CASES, ids=str)
def test_best_paths_equal_exhaustive_search(mode: str, shape: tuple[int, int, int]) -> None:
    run = compiled(run_searches, mode)
    for seed in range(2 if mode == "eager" else 6):
        energies = oracle.make_energies(*shape, seed, forbidden=0.5 * (seed % 2))
        tags, score, n_best_tags, scores = arrays(run(*energies))
        for row in range(shape[0]):
            paths, path_scores = oracle.list_paths(energies, row)
            order = np.argsort(-path_scores, kind="stable")[:COUNT]
            order = order[np.isfinite(path_scores[order])]
            expected = np.full(COUNT, -np.inf)
            expected[: len(order)] = path_scores[order]
            np.testing.assert_allclose(scores[row], expected, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(score[row], expected[0], rtol=1e-5, atol=1e-5)
            for number, index in enumerate(order):
                want = oracle.place_tags(paths[index], energies.mask[row])
                assert n_best_tags[row, number].tolist() == want.tolist()
            same(tags[row], n_best_tags[row, 0])
            assert not n_best_tags[row, len(order) :].any()


def test_forbidden_sequences_are_never_returned() -> None:
    energies = oracle.make_energies(3, 4, 2)
    emissions = np.zeros_like(energies.emissions)
    emissions[..., 1] = 1e6
    transitions = np.array([[0, -np.inf], [-np.inf, -np.inf]], "float32")
    starts = np.array([0, -np.inf], "float32")
    chain = zoo_ops.make_chain(emissions, transitions, starts)
    assert not array(zoo_ops.best_path(chain)[0]).any()
    tags, scores = arrays(zoo_ops.best_paths(chain, 3))
    assert not tags.any()
    assert np.isneginf(scores).tolist() == 3 * [[False, True, True]]
    assert not array(zoo_ops.sample(chain, 20)).any()


@pytest.mark.parametrize("step", [0, 1, 3])
def test_nan_gives_nan_scores_of_its_sentence(step: int) -> None:
    emissions = np.random.default_rng(0).normal(size=(3, 4, 3)).astype("float32")
    emissions[1, step, 2] = np.nan
    mask = np.ones((3, 4), "bool")
    mask[2, step] = False
    emissions[2, step] = np.nan
    zeros = np.zeros((3, 3), "float32")
    *_, scores = arrays(run_searches(emissions, zeros, None, None, mask))
    assert np.isnan(scores).all(axis=1).tolist() == [False, True, False]
    run = compiled(lambda x: zoo_ops.best_path(zoo_ops.make_chain(x, zeros, mask=mask))[1], "xla")
    assert np.isnan(array(run(emissions))).tolist() == [False, True, False]
    zeros[0, 1] = np.nan
    *_, scores = arrays(run_searches(emissions[:1], zeros))
    assert np.isnan(scores).all()


def test_all_sequences_forbidden() -> None:
    chain = zoo_ops.make_chain(
        np.ones((1, 3, 2), "float32"), np.full((2, 2), -np.inf), np.ones(2, "float32")
    )
    tags, score = arrays(zoo_ops.best_path(chain))
    assert (tags.tolist(), score.tolist()) == ([[0, 0, 0]], [-np.inf])
    tags, scores = arrays(zoo_ops.best_paths(chain, 2))
    assert not tags.any()
    assert np.isneginf(scores).all()
    assert not array(zoo_ops.sample(chain, 2)).any()


def test_ties_go_to_the_lowest_tag() -> None:
    chain = zoo_ops.make_chain(np.zeros((1, 3, 4), "float32"), np.zeros((4, 4), "float32"))
    assert not array(zoo_ops.best_path(chain)[0]).any()


@pytest.mark.parametrize("padding", [1, 40])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_has_no_effect(side: str, padding: int) -> None:
    energies = oracle.make_energies(4, 6, 3)
    mask = np.ones_like(energies.mask)

    def run(emissions: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
        chain = zoo_ops.make_chain(emissions, *energies[1:4], mask)
        tags = zoo_ops.best_path(chain)[0], zoo_ops.best_paths(chain, 3)[0]
        return [array(x) for x in (*tags, zoo_ops.sample(chain, 3, seed=4))]

    expected = run(energies.emissions, mask)
    padded, mask_padded = (
        np.full((4, 6 + padding, 3), 9, "float32"),
        np.zeros((4, 6 + padding), "bool"),
    )
    positions = slice(0, 6) if side == "right" else slice(padding, None)
    padded[:, positions], mask_padded[:, positions] = energies.emissions, True
    for got, want in zip(run(padded, mask_padded), expected, strict=True):
        same(got[..., positions], want)
        assert got.sum() == want.sum()


def test_sample_frequencies_match_probabilities() -> None:
    """20,000 samples per sentence: within five standard deviations for each sequence."""
    energies = oracle.make_energies(3, 4, 2, forbidden=0.2)
    count = 20_000
    samples = array(quick(lambda *x: zoo_ops.sample(zoo_ops.make_chain(*x), count, 1))(*energies))
    assert samples.shape == (3, count, 4)
    for row in range(3):
        mask = energies.mask[row]
        paths, scores = oracle.list_paths(energies, row)
        assert not samples[row][:, ~mask].any()
        powers = 2 ** np.arange(mask.sum())
        counts = np.bincount((samples[row][:, mask] @ powers).astype(int), minlength=len(paths))
        probabilities = oracle.probabilities(scores)
        frequency = counts[paths @ powers] / count
        bound = 5 * np.sqrt(probabilities * (1 - probabilities) / count) + 1e-9
        assert (np.abs(frequency - probabilities) <= bound).all()


@pytest.mark.parametrize("mode", MODES[1:])
def test_samples_depend_on_the_seed(mode: str) -> None:
    energies = oracle.make_energies(3, 5, 4)

    def run(seed: Any, *make_energies: Any) -> Any:
        return zoo_ops.sample(zoo_ops.make_chain(*make_energies), 4, seed)

    samples = compiled(run, mode)
    first = samples(np.int32(1), *energies)
    same(samples(np.int32(1), *energies), first)
    same(run(1, *energies), first)
    assert (array(samples(np.int32(2), *energies)) != array(first)).any()
    assert (array(first)[0, 0] != array(first)[0, 1:]).any()
    rows = oracle.Energies(
        np.repeat(energies.emissions[:1], 3, 0), *energies[1:4], np.ones((3, 5), "bool")
    )
    assert (array(samples(np.int32(1), *rows))[0] != array(samples(np.int32(1), *rows))[1]).any()


@needs_dynamic_shapes
def test_dynamic_shapes() -> None:
    def run(emissions: Any, transitions: Any, mask: Any) -> Any:
        chain = zoo_ops.make_chain(emissions, transitions, mask=mask)
        return (
            *zoo_ops.best_path(chain),
            *zoo_ops.best_paths(chain, 3),
            zoo_ops.sample(chain, 2, 5),
        )

    run_dynamic = with_dynamic_shapes(run, (None, None, 3), (3, 3), ((None, None), "bool"))
    for shape in ((3, 4, 3), (2, 0, 3), (0, 2, 3)):
        energies = oracle.make_energies(*shape)
        inputs = energies.emissions, energies.transitions, energies.mask
        for got, expected in zip(run_dynamic(*inputs), run(*inputs), strict=True):
            np.testing.assert_allclose(array(got), array(expected), atol=1e-5)

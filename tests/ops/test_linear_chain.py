from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.ops.linear_chain import IMPOSSIBLE
from tests.layers.running import (
    MODES,
    WIDE,
    array,
    arrays,
    check_gradients,
    close,
    compiled,
    differentiable,
    double_precision,
    needs_dynamic_shapes,
    same,
    with_dynamic_shapes,
)
from tests.ops import chain_oracle as oracle


def compute_all(*inputs: Any) -> tuple[Any, ...]:
    """Compute all functions of energies, a mask, tags and sets of tags."""
    *make_energies, tags, allowed = inputs
    chain = zoo_ops.make_chain(*make_energies)
    return (
        zoo_ops.log_partition(chain),
        zoo_ops.path_score(chain, tags),
        zoo_ops.partial_score(chain, allowed),
        zoo_ops.marginals(chain),
    )


def compute_total_and_marginals(*inputs: Any) -> tuple[Any, Any]:
    chain = zoo_ops.make_chain(*inputs)
    return zoo_ops.log_partition(chain), zoo_ops.marginals(chain)


def replace_forbidden(x: Any) -> np.ndarray:
    """Replace scores of forbidden sequences by -inf."""
    x = array(x)
    return np.where(x < IMPOSSIBLE, -np.inf, x)


def assert_close(got: Any, want: Any) -> None:
    """Check equality within 1e-5, with -inf for forbidden sequences."""
    np.testing.assert_allclose(replace_forbidden(got), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("mode", "shape"), oracle.CASES, ids=str)
def test_results_equal_sums_over_all_sequences(mode: str, shape: tuple[int, int, int]) -> None:
    run = compiled(compute_all, mode)
    for seed in range(2 if mode == "eager" else 6):
        energies = oracle.make_energies(*shape, seed, forbidden=0.4 * (seed % 2))
        rng = np.random.default_rng(seed)
        tags = rng.integers(0, shape[2], energies.mask.shape).astype("int32")
        allowed = rng.random(energies.emissions.shape) < 0.7
        total, score, partial, marginals = run(*energies, tags, allowed)
        for row in range(shape[0]):
            mask = energies.mask[row]
            paths, scores = oracle.list_paths(energies, row)
            assert_close(total[row], oracle.log_sum(scores))
            assert_close(score[row], scores[(paths == tags[row][mask]).all(1)][0])
            is_allowed = allowed[row][mask][np.arange(mask.sum()), paths].all(1)
            assert_close(partial[row], oracle.log_sum(scores[is_allowed]))
            assert_close(marginals[row], oracle.compute_expectations(energies, row)[0])


@pytest.mark.parametrize("mode", MODES)
def test_gradient_is_the_expected_counts(mode: str) -> None:
    """Counts of tags, pairs, first and last tags; finite if all sequences are forbidden."""
    run = differentiable(
        keras.layers.Identity(), lambda *x: zoo_ops.log_partition(zoo_ops.make_chain(*x)), mode
    )
    for seed in range(4):
        energies = oracle.make_energies(4, 5, 3, seed, forbidden=0.4 * (seed % 2))
        _, gradients, _ = run(*energies)
        expected = [np.zeros(x.shape) for x in energies[:4]]
        for row, weight in enumerate(np.cos(np.arange(4) + 1.0)):
            by_emissions, *shared = oracle.compute_expectations(energies, row)
            expected[0][row] = weight * by_emissions
            for total, part in zip(expected[1:], shared, strict=True):
                total += weight * part
        for got, want in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("name", ["log_partition", "path_score", "partial_score", "marginals"])
def test_gradients_equal_finite_differences(name: str) -> None:
    with double_precision():
        energies = oracle.make_energies(3, 4, 3)
        make_energies = [x.astype(WIDE) for x in energies[:4]]
        rng = np.random.default_rng(1)
        extra: dict[str, tuple[Any, ...]] = {
            "path_score": (rng.integers(0, 3, (3, 4)).astype("int32"),),
            "partial_score": (rng.random((3, 4, 3)) < 0.8,),
        }
        function = getattr(zoo_ops, name)
        run = differentiable(
            keras.layers.Identity(),
            lambda *x: function(zoo_ops.make_chain(*x, energies.mask), *extra.get(name, ())),
        )
        check_gradients(keras.layers.Identity(), run, make_energies)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300])
def test_long_sentences(length: int) -> None:
    """The total equals that of float64 loops and exceeds each score; gradients are finite."""
    energies = oracle.make_energies(4, length, 5, length, forbidden=0.2)
    tags = np.random.default_rng(0).integers(0, 5, energies.mask.shape).astype("int32")

    def compute_both(*make_energies: Any) -> Any:
        chain = zoo_ops.make_chain(*make_energies, energies.mask)
        return zoo_ops.log_partition(chain), zoo_ops.path_score(chain, tags)

    (total, score), gradients, _ = differentiable(keras.layers.Identity(), compute_both, MODES[1])(
        *energies[:4]
    )
    close(total, oracle.log_partition(energies), 1e-5)
    assert (score <= total).all()
    assert all(np.isfinite(x).all() for x in gradients)
    assert (total[~energies.mask.any(1)] == 0).all()
    assert (score[~energies.mask.any(1)] == 0).all()


@pytest.mark.parametrize("scale", [30.0, 3000.0])
def test_large_energies(scale: float) -> None:
    energies = oracle.make_energies(5, 20, 4, forbidden=0.3, scale=scale)
    run = differentiable(keras.layers.Identity(), compute_total_and_marginals)
    (total, marginals), gradients, _ = run(*energies)
    close(total, oracle.log_partition(energies), 1e-6)
    np.testing.assert_allclose(marginals.sum(-1), energies.mask, atol=1e-2 if scale > 100 else 1e-4)
    assert all(np.isfinite(x).all() for x in gradients)


@pytest.mark.parametrize("mode", MODES)
def test_all_sequences_forbidden(mode: str) -> None:
    """With all transitions forbidden, only sentences of one position have sequences."""
    energies = oracle.make_energies(2, 3, 2)
    mask = np.array([[1, 1, 0], [0, 1, 0]], "bool")
    energies = energies._replace(transitions=np.full((2, 2), -np.inf, "float32"), mask=mask)
    run = differentiable(keras.layers.Identity(), compute_total_and_marginals, mode)
    (total, marginals), gradients, _ = run(*energies)
    assert total[0] < IMPOSSIBLE
    assert total[1] == pytest.approx(oracle.log_partition(energies)[1], abs=1e-6)
    assert all(np.isfinite(x).all() for x in gradients)
    assert not marginals[0].any()
    assert not gradients[0][0].any()
    assert marginals[1, 1].sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 9.0])
def test_masked_values_have_no_effect(fill: float) -> None:
    energies = oracle.make_energies(4, 6, 3)
    tags = np.zeros(energies.mask.shape, "int32")
    allowed = np.ones(energies.emissions.shape, "bool")
    run = differentiable(
        keras.layers.Identity(),
        lambda *x: compute_all(*x, energies.mask, np.where(energies.mask, tags, 77), allowed),
    )

    def fill_masked(value: float) -> np.ndarray:
        return np.where(energies.mask[..., None], energies.emissions, np.float32(value))

    expected, got = run(fill_masked(0), *energies[1:4]), run(fill_masked(fill), *energies[1:4])
    same(got, expected)
    assert not got[1][0][~energies.mask].any()


@pytest.mark.parametrize("padding_side", ["right", "left", "holes"])
def test_padding_has_no_effect(padding_side: str) -> None:
    energies = oracle.make_energies(4, 6, 3)
    energies = energies._replace(mask=np.ones_like(energies.mask))
    tags = np.random.default_rng(0).integers(0, 3, energies.mask.shape).astype("int32")
    allowed = np.random.default_rng(1).random(energies.emissions.shape) < 0.7
    *expected, marginals = arrays(compute_all(*energies, tags, allowed))
    for padding in (1, 50):
        positions = {
            "right": np.arange(6),
            "left": np.arange(6) + padding,
            "holes": np.array([0, 1, 2, 3, 4, 5])
            + np.array([0, 0, padding, padding, padding, padding]),
        }[padding_side]
        padded = [np.full((4, 6 + padding, 3), 7, "float32"), np.zeros((4, 6 + padding), "bool")]
        extra = [np.full((4, 6 + padding), 5, "int32"), np.zeros((4, 6 + padding, 3), "bool")]
        for new, old in zip(
            (*padded, *extra), (energies.emissions, energies.mask, tags, allowed), strict=True
        ):
            new[:, positions] = old
        *got, compute_expectations = arrays(
            compute_all(padded[0], *energies[1:4], padded[1], *extra)
        )
        close(got, expected, 1e-6)
        close(compute_expectations[:, positions], marginals, 1e-6)
        assert not compute_expectations[~padded[1]].any()


def test_integer_and_broadcast_masks() -> None:
    energies = oracle.make_energies(3, 4, 2)
    expected = arrays(zoo_ops.log_partition(zoo_ops.make_chain(*energies)))
    same(
        zoo_ops.log_partition(zoo_ops.make_chain(*energies[:4], energies.mask.astype("int32"))),
        expected,
    )
    broadcast = zoo_ops.log_partition(zoo_ops.make_chain(*energies[:4], energies.mask[2:]))
    all_rows = np.repeat(energies.mask[2:], 3, axis=0)
    same(broadcast, zoo_ops.log_partition(zoo_ops.make_chain(*energies[:4], all_rows)))


@pytest.mark.parametrize("tag", [-1, 3, 99])
def test_out_of_range_tags_are_forbidden(tag: int) -> None:
    energies = oracle.make_energies(3, 4, 3)
    tags = np.zeros((3, 4), "int32")
    tags[0, 1] = tags[1] = tag  # row 1 does not count
    scores = array(zoo_ops.path_score(zoo_ops.make_chain(*energies), tags))
    assert (scores < IMPOSSIBLE).tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_computes_in_float32(dtype: str) -> None:
    energies = oracle.make_energies(3, 5, 3)
    half_energies = [ops.cast(x, dtype) for x in energies[:4]]
    tags, allowed = np.zeros((3, 5), "int32"), np.ones((3, 5, 3), "bool")
    got = compute_all(*half_energies, energies.mask, tags, allowed)
    assert {keras.backend.standardize_dtype(x.dtype) for x in got} == {"float32"}
    exact = oracle.Energies(*(array(x) for x in half_energies), energies.mask)
    close(got[0], oracle.log_partition(exact), 1e-6)


def test_double_precision_is_kept() -> None:
    with double_precision():
        energies = oracle.make_energies(3, 5, 3)
        chain = zoo_ops.make_chain(*(ops.cast(x, "float64") for x in energies[:4]), energies.mask)
        total = zoo_ops.log_partition(chain)
        assert keras.backend.standardize_dtype(total.dtype) == "float64"
        np.testing.assert_allclose(array(total), oracle.log_partition(energies), rtol=1e-12)


def test_without_boundaries_and_mask() -> None:
    energies = oracle.make_energies(2, 4, 3)
    zero = np.zeros(3, "float32")
    plain = zoo_ops.log_partition(zoo_ops.make_chain(energies.emissions, energies.transitions))
    full = oracle.Energies(*energies[:2], zero, zero, np.ones((2, 4), "bool"))
    close(plain, oracle.log_partition(full), 1e-6)


@pytest.mark.parametrize("shape", [(3, 4, 2), (0, 4, 2), (2, 0, 3)])
def test_unpack_inverts_pack(shape: tuple[int, int, int]) -> None:
    energies = oracle.make_energies(*shape, forbidden=0.3)
    chain = zoo_ops.make_chain(*energies)
    potentials = zoo_ops.pack(chain)
    tags = shape[2]
    assert tuple(potentials.shape) == (shape[0], shape[1] + tags + 2, tags + 1)
    unpacked = zoo_ops.unpack(potentials)
    same(unpacked[::4], chain[::4])
    if shape[0]:
        same(unpacked, chain)
        single = zoo_ops.log_partition(zoo_ops.unpack(potentials[-1:]))
        close(single, array(zoo_ops.log_partition(chain))[-1:], 1e-6)


def test_invalid_arguments_raise() -> None:
    energies = oracle.make_energies(3, 4, 2)
    with pytest.raises(ValueError, match=r"emissions must be \(batch, positions, 2\), got shape"):
        zoo_ops.make_chain(energies.emissions[..., :1], *energies[1:])
    with pytest.raises(ValueError, match=r"transitions must be \(2, 2\), got shape"):
        zoo_ops.make_chain(energies.emissions, energies.transitions[:1])
    with pytest.raises(ValueError, match=r"ends must be \(2\), got shape"):
        zoo_ops.make_chain(*energies[:3], energies.ends[:1])
    with pytest.raises(ValueError, match="mask has dtype float32"):
        zoo_ops.make_chain(*energies[:4], energies.mask.astype("float32"))
    for invalid in (np.zeros((3, 3)), np.zeros((3, 3, 3)), np.zeros((3, 9, 1))):
        with pytest.raises(ValueError, match="must be the output of a CRF layer"):
            zoo_ops.unpack(ops.convert_to_tensor(invalid))


@needs_dynamic_shapes
def test_dynamic_shapes() -> None:
    floats = ((None, None, 3), (3, 3), (3,), (3,))
    others = ((None, None), "bool"), ((None, None), "int32"), ((None, None, 3), "bool")
    run = with_dynamic_shapes(compute_all, *floats, *others)
    for shape in ((3, 4, 3), (2, 0, 3), (0, 2, 3)):
        energies = oracle.make_energies(*shape)
        extra = np.zeros(shape[:2], "int32"), np.ones(shape, "bool")
        for got, expected in zip(
            run(*energies, *extra), compute_all(*energies, *extra), strict=True
        ):
            np.testing.assert_allclose(array(got), array(expected), atol=1e-5)

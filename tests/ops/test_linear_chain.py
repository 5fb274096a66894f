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


def everything(*given: Any) -> tuple[Any, ...]:
    """What is computed of energies, a mask, tags and sets of tags."""
    *energies, tags, allowed = given
    chain = zoo_ops.make_chain(*energies)
    return (
        zoo_ops.log_partition(chain),
        zoo_ops.path_score(chain, tags),
        zoo_ops.partial_score(chain, allowed),
        zoo_ops.marginals(chain),
    )


def total_and_marginals(*given: Any) -> tuple[Any, Any]:
    chain = zoo_ops.make_chain(*given)
    return zoo_ops.log_partition(chain), zoo_ops.marginals(chain)


def finite(x: Any) -> np.ndarray:
    """-inf for the score of what is forbidden."""
    x = array(x)
    return np.where(x < IMPOSSIBLE, -np.inf, x)


def agree(got: Any, want: Any) -> None:
    """Within 1e-5, and -inf where there is -inf."""
    np.testing.assert_allclose(finite(got), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("mode", "shape"), oracle.CASES, ids=str)
def test_is_the_sum_over_all_sequences(mode: str, shape: tuple[int, int, int]) -> None:
    run = compiled(everything, mode)
    for seed in range(2 if mode == "eager" else 6):
        of = oracle.energies(*shape, seed, forbidden=0.4 * (seed % 2))
        rng = np.random.default_rng(seed)
        tags = rng.integers(0, shape[2], of.mask.shape).astype("int32")
        allowed = rng.random(of.emissions.shape) < 0.7
        total, score, partial, marginals = run(*of, tags, allowed)
        for row in range(shape[0]):
            mask = of.mask[row]
            paths, scores = oracle.every(of, row)
            agree(total[row], oracle.log_sum(scores))
            agree(score[row], scores[(paths == tags[row][mask]).all(1)][0])
            right = allowed[row][mask][np.arange(mask.sum()), paths].all(1)
            agree(partial[row], oracle.log_sum(scores[right]))
            agree(marginals[row], oracle.shares(of, row)[0])


@pytest.mark.parametrize("mode", MODES)
def test_gradient_is_what_is_expected(mode: str) -> None:
    """Of tags, of pairs, of first and last tags; finite where nothing is allowed."""
    run = differentiable(
        keras.layers.Identity(), lambda *x: zoo_ops.log_partition(zoo_ops.make_chain(*x)), mode
    )
    for seed in range(4):
        of = oracle.energies(4, 5, 3, seed, forbidden=0.4 * (seed % 2))
        _, gradients, _ = run(*of)
        wanted = [np.zeros(x.shape) for x in of[:4]]
        for row, weight in enumerate(np.cos(np.arange(4) + 1.0)):
            by_emissions, *shared = oracle.shares(of, row)
            wanted[0][row] = weight * by_emissions
            for total, part in zip(wanted[1:], shared, strict=True):
                total += weight * part
        for got, want in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("what", ["log_partition", "path_score", "partial_score", "marginals"])
def test_gradients_are_finite_differences(what: str) -> None:
    with double_precision():
        of = oracle.energies(3, 4, 3)
        energies = [x.astype(WIDE) for x in of[:4]]
        rng = np.random.default_rng(1)
        more: dict[str, tuple[Any, ...]] = {
            "path_score": (rng.integers(0, 3, (3, 4)).astype("int32"),),
            "partial_score": (rng.random((3, 4, 3)) < 0.8,),
        }
        function = getattr(zoo_ops, what)
        run = differentiable(
            keras.layers.Identity(),
            lambda *x: function(zoo_ops.make_chain(*x, of.mask), *more.get(what, ())),
        )
        check_gradients(keras.layers.Identity(), run, energies)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300])
def test_long_sentences(length: int) -> None:
    """Against loops in float64; no sequence is likelier than all of them; gradients finite."""
    of = oracle.energies(4, length, 5, length, forbidden=0.2)
    tags = np.random.default_rng(0).integers(0, 5, of.mask.shape).astype("int32")

    def both(*energies: Any) -> Any:
        chain = zoo_ops.make_chain(*energies, of.mask)
        return zoo_ops.log_partition(chain), zoo_ops.path_score(chain, tags)

    (total, score), gradients, _ = differentiable(keras.layers.Identity(), both, MODES[1])(*of[:4])
    close(total, oracle.log_partition(of), 1e-5)
    assert (score <= total).all()
    assert all(np.isfinite(x).all() for x in gradients)
    assert (total[~of.mask.any(1)] == 0).all()
    assert (score[~of.mask.any(1)] == 0).all()


@pytest.mark.parametrize("scale", [30.0, 3000.0])
def test_great_energies(scale: float) -> None:
    of = oracle.energies(5, 20, 4, forbidden=0.3, scale=scale)
    run = differentiable(keras.layers.Identity(), total_and_marginals)
    (total, marginals), gradients, _ = run(*of)
    close(total, oracle.log_partition(of), 1e-6)
    np.testing.assert_allclose(marginals.sum(-1), of.mask, atol=1e-2 if scale > 100 else 1e-4)
    assert all(np.isfinite(x).all() for x in gradients)


@pytest.mark.parametrize("mode", MODES)
def test_where_nothing_is_allowed(mode: str) -> None:
    """Every transition forbidden: a sentence of one place has sequences, one of two has none."""
    of = oracle.energies(2, 3, 2)
    mask = np.array([[1, 1, 0], [0, 1, 0]], "bool")
    of = of._replace(transitions=np.full((2, 2), -np.inf, "float32"), mask=mask)
    run = differentiable(keras.layers.Identity(), total_and_marginals, mode)
    (total, marginals), gradients, _ = run(*of)
    assert total[0] < IMPOSSIBLE
    assert total[1] == pytest.approx(oracle.log_partition(of)[1], abs=1e-6)
    assert all(np.isfinite(x).all() for x in gradients)
    assert not marginals[0].any()
    assert not gradients[0][0].any()
    assert marginals[1, 1].sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 9.0])
def test_what_is_hidden_reaches_nothing(fill: float) -> None:
    of = oracle.energies(4, 6, 3)
    tags = np.zeros(of.mask.shape, "int32")
    allowed = np.ones(of.emissions.shape, "bool")
    run = differentiable(
        keras.layers.Identity(),
        lambda *x: everything(*x, of.mask, np.where(of.mask, tags, 77), allowed),
    )

    def filled(value: float) -> np.ndarray:
        return np.where(of.mask[..., None], of.emissions, np.float32(value))

    want, got = run(filled(0), *of[1:4]), run(filled(fill), *of[1:4])
    same(got, want)
    assert not got[1][0][~of.mask].any()


@pytest.mark.parametrize("where", ["right", "left", "holes"])
def test_pads_cannot_be_seen(where: str) -> None:
    of = oracle.energies(4, 6, 3)
    of = of._replace(mask=np.ones_like(of.mask))
    tags = np.random.default_rng(0).integers(0, 3, of.mask.shape).astype("int32")
    allowed = np.random.default_rng(1).random(of.emissions.shape) < 0.7
    *wanted, marginals = arrays(everything(*of, tags, allowed))
    for pads in (1, 50):
        places = {
            "right": np.arange(6),
            "left": np.arange(6) + pads,
            "holes": np.array([0, 1, 2, 3, 4, 5]) + np.array([0, 0, pads, pads, pads, pads]),
        }[where]
        longer = [np.full((4, 6 + pads, 3), 7, "float32"), np.zeros((4, 6 + pads), "bool")]
        more = [np.full((4, 6 + pads), 5, "int32"), np.zeros((4, 6 + pads, 3), "bool")]
        for new, old in zip((*longer, *more), (of.emissions, of.mask, tags, allowed), strict=True):
            new[:, places] = old
        *got, shares = arrays(everything(longer[0], *of[1:4], longer[1], *more))
        close(got, wanted, 1e-6)
        close(shares[:, places], marginals, 1e-6)
        assert not shares[~longer[1]].any()


def test_masks_of_integers_and_of_one_row() -> None:
    of = oracle.energies(3, 4, 2)
    want = arrays(zoo_ops.log_partition(zoo_ops.make_chain(*of)))
    same(zoo_ops.log_partition(zoo_ops.make_chain(*of[:4], of.mask.astype("int32"))), want)
    one = zoo_ops.log_partition(zoo_ops.make_chain(*of[:4], of.mask[2:]))
    all_rows = np.repeat(of.mask[2:], 3, axis=0)
    same(one, zoo_ops.log_partition(zoo_ops.make_chain(*of[:4], all_rows)))


@pytest.mark.parametrize("tag", [-1, 3, 99])
def test_what_is_no_tag_is_forbidden(tag: int) -> None:
    of = oracle.energies(3, 4, 3)
    tags = np.zeros((3, 4), "int32")
    tags[0, 1] = tags[1] = tag  # row 1 does not count
    scores = array(zoo_ops.path_score(zoo_ops.make_chain(*of), tags))
    assert (scores < IMPOSSIBLE).tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_computes_in_float32(dtype: str) -> None:
    of = oracle.energies(3, 5, 3)
    half = [ops.cast(x, dtype) for x in of[:4]]
    tags, allowed = np.zeros((3, 5), "int32"), np.ones((3, 5, 3), "bool")
    got = everything(*half, of.mask, tags, allowed)
    assert {keras.backend.standardize_dtype(x.dtype) for x in got} == {"float32"}
    exact = oracle.Energies(*(array(x) for x in half), of.mask)
    close(got[0], oracle.log_partition(exact), 1e-6)


def test_double_precision_stays() -> None:
    with double_precision():
        of = oracle.energies(3, 5, 3)
        chain = zoo_ops.make_chain(*(ops.cast(x, "float64") for x in of[:4]), of.mask)
        total = zoo_ops.log_partition(chain)
        assert keras.backend.standardize_dtype(total.dtype) == "float64"
        np.testing.assert_allclose(array(total), oracle.log_partition(of), rtol=1e-12)


def test_without_boundaries_and_mask() -> None:
    of = oracle.energies(2, 4, 3)
    zero = np.zeros(3, "float32")
    plain = zoo_ops.log_partition(zoo_ops.make_chain(of.emissions, of.transitions))
    full = oracle.Energies(*of[:2], zero, zero, np.ones((2, 4), "bool"))
    close(plain, oracle.log_partition(full), 1e-6)


@pytest.mark.parametrize("shape", [(3, 4, 2), (0, 4, 2), (2, 0, 3)])
def test_packed_is_the_same_chain(shape: tuple[int, int, int]) -> None:
    of = oracle.energies(*shape, forbidden=0.3)
    chain = zoo_ops.make_chain(*of)
    potentials = zoo_ops.pack(chain)
    tags = shape[2]
    assert tuple(potentials.shape) == (shape[0], shape[1] + tags + 2, tags + 1)
    again = zoo_ops.unpack(potentials)
    same(again[::4], chain[::4])
    if shape[0]:
        same(again, chain)
        alone = zoo_ops.log_partition(zoo_ops.unpack(potentials[-1:]))
        close(alone, array(zoo_ops.log_partition(chain))[-1:], 1e-6)


def test_misuse_is_refused() -> None:
    of = oracle.energies(3, 4, 2)
    with pytest.raises(ValueError, match=r"emissions must be \(batch, positions, 2\), got shape"):
        zoo_ops.make_chain(of.emissions[..., :1], *of[1:])
    with pytest.raises(ValueError, match=r"transitions must be \(2, 2\), got shape"):
        zoo_ops.make_chain(of.emissions, of.transitions[:1])
    with pytest.raises(ValueError, match=r"ends must be \(2\), got shape"):
        zoo_ops.make_chain(*of[:3], of.ends[:1])
    with pytest.raises(ValueError, match="mask has dtype float32"):
        zoo_ops.make_chain(*of[:4], of.mask.astype("float32"))
    for wrong in (np.zeros((3, 3)), np.zeros((3, 3, 3)), np.zeros((3, 9, 1))):
        with pytest.raises(ValueError, match="must be the output of a CRF layer"):
            zoo_ops.unpack(ops.convert_to_tensor(wrong))


@needs_dynamic_shapes
def test_sizes_that_are_not_known_when_it_is_traced() -> None:
    floats = ((None, None, 3), (3, 3), (3,), (3,))
    others = ((None, None), "bool"), ((None, None), "int32"), ((None, None, 3), "bool")
    run = with_dynamic_shapes(everything, *floats, *others)
    for shape in ((3, 4, 3), (2, 0, 3), (0, 2, 3)):
        of = oracle.energies(*shape)
        more = np.zeros(shape[:2], "int32"), np.ones(shape, "bool")
        for got, want in zip(run(*of, *more), everything(*of, *more), strict=True):
            np.testing.assert_allclose(array(got), array(want), atol=1e-5)

"""Conformance of layers over full sequences: pooling, co-attention and similar."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from tests.layers.layer_case import flatten
from tests.layers.layer_conformance import LayerConformance
from tests.layers.mask_conformance import masked
from tests.layers.masking_rules import masking_rule
from tests.layers.running import (
    JAX,
    MODES,
    POLICIES,
    WIDE,
    all_finite,
    array,
    arrays,
    check_gradients,
    close,
    differentiable,
    label,
    quick,
    randomise,
    same,
)
from tests.tiers import FULL

B = 3
FULLY_MASKED_CASES = [
    *({"policy": "float32", "mode": mode} for mode in (MODES[1:] if JAX else MODES)),
    *({"policy": policy, "mode": MODES[1]} for policy in (POLICIES[3:4] if JAX else POLICIES[1:])),
]
Arrays = tuple[np.ndarray, ...]


class StructureConformance(LayerConformance):
    """A layer over masked sequences. A case defines `names`, `shapes` and `oracle`."""

    names: ClassVar[tuple[str, ...]] = ("mask",)
    """The mask argument of each tensor."""
    lengths: ClassVar[tuple[int, ...]] = (5,)
    """Lengths of the sequences of a call."""
    pads: ClassVar[tuple[int, ...]] = (1, 8, 100)
    seed: ClassVar[int] = 0
    oracle_tolerance: ClassVar[float] = 1e-6
    oracle_cases: ClassVar[int] = 12  # of each of two shapes, in the fast tier

    def shapes(self, batch: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the tensors of a call."""
        raise TypeError(f"{type(self).__name__} does not define `shapes`")

    def oracle(self, layer: Any, tensors: Arrays, masks: Arrays) -> tuple[np.ndarray, ...]:
        """Return all outputs in float64, optional ones included."""
        raise TypeError(f"{type(self).__name__} has no oracle")

    def check_fully_masked(self, name: str, tensors: Arrays, outputs: list[np.ndarray]) -> None:
        """Check the outputs of row 1 if it is fully masked by the mask of that name."""
        for output in outputs:
            assert not output[1].any()

    def random(self, batch: int, lengths: tuple[int, ...], seed: int = 0) -> Arrays:
        rng = np.random.default_rng(seed)
        shapes = self.shapes(batch, *lengths)
        return tuple(rng.normal(size=shape).astype("float32") for shape in shapes)

    def tensors(self, batch: int = B) -> Arrays:
        return self.random(batch, self.lengths, self.seed)

    def masks(self, tensors: Arrays, seed: int = 0, share: float = 0.6) -> Arrays:
        """Return masks with gaps, except in row 0."""
        rng = np.random.default_rng(seed + 1)
        masks = [rng.random(x.shape[:-1]) < share for x in tensors[: len(self.names)]]
        for mask in masks:
            mask[:1] = True
        return tuple(masks)

    def named(self, masks: Any) -> dict[str, Any]:
        return dict(zip(self.names, masks, strict=True))

    def apply(self, layer: Any, *tensors: Any, **masks: Any) -> Any:
        return flatten(layer(*tensors, return_attention_scores=True, **masks))

    def runs(self, layer: Any, **options: Any) -> Any:
        """Return `run(*tensors, *masks)`, which returns the outputs, in the fastest mode."""
        count = len(self.names)
        return lambda *inputs: self.apply(layer, *inputs[:-count], **self.named(inputs[-count:]))

    @pytest.mark.full
    @pytest.mark.every_backend
    def test_works_without_weights_inside_a_layer_with_dynamic_shapes(self) -> None:
        """Without the weights, a layer may choose another path, such as the blockwise one."""
        self.check_inside_a_layer(lambda layer, *tensors: layer(*tensors))

    # arithmetic

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_oracle(self) -> None:
        rng = np.random.default_rng(7)
        for shape in range(6 if FULL and not JAX else 2):
            batch, *lengths = (int(n) for n in rng.integers(1, 6, size=len(self.lengths) + 1))
            layer = self.make_random()
            randomise(layer, shape)
            run = quick(self.runs(layer))
            for seed in range(10 if FULL else self.oracle_cases):
                tensors = self.random(batch, tuple(lengths), seed)
                masks = self.masks(tensors, seed, share=(0.0, 0.3, 0.7, 1.0)[seed % 4])
                expected = self.oracle(layer, tuple(x.astype("float64") for x in tensors), masks)
                close(run(*tensors, *masks), expected, self.oracle_tolerance)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_gradients_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        tensors = [x.astype(WIDE) for x in self.tensors()]
        masks = self.masks(self.tensors())
        self.apply(layer, *tensors)
        randomise(layer)
        run = differentiable(layer, lambda *x: self.apply(layer, *x, **self.named(masks)))
        check_gradients(layer, run, tensors)

    @pytest.mark.every_backend
    @pytest.mark.numerics
    @pytest.mark.parametrize("batch", [0, 2])
    def test_small_sizes(self, batch: int) -> None:
        layer = self.make_random()
        shapes = [self.lengths]
        for axis in range(len(self.lengths)):
            for size in (0, 1):
                shapes.append((*self.lengths[:axis], size, *self.lengths[axis + 1 :]))
        for lengths in shapes:
            tensors = self.random(batch, lengths)
            every = tuple(np.ones(x.shape[:-1], "bool") for x in tensors[: len(self.names)])
            expected = self.oracle(layer, tuple(x.astype("float64") for x in tensors), every)
            for masks in ({}, self.named(every)):
                outputs = self.apply(layer, *tensors, **masks)
                for got, want in zip(outputs, expected, strict=True):
                    assert tuple(got.shape) == want.shape
                    close(got, want, 10 * self.oracle_tolerance)

    test_empty_batch = None  # a case of test_small_sizes

    def test_unknown_lengths(self) -> None:
        layer = self.make_random()
        unknown = self.shapes(B, *(None for _ in self.lengths))
        inputs = [keras.Input(shape[1:]) for shape in unknown]
        model = keras.Model(inputs, self.apply(layer, *inputs))
        for length in (3, 7):
            tensors = self.random(2, (length,) * len(self.lengths))
            expected = self.apply(layer, *tensors)
            close(model(list(tensors)), expected, 1e-5)

    # masking rules

    def test_explicit_mask_is_implicit_mask(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        masks = self.masks(tensors)
        expected = self.apply(layer, *tensors, **self.named(masks))
        carrying = [masked(x, mask) for x, mask in zip(tensors, masks, strict=False)]
        carrying += list(tensors[len(masks) :])
        for _ in range(2):  # the first call does not change the implicit masks
            same(self.apply(layer, *carrying), expected)

    def test_explicit_and_implicit_masks_combine_by_and(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        first, second = self.masks(tensors, 1), self.masks(tensors, 2)
        both = tuple(a & b for a, b in zip(first, second, strict=True))
        carrying = [masked(x, mask) for x, mask in zip(tensors, first, strict=False)]
        carrying += list(tensors[len(first) :])
        got = self.apply(layer, *carrying, **self.named(second))
        expected = self.apply(layer, *tensors, **self.named(both))
        same(got, expected)

    def test_every_mask_has_an_effect(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        bare = self.apply(layer, *tensors)
        for name, mask in self.named(self.masks(tensors)).items():
            masked = self.apply(layer, *tensors, **{name: mask})
            differences = [
                np.abs(array(a) - array(b)).max() for a, b in zip(masked, bare, strict=True)
            ]
            assert max(differences) > 1e-3

    def test_integers_are_booleans_and_floats_are_rejected(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        masks = self.masks(tensors)
        full = self.apply(layer, *tensors, **self.named([m.astype("int32") for m in masks]))
        same(full, self.apply(layer, *tensors, **self.named(masks)))
        for name, mask in self.named(masks).items():
            with pytest.raises(ValueError, match=rf"{name} has dtype float32.*`{name} > 0`"):
                self.apply(layer, *tensors, **{name: mask.astype("float32")})
            with pytest.raises(ValueError, match=rf"{name} has shape.*is expected"):
                self.apply(layer, *tensors, **{name: mask[..., None]})
            padded = np.ones((*mask.shape[:-1], mask.shape[-1] + 2), "bool")
            with pytest.raises(ValueError, match=rf"{name} has shape.*is expected"):
                self.apply(layer, *tensors, **{name: padded})

    def test_masks_broadcast(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        for name, mask in self.named(self.masks(tensors)).items():
            for axis in range(mask.ndim):
                narrow = mask.take([-1], axis)
                full = np.broadcast_to(narrow, mask.shape)
                expected = self.apply(layer, *tensors, **{name: full})
                close(self.apply(layer, *tensors, **{name: narrow}), expected, 1e-6)

    def test_wrong_ranks_are_rejected_at_every_call(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        arguments = list(inspect.signature(layer.call).parameters)
        for number, x in enumerate(tensors):
            for wrong in (x[:, 0], x[..., None]):
                inputs = [*tensors[:number], wrong, *tensors[number + 1 :]]
                for called in (self.make(), layer):
                    with pytest.raises(ValueError, match=rf"{arguments[number]} must .*got shape"):
                        self.apply(called, *inputs)

    def test_widths_other_than_built_are_rejected(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        for number, x in enumerate(tensors):
            inputs = [*tensors[:number], x[..., :-1], *tensors[number + 1 :]]
            with pytest.raises(ValueError, match=r"must be \(.*\), got shape"):
                self.apply(layer, *inputs)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    @pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
    def test_values_at_masked_positions_do_not_affect_outputs(self, fill: float) -> None:
        layer, tensors = self.make_random(), self.tensors()
        masks = self.masks(tensors)
        run = differentiable(layer, lambda *x: self.apply(layer, *x, **self.named(masks)))

        def filled(value: float) -> list[np.ndarray]:
            hidden = [
                np.where(mask[..., None], x, np.float32(value))
                for x, mask in zip(tensors, masks, strict=False)
            ]
            return [*hidden, *tensors[len(masks) :]]

        expected, got = run(*filled(0)), run(*filled(fill))
        same(got, expected)
        assert all_finite(got)
        for gradient, mask in zip(got[1], masks, strict=False):
            assert not gradient[~mask].any()

    def test_padding_does_not_affect_outputs(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        masks = self.masks(tensors)
        expected = arrays(self.apply(layer, *tensors, **self.named(masks)))
        for pads in self.pads:
            padded = [50 * x for x in self.random(B, tuple(n + pads for n in self.lengths), 9)]
            padding_masks = [np.zeros(x.shape[:-1], "bool") for x in padded[: len(masks)]]
            for new, x in zip(padded, tensors, strict=True):
                new[tuple(slice(0, n) for n in x.shape)] = x
            for new, mask in zip(padding_masks, masks, strict=True):
                new[tuple(slice(0, n) for n in mask.shape)] = mask
            outputs = arrays(self.apply(layer, *padded, **self.named(padding_masks)))
            for got, want in zip(outputs, expected, strict=True):
                inner = tuple(slice(0, n) for n in want.shape)
                close(got[inner], want, 1e-5)
                got[inner] = 0
                assert not got.any()

    def test_batch_members_do_not_affect_each_other(self) -> None:
        layer, rows = self.make_random(), 16
        tensors = self.random(rows, self.lengths, 2)
        rng, masks = np.random.default_rng(3), []
        for x in tensors[: len(self.names)]:
            mask = np.ones(x.shape[:-1], "bool")
            for row in range(rows):
                for axis, length in enumerate(mask.shape[1:]):
                    positions = np.arange(length) < rng.integers(1, length + 1)
                    mask[row] &= positions.reshape(
                        [-1 if a == axis else 1 for a in range(mask.ndim - 1)]
                    )
            masks.append(mask)
        together = arrays(self.apply(layer, *tensors, **self.named(masks)))
        for row in (0, 5, 15):
            single = []
            for number, x in enumerate(tensors):
                x = x[row : row + 1]
                if number < len(masks):
                    counts = [position.max() + 1 for position in np.nonzero(masks[number][row])]
                    x = x[(slice(None), *(slice(0, n) for n in counts))]
                single.append(x)
            for got, expected in zip(self.apply(layer, *single), together, strict=True):
                inner = tuple(slice(0, n) for n in tuple(got.shape)[1:])
                close(array(got)[0], expected[(row, *inner)], 1e-5)

    @pytest.mark.every_backend
    @pytest.mark.parametrize("case", FULLY_MASKED_CASES, ids=label)
    @masking_rule(4)
    def test_fully_masked(self, case: dict[str, Any]) -> None:
        policy = case["policy"]
        if self.keras_cells and policy in ("float16", "bfloat16"):
            policy = f"mixed_{policy}"
        keras.config.set_dtype_policy(policy)
        layer, tensors = self.make_random(), self.tensors()
        run = differentiable(layer, self.runs(layer), case["mode"])
        every = [np.ones(x.shape[:-1], "bool") for x in tensors[: len(self.names)]]
        unmasked, unmasked_grads, _ = run(*tensors, *every)
        for number, name in enumerate(self.names):
            masks = [mask.copy() for mask in every]
            masks[number][1] = False
            outputs, grads, weight_grads = run(*tensors, *masks)
            self.check_fully_masked(name, tensors, outputs)
            assert all(np.isfinite(x).all() for x in [*outputs, *grads, *weight_grads])
            assert not grads[number][1].any()
            for after, before in zip([*outputs, *grads], [*unmasked, *unmasked_grads], strict=True):
                same(after[[0, 2]], before[[0, 2]])

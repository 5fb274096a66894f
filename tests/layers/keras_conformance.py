"""Conformance tests of Keras's layer contract outside `call`."""

from __future__ import annotations

import inspect
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import attach_mask, implicit_mask
from tests.layers.layer_case import LayerCase, flatten
from tests.layers.running import all_finite, close, same


class KerasContract(LayerCase):
    """Output specs, masks, wrappers, copies, `supports_jit` and `quantize`."""

    def test_specs_equal_outputs_in_mixed_precision(self) -> None:
        """Shapes and dtypes, also with dynamic shapes; `test_dtype_policy` has other policies."""
        keras.config.set_dtype_policy("mixed_float16")
        layer, tensors = self.make_random(), self.tensors()
        outputs = flatten(self.apply(layer, *tensors))
        for shapes in ([x.shape for x in tensors], [self.dynamic_shape(x) for x in tensors]):
            symbolic = [
                keras.KerasTensor(shape, str(x.dtype))
                for shape, x in zip(shapes, tensors, strict=True)
            ]
            specs = flatten(self.apply(layer, *symbolic))
            for spec, output in zip(specs, outputs, strict=True):
                assert spec.dtype == keras.backend.standardize_dtype(output.dtype)
                sizes = zip(spec.shape, output.shape, strict=True)
                assert all(expected in (None, size) for expected, size in sizes)
        own = [x for x in layer._flatten_layers() if type(x).__module__.startswith("attention_zoo")]
        assert all(x.supports_jit for x in own)

    def test_output_shape_is_inferred(self) -> None:
        """Also by a layer that is not built."""
        layer, tensors = self.make(), self.tensors()
        shapes = [x.shape for x in tensors]
        unbuilt = layer.compute_output_shape(*shapes)
        expected = [list(x.shape) for x in flatten(layer(*tensors))]
        assert flatten(unbuilt) == flatten(layer.compute_output_shape(*shapes)) == flatten(expected)

    def test_inside_time_distributed(self) -> None:
        """Layers with one input and one output, with a mask if they take one."""
        layer, (x, *others) = self.make_random(), self.tensors()
        if others or not ops.is_tensor(layer(x)):
            pytest.skip("Keras's wrapper takes one tensor and returns one")
        pair, wrapper = [x, x[::-1].copy()], keras.layers.TimeDistributed(layer)
        mask = np.random.default_rng(0).random((len(x), 2, *x.shape[1:-1])) < 0.7
        masks = {"mask": mask} if "mask" in inspect.signature(layer.call).parameters else {}
        outputs = wrapper(np.stack(pair, axis=1), **masks)
        assert wrapper.compute_output_shape((len(x), 2, *x.shape[1:])) == outputs.shape
        for t in range(2):
            options = {name: full[:, t] for name, full in masks.items()}
            close(outputs[:, t], layer(pair[t], **options), 1e-6)

    def test_masks_of_outputs(self) -> None:
        """Symbolic outputs carry masks iff outputs do; `compute_mask` returns the same mask."""
        layer, (x, *others) = self.make_random(), self.tensors()
        if not layer.supports_masking or x.ndim < 3:
            pytest.skip("does not take masks")
        mask = np.arange(x.shape[-2]) < np.full((*x.shape[:-2], 1), x.shape[-2] - 1)
        carrying = attach_mask(ops.convert_to_tensor(x), ops.convert_to_tensor(mask))
        outputs = flatten(self.apply(layer, carrying, *others))
        symbolic = [keras.KerasTensor(x.shape, str(x.dtype)) for x in (x, *others)]
        attach_mask(symbolic[0], keras.KerasTensor(mask.shape, "bool"))
        specs = flatten(self.apply(layer, *symbolic))
        for output, spec in zip(outputs, specs, strict=True):
            masks = implicit_mask(output), implicit_mask(spec)
            assert (masks[0] is None) == (masks[1] is None)
            if masks[0] is not None:
                assert masks[0].shape == masks[1].shape == output.shape[: len(masks[0].shape)]
        computed = layer.compute_mask(carrying, mask)
        if computed is not None:
            same(computed, implicit_mask(outputs[0]))

    def test_model_is_cloned(self) -> None:
        (_, model), tensors = self.make_functional(), list(self.tensors())
        copy = keras.models.clone_model(model)
        copy.set_weights(model.get_weights())
        close(copy(tensors), model(tensors), 1e-6)

    def test_quantizes_or_warns(self) -> None:
        """Every matrix is int8, or one warning names it."""
        layer, tensors = self.make_random(), self.tensors()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            layer.quantize("int8")
        matrices = [
            x for x in layer.weights if len(x.shape) > 1 and not x.path.endswith(("bias", "scale"))
        ]
        left = [x.path for x in matrices if x.dtype != "int8"]
        messages = [str(x.message) for x in caught if x.category is UserWarning]
        assert len(messages) == bool(left)
        assert all(path in messages[0] for path in left)
        assert all_finite([x for x in flatten(self.apply(layer, *tensors)) if x.shape[0]])

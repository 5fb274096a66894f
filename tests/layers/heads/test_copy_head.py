from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import AdditiveAttention, CopyHead
from attention_zoo.losses import CopyCrossEntropy
from attention_zoo.ops import copied_log_probs
from tests.layers.conformance import LayerConformance
from tests.layers.running import POLICIES, array, close


class TestCopyHead(LayerConformance):
    covers = CopyHead
    options = {"copies": 3}
    changed = {"copies": 2}

    # Log probabilities are at least float32, so these two tests differ here.
    test_dtype_policy = None
    test_dtype_argument_applies_to_every_weight = None

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(0)
        floats = [rng.normal(size=(batch, 4, n)).astype("float32") for n in (6, 5, 3, 7)]
        weights = rng.dirichlet(np.ones(5), size=(batch, 4)).astype("float32")
        return *floats, weights, rng.integers(0, 9, size=(batch, 5)).astype("int32")

    @pytest.mark.parametrize("policy", POLICIES)
    def test_log_probabilities_are_float32_under_any_policy(self, policy: str) -> None:
        keras.config.set_dtype_policy(policy)
        context, state, inputs, logits, weights, source = self.tensors()
        head = self.make()
        half = [ops.cast(x, head.compute_dtype) for x in (context, state, inputs, logits, weights)]
        got = head(*half, source)
        assert keras.backend.standardize_dtype(got.dtype) == "float32"
        assert {v.dtype for v in head.weights} == {head.variable_dtype}
        np.testing.assert_allclose(np.exp(array(got)).sum(-1), 1, atol=0.02)
        keras.config.set_dtype_policy("float32")
        repeated = self.make()
        repeated.build(context.shape, state.shape, inputs.shape)
        repeated.set_weights(head.get_weights())
        expected = repeated(context, state, inputs, logits, weights, source)
        np.testing.assert_allclose(array(got), array(expected), atol=0.15)

    @pytest.mark.every_backend
    def test_gate_follows_the_paper(self) -> None:
        head, (context, state, inputs, logits, weights, source) = self.make_random(), self.tensors()
        kernels = (head.context_kernel, head.state_kernel, head.input_kernel)
        w_h, w_s, w_x = (array(kernel)[:, 0] for kernel in kernels)
        gate = context @ w_h + state @ w_s + inputs @ w_x + float(array(head.bias))
        close(head.gate(context, state, inputs), gate.astype("float32"), 1e-6)
        got = head(context, state, inputs, logits, weights, source)
        close(got, copied_log_probs(logits, gate.astype("float32"), weights, source, 3), 1e-5)


def test_hypotheses_of_a_search() -> None:
    """A step takes `(B, N, ...)` or `(B, ...)` and equals the call with `(B, T, ...)`."""
    head, tensors = TestCopyHead().make_random(), TestCopyHead().tensors()
    full = head(*tensors)
    one = head(*(x[:, 1] for x in tensors[:-1]), tensors[-1])
    close(one, array(full)[:, 1], 1e-6)


@pytest.mark.full
def test_trains_in_a_plain_keras_model() -> None:
    rng = np.random.default_rng(0)
    source = np.stack([rng.permutation(4) for _ in range(512)]) + 4  # ids 4 to 7, of V = 4
    position = rng.integers(0, 4, size=512)
    keys = np.tile(np.eye(4, dtype="float32"), (512, 1, 1))
    query = np.eye(4, dtype="float32")[position][:, None]
    q, k, w = keras.Input((1, 4)), keras.Input((4, 4)), keras.Input((4,), dtype="int32")
    context, weights = AdditiveAttention(16)(q, k, return_attention_scores=True)
    log_probs = CopyHead(4)(context, q, q, keras.layers.Dense(4)(context), weights, w)
    model = keras.Model([q, k, w], log_probs)
    model.compile(keras.optimizers.Adam(0.03), CopyCrossEntropy())
    labels = np.take_along_axis(source, position[:, None], axis=1)
    model.fit([query, keys, source], labels, batch_size=32, epochs=8, shuffle=False, verbose=0)
    predicted = array(model([query, keys, source])).argmax(-1)
    assert (predicted == labels).mean() > 0.95


def test_wrong_shapes_are_rejected() -> None:
    tensors = list(TestCopyHead().tensors())
    head = TestCopyHead().make_random()
    for at, message in ((3, r"logits must be \(3, 4, v"), (4, r"weights must be \(3, 4, s")):
        inputs = [*tensors]
        inputs[at] = inputs[at][:, :1]
        with pytest.raises(ValueError, match=message):
            head(*inputs)
    with pytest.raises(ValueError, match=r"source must be \(3, 5\), got shape \(3, 2\)"):
        head(*tensors[:-1], tensors[-1][:, :2])

"""Conformance of taggers.

class TestRecurrentTagger(TaggerConformance):
    covers = RecurrentTagger
    options = {"vocabulary_size": 13, "tags": TAGS, ...}   # a tiny model
    changed = {"vocabulary_size": 15, ...}   # every constructor argument, changed
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from attention_zoo.models import Tagger
from attention_zoo.ops import unpack
from tests.layers.running import JAX, any_batch, array, close, differentiable
from tests.models.encoder_conformance import TOKEN_MASK, TOKENS, fill
from tests.models.model_conformance import (
    ExportableModelConformance,
    assert_finite_and_nonzero,
    outputs,
)
from tests.tiers import FULL, mark_full

TAGS = ["O", "B-A", "I-A", "B-B", "I-B"]
RNG = np.random.default_rng(0)
CHARACTERS = np.where(TOKEN_MASK[..., None], RNG.integers(1, 8, (*TOKENS.shape, 4)), 0).astype(
    "int32"
)
CHARACTERS[:, ::2, 2:] = 0
MARKS = (TOKEN_MASK & (RNG.random(TOKENS.shape) < 0.4)).astype("int32")
STARTS = np.array([[1, 2, 4], [1, 3, 0], [0, 0, 0]], "int32")
"""Rows of three words, two words, and no unmasked word."""
Given = dict[str, np.ndarray]


def run(model: Any, inputs: Given) -> np.ndarray:
    """Return the potentials."""
    (potentials,) = outputs(model, inputs)
    return potentials


def emissions(model: Any, inputs: Given) -> np.ndarray:
    """Return the emissions of words, 0 elsewhere; check the word mask."""
    chain = unpack(keras.ops.convert_to_tensor(run(model, inputs).astype("float32")))
    positions = inputs["starts"] if "starts" in inputs else inputs["tokens"]
    np.testing.assert_array_equal(array(chain.mask), positions != 0)
    return array(chain.emissions)


def fit_and_evaluate(
    model: Any, words: np.ndarray, labels: np.ndarray, rate: float, epochs: int
) -> float:
    """Train with `compile` and `fit`; return the accuracy on the training set."""
    model.compile(keras.optimizers.Adam(rate), model.make_loss(), jit_compile=JAX)
    model.fit({"tokens": words}, labels, batch_size=32, epochs=epochs, shuffle=False, verbose=0)
    tags = array(model.decode(model({"tokens": words}))[0])
    return float((tags == labels)[words > 0].mean())


class TaggerConformance(ExportableModelConformance):
    """A public tagger. A case defines `covers`, `options`, `changed` and, if needed, `make`."""

    fill = staticmethod(fill)
    deep: ClassVar[dict[str, Any]] = {}
    """Options with which the model has the depth of a real one."""
    attentions: ClassVar[int] = 0

    def make_deep(self) -> Any:
        """Return a model with the depth of a real one in the full tier."""
        return self.make_random(**(self.deep if FULL else {}))

    def inputs(self) -> Given:
        """Return all inputs of the model."""
        return self.inputs_of(self.make())

    def all_inputs(self) -> Given:
        return {**self.inputs(), "starts": STARTS}

    def inputs_of(self, model: Any) -> Given:
        inputs = {"tokens": TOKENS, "characters": CHARACTERS, "marks": MARKS}
        expected = {"characters": model.characters is not None, "marks": model.settings["marks"]}
        return {name: x for name, x in inputs.items() if expected.get(name, True)}

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        labels = np.where(TOKEN_MASK, TOKENS % len(TAGS), -1)
        return self.inputs_of(model), labels, model.make_loss()

    # masking rules

    def padded(self, where: str, pads: int) -> tuple[Given, np.ndarray]:
        """Return inputs with more padding, and the new index of each position."""
        length = TOKENS.shape[1]
        cut = {"right": length, "left": 0, "inside": length // 2}[where]
        positions = np.r_[0:cut, cut + pads : length + pads]
        longer = {}
        for name, x in self.inputs().items():
            longer[name] = np.zeros((len(x), length + pads, *x.shape[2:]), "int32")
            longer[name][:, positions] = x
        return longer, positions

    @pytest.mark.every_backend
    def test_padding_does_not_affect_outputs(self) -> None:
        model = self.make_deep()
        expected = emissions(model, self.inputs())
        for where in ("right", "left", "inside") if FULL else ("inside",):
            padded, positions = self.padded(where, 7)
            close(emissions(model, padded)[:, positions], expected, 1e-5)

    def test_values_at_padding_and_other_rows_do_not_affect_outputs(self) -> None:
        """Characters and features at padding have no effect."""
        model = self.make_deep()
        inputs = self.inputs()
        expected = emissions(model, inputs)
        dirty = {name: np.where(x == 0, 1, x) for name, x in inputs.items() if name != "tokens"}
        for name, x in dirty.items():
            valid = TOKEN_MASK.reshape(*TOKEN_MASK.shape, *(1,) * (x.ndim - 2))
            dirty[name] = np.where(valid, inputs[name], x)
        close(emissions(model, {**inputs, **dirty}), expected, 1e-5)
        for row in range(len(TOKENS)) if FULL else (1,):
            single = {name: x[row : row + 1, TOKEN_MASK[row]] for name, x in inputs.items()}
            close(emissions(model, single), expected[row : row + 1, TOKEN_MASK[row]], 1e-5)

    @pytest.mark.every_backend
    def test_all_inputs_affect_outputs(self) -> None:
        """Rules out constant outputs: a changed input changes outputs at other positions."""
        model = self.make_deep()
        inputs = self.inputs()
        expected = emissions(model, inputs)
        for name, x in inputs.items():
            other = x.copy()
            other[0, 0] = 1 - x[0, 0] if name == "marks" else 7
            shifted = np.abs(emissions(model, {**inputs, name: other}) - expected)
            assert (shifted[0].max(axis=-1) > 1e-4 * np.abs(expected).max()).sum() > 1, name
            assert not shifted[1:].any()

    # words

    @pytest.mark.every_backend
    def test_word_outputs_are_at_their_first_token(self) -> None:
        model, inputs = self.make_random(), self.inputs()
        expected = emissions(model, inputs)
        full = np.where(TOKEN_MASK, np.arange(1, 7), 0).astype("int32")
        close(emissions(model, {**inputs, "starts": full}), expected, 1e-6)
        got = emissions(model, {**inputs, "starts": STARTS})
        for row, word in zip(*np.nonzero(STARTS), strict=True):
            np.testing.assert_allclose(
                got[row, word], expected[row, STARTS[row, word] - 1], rtol=1e-4, atol=1e-5
            )
        padded, positions = self.padded("inside", 5)
        shifted = np.where(STARTS, positions[STARTS - 1] + 1, 0).astype("int32")
        close(emissions(model, {**padded, "starts": shifted}), got, 1e-5)

    def test_words_without_tokens_have_zero_outputs(self) -> None:
        model = self.make_random()
        wrong = np.array([[7, 0], [4, 1], [2, 99]], "int32")
        chain = unpack(model({**self.inputs(), "starts": wrong}))
        assert array(chain.mask).tolist() == [[False, False], [False, True], [False, False]]
        assert not array(chain.emissions)[[0, 0, 1, 2, 2], [0, 1, 0, 0, 1]].any()

    # execution modes

    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, policy: str) -> None:
        """Potentials are float32; every layer has the policy."""
        got = self.with_policy(policy)(self.inputs())
        assert keras.backend.standardize_dtype(got.dtype) == "float32"
        assert getattr(got, "_keras_mask", None) is None
        assert np.isfinite(array(got)).all()

    @pytest.mark.parametrize("sizes", [mark_full((0, 4)), (1, 1), (2, 3)], ids=str)
    def test_small_sizes(self, sizes: tuple[int, int]) -> None:
        model, inputs = self.make(), self.inputs()
        shapes = {name: (*sizes, *x.shape[2:]) for name, x in inputs.items()}
        ones = [np.ones(shape, "int32") for shape in shapes.values()]

        def call(*tensors: Any) -> Any:
            return model(dict(zip(shapes, tensors, strict=True)))

        got = (any_batch(call) if FULL else call)(*ones)
        assert got.shape == (sizes[0], sizes[1] + 7, 6)
        assert np.isfinite(array(got)).all()
        tags, scores = model.decode(got)
        assert (tags.shape, scores.shape) == (sizes, sizes[:1])

    @pytest.mark.every_backend
    @pytest.mark.parametrize("kind", ["softmax", "crf"])
    def test_gradients_are_finite(self, kind: str) -> None:
        """Finite for a batch with a row of padding only, and nonzero for every weight."""
        model = self.make_random(head={"kind": kind})
        names = list(inputs := self.inputs())
        rows = [np.concatenate([x, np.zeros_like(x[:1])]) for x in inputs.values()]
        labels = np.where(rows[0] != 0, rows[0] % 5, -1)
        loss = model.make_loss()
        work = differentiable(
            model, lambda *x: loss(labels, model(dict(zip(names, x, strict=True))))
        )
        value, _, by_weights = work(*rows)
        assert np.isfinite(value).all()
        assert_finite_and_nonzero(model, by_weights)

    @pytest.mark.every_backend
    def test_attention_weights_of_every_layer_are_returned(self) -> None:
        model, inputs = self.make_random(), self.inputs()
        got = model.attention(inputs)
        if not self.attentions:
            assert got is None
            return
        weights = array(got)
        assert weights.shape[:2] == (3, self.attentions)
        both = TOKEN_MASK[:, None, None, :, None] & TOKEN_MASK[:, None, None, None, :]
        assert not weights[np.broadcast_to(~both, weights.shape)].any()
        rows = np.broadcast_to(TOKEN_MASK[:, None, None], weights.shape[:4])
        np.testing.assert_allclose(weights.sum(-1), rows, atol=1e-5)
        padded, positions = self.padded("inside", 3)
        shifted = array(model.attention(padded))[:, :, :, positions][..., positions]
        close(shifted, weights, 1e-5)

    def test_invalid_inputs_are_rejected(self) -> None:
        model, inputs = self.make(), self.inputs()
        assert isinstance(model, Tagger)
        for name in inputs:
            others = {key: x for key, x in inputs.items() if key != name}
            with pytest.raises(ValueError, match=f"must be a dict with tokens.*, but {name} is"):
                model(others)
        with pytest.raises(ValueError, match=r"starts must be \(3, words\), got shape \(2, 3\)"):
            model({**inputs, "starts": STARTS[:2]})
        with pytest.raises(ValueError, match=r"potentials must be \(batch, words \+ tags \+ 2, 6"):
            model.decode(np.zeros((1, 9, 5), "float32"))

from __future__ import annotations

import keras
import numpy as np
import pytest

from attention_zoo.layers import WordDropout
from attention_zoo.layers.text.word_dropout import UNKNOWN
from tests.layers.conformance import LayerConformance
from tests.layers.running import MODES, array, compiled

TOKENS = np.random.default_rng(0).integers(2, 9, size=(50, 40)).astype("int32")
TOKENS[:, 30:] = 0


class TestWordDropout(LayerConformance):
    covers = WordDropout
    options = {"rate": 0.3}
    changed = {"rate": 0.4, "seed": 3}
    together = {}

    # Tokens are integers under every policy.
    test_dtype_policy = None
    test_dtype_argument_applies_to_every_weight = None

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        return (TOKENS[:batch],)

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES)
    def test_word_dropout_replaces_the_given_fraction(self, mode: str) -> None:
        layer = WordDropout(0.3, seed=1)
        got = array(compiled(lambda x: layer(x, training=True), mode)(TOKENS))
        assert got.dtype == "int32"
        assert not got[:, 30:].any()
        lost = got[:, :30] == UNKNOWN
        assert lost.mean() == pytest.approx(0.3, abs=0.03)
        np.testing.assert_array_equal(got[:, :30][~lost], TOKENS[:, :30][~lost])
        repeated = WordDropout(0.3, seed=1)(TOKENS, training=True)
        np.testing.assert_array_equal(array(repeated), got)

    def test_sampling_is_inactive_outside_training(self) -> None:
        for layer, training in ((WordDropout(0.5), None), (WordDropout(0.0), True)):
            np.testing.assert_array_equal(array(layer(TOKENS, training=training)), TOKENS)

    def test_masks_and_dtypes_are_passed_on(self) -> None:
        inputs = keras.Input((None,), dtype="int16")
        masked = keras.layers.Masking()(keras.Input((None, 2)))
        assert WordDropout(0.5, dtype="float16")(inputs).dtype == "int16"
        assert WordDropout(0.5).compute_mask(inputs, masked._keras_mask) is masked._keras_mask

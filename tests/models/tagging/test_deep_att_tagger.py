from __future__ import annotations

import keras
import numpy as np
import pytest

from attention_zoo.models import DeepAttTagger
from attention_zoo.models.tagging.deep_att_tagger import STACK, SUBLAYERS, DeepAttLayer
from tests.layers.running import array, randomise
from tests.models.tagger_conformance import TAGS, TaggerConformance, fit_and_evaluate
from tests.refusals import refuses

TINY = {
    "vocabulary_size": 13,
    "tags": TAGS,
    "embedding_dim": 6,
    "units": 8,
    "stack": {"num_layers": 2, "sublayer": "convolutional", "units": 12, "num_heads": 2},
    "characters": {"vocabulary_size": 8, "embedding_dim": 3, "units": 4},
}
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], "bool")


class TestDeepAttTagger(TaggerConformance):
    covers = DeepAttTagger
    options = {**TINY, "marks": True}
    deep = {"stack": {**TINY["stack"], "num_layers": 10}}
    attentions = 2
    small = {"stack": {**TINY["stack"], "num_layers": 1}}
    changed = {
        "vocabulary_size": 15,
        "tags": [*TAGS, "B-C"],
        "embedding_dim": 5,
        "units": 4,
        "stack": {"num_layers": 1, "sublayer": "feed_forward"},
        "head": {"kind": "crf", "tag_scheme": "BIO"},
        "characters": None,
        "dropout": 0.3,
        "word_dropout": 0.1,
        "marks": False,
    }


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * gain + shift


def run_lstm(
    x: np.ndarray, kernel: np.ndarray, recurrent_kernel: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """Return h at every position of a sentence `(T, D)`."""
    h = c = np.zeros(len(recurrent_kernel))
    states = []
    for now in x:
        i, f, new, o = np.split(now @ kernel + h @ recurrent_kernel + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def apply_sublayer(name: str, x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Apply a sublayer to a sentence `(T, D)`, following the paper."""
    if name == "feed_forward":
        first, b_1, second, b_2 = weights
        return np.maximum(x @ first + b_1, 0) @ second + b_2
    if name == "recurrent":
        return run_lstm(x, *weights[:3]) + run_lstm(x[::-1], *weights[3:])[::-1]
    kernel, bias = weights
    padded = np.pad(x, ((1, 1), (0, 0)))
    rows = [np.concatenate(padded[t : t + 3]) @ kernel + bias for t in range(len(x))]
    value, gate = np.split(np.array(rows), 2, axis=-1)
    return value * sigmoid(gate)


def attend(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    (q, bq), (k, bk), (v, bv), (o, bo) = zip(weights[::2], weights[1::2], strict=True)
    total = np.tile(bo, (len(x), 1))
    for head in range(q.shape[1]):
        query, key, value = (x @ w[:, head] + b[head] for w, b in ((q, bq), (k, bk), (v, bv)))
        scores = np.exp(query @ key.T / np.sqrt(q.shape[-1]))
        total = total + scores / scores.sum(-1, keepdims=True) @ value @ o[head]
    return total


@pytest.mark.parametrize("name", SUBLAYERS.names())
def test_layer_follows_the_paper(name: str) -> None:
    """Compare with float64, sentence by sentence, without padding."""
    layer = DeepAttLayer({**STACK, "sublayer": name, "units": 12, "num_heads": 2}, 0.1)
    layer.build((None, None, 6))
    randomise(layer)
    x = np.random.default_rng(0).normal(size=(2, 4, 6)).astype("float32")
    x[~MASK] = np.nan
    got = array(layer(x, mask=MASK))
    assert not got[~MASK].any()
    of = {
        part: [array(w) for w in getattr(layer, part).weights]
        for part in ("sublayer", "sublayer_residual", "attention", "attention_residual")
    }
    for row, valid in enumerate(MASK):
        expected = x[row, valid].astype("float64")
        expected = norm(
            expected + apply_sublayer(name, expected, of["sublayer"]), *of["sublayer_residual"]
        )
        expected = norm(expected + attend(expected, of["attention"]), *of["attention_residual"])
        np.testing.assert_allclose(got[row, valid], expected, atol=1e-4)


@pytest.mark.full
def test_learns_order_with_fit() -> None:
    """The tag of a word depends on the previous word, so it requires positions."""
    rng = np.random.default_rng(0)
    words = rng.integers(3, 9, size=(256, 5)).astype("int32")
    words[::2, 4] = 0
    labels = np.where(words > 0, np.pad(words[:, :-1] % 2, ((0, 0), (1, 0))), -1)
    stack = {**TINY["stack"], "num_layers": 1, "sublayer": "feed_forward"}
    model = DeepAttTagger(9, ["O", "B-A"], 16, 16, stack, dropout=0.0)
    assert fit_and_evaluate(model, words, labels, 0.01, 30) > 0.97


@pytest.mark.full
def test_parameter_count_follows_the_paper() -> None:
    """By hand; two norms a layer, and every map with its bias."""
    inputs = {"vocabulary_size": 1000, "tags": TAGS}
    embeddings = 1000 * 100 + 2 * 100
    attention = 4 * (200 * 200 + 200)
    norms, head = 2 * 2 * 200, 200 * 5 + 5
    for name, sublayer in (
        ("deep_att_ffn", 200 * 800 + 800 + 800 * 200 + 200),
        ("deep_att_cnn", 3 * 200 * 400 + 400),
        ("deep_att_rnn", 2 * 4 * (200 + 200 + 1) * 200),
    ):
        count = 10 if name == "deep_att_ffn" else 2
        model = DeepAttTagger.from_preset(name, **inputs, stack={"num_layers": count})
        assert model.count_params() == embeddings + count * (sublayer + attention + norms) + head
    small = DeepAttTagger.from_preset("deep_att_small", **inputs, characters={"vocabulary_size": 8})
    assert small.features.width == small.settings["units"] == 128
    assert small.settings["stack"]["num_heads"] == 4


def test_inputs_of_a_different_width_are_projected() -> None:
    assert isinstance(DeepAttTagger(**TINY).project, keras.layers.Dense)
    same = DeepAttTagger(**{**TINY, "units": 10})
    assert isinstance(same.project, keras.layers.Identity)


@refuses(
    ({"sublayer": "recurent"}, "unknown sublayer 'recurent'; did you mean 'recurrent'"),
    ({"heads": 2}, "stack has no option 'heads'; did you mean 'num_heads'"),
    ({"num_layers": 0}, "stack.num_layers must be at least 1, got 0"),
    ({"num_heads": 3}, "stack.num_heads must divide units, got stack.num_heads=3, units=8"),
)
def test_invalid_stacks_are_rejected(stack: dict) -> None:
    DeepAttTagger(**{**TINY, "stack": stack})

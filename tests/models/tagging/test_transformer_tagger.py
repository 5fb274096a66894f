from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.models import BERT, TransformerTagger
from attention_zoo.models.tagging.windows import Windows, make_windows
from tests.layers.running import array
from tests.models.encoder_conformance import fill
from tests.models.language.test_bert import TINY as BERT_TINY
from tests.models.tagger_conformance import TAGS, TOKENS, TaggerConformance, fit_and_evaluate, run
from tests.tiers import FULL, mark_full, mark_others_full

TINY = {**BERT_TINY, "use_pooler": False, "max_length": 60}


class TestTransformerTagger(TaggerConformance):
    covers = TransformerTagger
    options = {"bert": TINY, "tags": TAGS, "marks": True}
    deep = {"bert": {**TINY, "num_layers": 12}}
    attentions = TINY["num_layers"]
    changed = {
        "bert": {**TINY, "num_layers": 1},
        "tags": [*TAGS, "B-C"],
        "head": {"kind": "softmax", "tag_scheme": "BIO"},
        "dropout": 0.3,
        "marks": False,
        "class_token": True,
        "aggregation": "max",
        "window": 8,
    }

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Return outputs, whether the task adds a class token, and the limit of the length."""
        facts = model.has_class_token, model.max_length or 0
        return [*super().behaviour(model, training), np.array(facts)]


@pytest.mark.full
def test_learns_with_fit_around_an_existing_bert() -> None:
    bert = BERT(**{**TINY, "embedding_dim": 16, "num_layers": 1, "dropout": 0.0})
    before = array(bert.token_embedding.embeddings)
    model = TransformerTagger(bert, ["O", "B-A"], dropout=0.0)
    assert model.bert is bert
    assert model.token_embedding is bert.token_embedding
    words = np.random.default_rng(0).integers(3, 9, size=(128, 5)).astype("int32")
    words[::2, 4] = 0
    labels = np.where(words > 0, words % 2, -1)
    assert fit_and_evaluate(model, words, labels, 0.01, 20) > 0.97
    assert np.abs(array(bert.token_embedding.embeddings) - before).max() > 0.01


def test_states_equal_those_of_bert() -> None:
    bert = BERT(**TINY)
    model = TransformerTagger(bert, TAGS)
    kernel, bias = (array(w) for w in model.head.weights)
    expected = array(bert({"tokens": TOKENS})["hidden"]) @ kernel + bias
    got = run(model, {"tokens": TOKENS})[:, : TOKENS.shape[1], :5]
    np.testing.assert_allclose(got[TOKENS > 0], expected[TOKENS > 0], atol=1e-5)


@pytest.mark.parametrize("aggregation", ["first", "average", "max"])
@pytest.mark.parametrize("class_token", [False, True])
def test_probabilities_of_words_with_several_tokens(aggregation: str, class_token: bool) -> None:
    """In row 0, word 1 has tokens 2 and 3, word 2 has token 4, and word 3 has the later ones."""
    model = TransformerTagger(TINY, TAGS, aggregation=aggregation, class_token=class_token)
    fill(model)
    tokens = np.array([[2, 5, 6, 7, 8, 9, 3, 0], [0, 2, 5, 6, 7, 0, 8, 3]], "int32")
    starts = np.array([[2, 4, 5, 0], [3, 0, 4, 0]], "int32")
    potentials = model({"tokens": tokens, "starts": starts})
    hidden = array(model.bert({"tokens": tokens})["hidden"])
    logits = hidden @ array(model.head.emit.kernel) + array(model.head.emit.bias)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities = weights / weights.sum(-1, keepdims=True)
    last = 6 if class_token else 7
    words = {(0, 0): [1, 2], (0, 1): [3], (0, 2): [*range(4, last)]}
    words |= {(1, 0): [2], (1, 2): [3, 4, 6] if class_token else [3, 4, 6, 7]}
    got = array(model.marginals(potentials))
    for (row, word), members in words.items():
        token_probabilities = probabilities[row, members]
        best = token_probabilities[token_probabilities.max(-1).argmax()]
        want = {
            "first": token_probabilities[0],
            "average": token_probabilities.mean(0),
            "max": best,
        }[aggregation]
        np.testing.assert_allclose(got[row, word], want, atol=1e-5)
    assert not got[0, 3].any()


@pytest.mark.parametrize("aggregation", ["average", "max"])
def test_empty_inputs_and_nan(aggregation: str) -> None:
    model = TransformerTagger(TINY, TAGS, aggregation=aggregation)
    tokens, starts = np.array([[2, 5, 6], [0, 0, 0]], "int32"), np.array([[1, 3], [0, 0]], "int32")
    for inputs in ((tokens[:0], starts[:0]), (tokens[:, :0], starts), (tokens, starts[:, :0])):
        potentials = model(dict(zip(("tokens", "starts"), inputs, strict=True)))
        assert not array(model.marginals(potentials))[1:].any()
        assert potentials.shape[0] == len(inputs[0])
    model.head.emit.bias.assign(np.full(len(TAGS), np.nan))
    assert np.isnan(array(model({"tokens": tokens, "starts": starts})[0])).any()


def test_aggregation_needs_a_softmax() -> None:
    with pytest.raises(ValueError, match="aggregation must be 'first' with a crf head, got 'max'"):
        TransformerTagger(TINY, TAGS, head={"kind": "crf"}, aggregation="max")
    with pytest.raises(ValueError, match="aggregation must be one of"):
        TransformerTagger(TINY, TAGS, aggregation="last")


def test_inputs_are_those_of_bert() -> None:
    model = TransformerTagger(TINY, TAGS)
    assert (model.vocabulary_size, model.max_length, model.characters) == (13, 60, None)
    with pytest.raises(ValueError, match="sequence length 61 of tokens exceeds max_length=60"):
        model({"tokens": np.ones((1, 61), "int32")})
    with pytest.raises(ValueError, match="bert must be a BERT or its arguments, got 'bert_tiny'"):
        TransformerTagger("bert_tiny", TAGS)
    with pytest.raises(ValueError, match=r"marks need a bert with num_seg.* got num_segments=1"):
        TransformerTagger({**TINY, "num_segments": 1}, TAGS, marks=True)


def test_presets_equal_those_of_bert(tmp_path: Path) -> None:
    sizes = {"vocabulary_size": 7, "embedding_dim": 4, "units": 4, "num_heads": 2}
    model = TransformerTagger.from_preset(
        "bert_tiny", **sizes, tags=TAGS, head={"kind": "crf"}, dropout=0.2, name="tagger"
    )
    assert model.bert.settings["num_layers"] == 2
    assert (model.name, model.settings["dropout"]) == ("tagger", 0.2)
    model.save_to_preset(tmp_path / "saved")
    repeated = TransformerTagger.from_preset(tmp_path / "saved", dropout=0.0)
    assert repeated.settings == {**model.settings, "dropout": 0.0}
    with pytest.raises(ValueError, match="Transformer has no argument"):
        TransformerTagger.from_preset("transformer_tiny", vocabulary_size=7, tags=TAGS)


def list_windows(length: int, window: int, class_token: bool) -> list[list[int]]:
    """Return the positions of the windows of a sentence; the first that reaches its end is last."""
    special = [0, length - 1] if class_token else []
    others = [token for token in range(length) if token not in special]
    size, windows = window - len(special), []
    for start in range(0, max(len(others), 1), size // 2):
        windows.append(sorted({*special, *others[start : start + size]}))
        if start + size >= len(others):
            break
    return windows


def find_window(token: int, windows: list[list[int]], class_token: bool) -> int:
    """Return the index of the window in which a token is farthest from both ends, else the later.

    The ends of the sentence do not count; the class token is in the first window, and the end token
    in the last.
    """
    first, last = 0, max(map(max, windows))
    if class_token and token in (first, last):
        return 0 if token == first else len(windows) - 1
    margins = []
    for index, positions in enumerate(windows):
        inside = [n for n in positions if not class_token or n not in (first, last)]
        left = token - inside[0] if index > 0 else len(inside)
        right = inside[-1] - token if index < len(windows) - 1 else len(inside)
        margins.append(min(left, right))
    return max(range(len(windows)), key=lambda index: (margins[index], index))


WINDOWS: list[tuple[int, bool, list[int]]] = [
    (8, True, [11, 8]),
    (8, True, [17, 8, 3]),
    (8, True, [8, 7, 2]),
    (8, True, [60, 33, 16]),
    (5, True, [21, 6, 5]),
    (8, False, [17, 9, 8, 1]),
    (8, False, [8, 1]),
    (4, False, [23, 12, 4]),
]


@pytest.mark.parametrize("case", mark_others_full(WINDOWS), ids=str)
def test_long_sentences_are_split_into_windows(case: tuple[int, bool, list[int]]) -> None:
    """The potentials and weights of a token are those of its window, encoded as a sentence."""
    window, class_token, lengths = case
    options = {"bert": {**TINY, "num_layers": 1}, "tags": TAGS, "class_token": class_token}
    plain, model = TransformerTagger(**options), TransformerTagger(**options, window=window)
    fill(plain)
    model.set_weights(plain.get_weights())
    rng = np.random.default_rng(0)
    tokens = rng.integers(4, 9, size=(len(lengths), max(lengths))).astype("int32")
    tokens *= np.arange(max(lengths)) < np.array(lengths)[:, None]
    potentials, weights = run(model, {"tokens": tokens}), array(model.attention({"tokens": tokens}))
    for row, length in enumerate(lengths):
        windows = list_windows(length, window, class_token)
        for token in range(length) if FULL else [length - 2]:
            inside = windows[find_window(token, windows, class_token)]
            alone, at = {"tokens": tokens[row, inside][None]}, inside.index(token)
            want = run(plain, alone)[0, at, : len(TAGS)]
            np.testing.assert_allclose(potentials[row, token, : len(TAGS)], want, atol=1e-5)
            expected = np.zeros((1, 2, max(lengths)), "float32")
            expected[..., inside] = array(plain.attention(alone))[0, :, :, at]
            np.testing.assert_allclose(weights[row, :, :, token], expected, atol=1e-5)


def list_positions(row: np.ndarray, length: int) -> list[list[int]]:
    """Return the positions of the windows of a row, without padding and empty windows."""
    windows = [[int(position) for position in window if position < length] for window in row]
    return [window for window in windows if window]


def assert_windows(windows: Windows, lengths: Any, window: int, class_token: bool) -> None:
    """Compare the windows of sentences with those of `list_windows` and `find_window`."""
    positions, inverse, indices = map(array, windows)
    for row, size in enumerate(lengths):
        expected = list_windows(size, window, class_token)
        assert list_positions(positions[row], size) == (expected if size else [])
        found = [find_window(token, expected, class_token) for token in range(size)]
        assert indices[row, :size].tolist() == found
        at = inverse[row, indices[row, :size], np.arange(size)]
        assert positions[row, indices[row, :size], at].tolist() == list(range(size))


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("window", [5, mark_full(4), *map(mark_full, range(6, 14))])
def test_windows_are_those_of_the_definition(window: int, class_token: bool) -> None:
    """The last window is no subset of the one before it, and a sentence of one window is whole."""
    for length in range(1, 45) if FULL else (1, window, 20):
        lengths = [0, *range(1 + class_token, length + 1)]
        mask = np.arange(length) < np.array(lengths)[:, None]
        windows = make_windows(mask, window, class_token)
        assert_windows(windows, lengths, window, class_token)
        positions = array(windows.positions)
        assert positions.shape[2] <= max(window, 3)
        for row, size in enumerate(lengths):
            used = list_positions(positions[row], size)
            assert not any(set(one) <= set(other) for one, other in permutations(used, 2))


def test_windows_end_at_the_end_of_the_sentence() -> None:
    mask = np.ones((1, 767), bool)
    assert make_windows(mask, 512, True).positions.shape == (1, 2, 512)
    assert make_windows(np.ones((1, 768), bool), 512, True).positions.shape == (1, 3, 512)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="shape polymorphism of JAX")
@pytest.mark.parametrize("class_token", [False, True])
def test_windows_of_symbolic_lengths(class_token: bool) -> None:
    """Exported windows are those of static lengths, and possibly empty ones."""
    import jax

    shape = jax.export.symbolic_shape("b, p")
    function = jax.jit(lambda mask: tuple(make_windows(mask, 8, class_token)))
    exported = jax.export.export(function)(jax.ShapeDtypeStruct(shape, "bool"))
    assert str(exported.out_avals[0].shape[2]) == "8"
    for length in (1, 2, 7, 8, 9, 21):
        lengths = [0, *range(1 + class_token, length + 1)]
        mask = np.arange(length) < np.array(lengths)[:, None]
        assert_windows(Windows(*exported.call(mask)), lengths, 8, class_token)


@pytest.mark.parametrize("class_token", [False, True])
def test_windows_of_a_functional_model(class_token: bool) -> None:
    options = {"bert": {**TINY, "num_layers": 1}, "tags": TAGS, "class_token": class_token}
    model = TransformerTagger(**options, window=8)
    tokens = keras.Input((None,), dtype="int32")
    functional = keras.Model(tokens, model({"tokens": tokens}))
    inputs = np.random.default_rng(0).integers(4, 9, size=(2, 21)).astype("int32")
    expected = run(model, {"tokens": inputs})
    np.testing.assert_allclose(array(functional(inputs)), expected, atol=1e-5)


def test_windows_of_empty_inputs_and_padding_anywhere() -> None:
    model = TransformerTagger({**TINY, "num_layers": 1}, TAGS, class_token=True, window=6)
    for shape in ((0, 9), (2, 0), (2, 1)):
        assert run(model, {"tokens": np.zeros(shape, "int32")}).shape[0] == shape[0]
    tokens = np.random.default_rng(0).integers(4, 9, size=(2, 14)).astype("int32")
    moved = np.insert(np.insert(tokens, 0, 0, axis=1), 7, 0, axis=1)
    expected = run(model, {"tokens": tokens})[:, :14, : len(TAGS)]
    got = run(model, {"tokens": moved})[:, :16, : len(TAGS)]
    np.testing.assert_allclose(np.delete(got, [0, 7], axis=1), expected, atol=1e-5)


def test_a_window_fits_into_the_bert() -> None:
    for window, limit in ((3, "at least 4"), (61, "at most 60")):
        with pytest.raises(ValueError, match=f"window must be {limit}, got {window}"):
            TransformerTagger(TINY, TAGS, window=window)

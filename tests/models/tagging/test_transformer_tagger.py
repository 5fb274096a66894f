from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.models import BERT, TransformerTagger
from tests.layers.running import array
from tests.models.encoder_conformance import fill
from tests.models.language.test_bert import TINY as BERT_TINY
from tests.models.tagger_conformance import TAGS, TOKENS, TaggerConformance, fit_and_evaluate, run
from tests.tiers import FULL, mark_others_full

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


def list_window(token: int, length: int, window: int, class_token: bool) -> list[int]:
    """Return the positions of the window that represents a token of a sentence."""
    first = int(class_token)
    size = window - 2 * first
    stride = size // 2
    start = first + stride * max((token - first - stride // 2) // stride, 0)
    inside = list(range(start, min(start + size, length)))
    if class_token:
        inside = [0, *inside] if inside[-1] == length - 1 else [0, *inside, length - 1]
    return inside


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
def test_long_sentences_are_read_in_windows(case: tuple[int, bool, list[int]]) -> None:
    """The potentials and weights of a token are those of its window, read as a sentence."""
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
        for token in range(length) if FULL else [length // 2]:
            inside = list(range(length))
            if length > window:
                inside = list_window(token, length, window, class_token)
            alone, at = {"tokens": tokens[row, inside][None]}, inside.index(token)
            want = run(plain, alone)[0, at, : len(TAGS)]
            np.testing.assert_allclose(potentials[row, token, : len(TAGS)], want, atol=1e-5)
            expected = np.zeros((1, 2, max(lengths)), "float32")
            expected[..., inside] = array(plain.attention(alone))[0, :, :, at]
            np.testing.assert_allclose(weights[row, :, :, token], expected, atol=1e-5)


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

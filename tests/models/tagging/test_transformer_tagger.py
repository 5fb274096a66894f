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
    }

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Return outputs, and whether the task adds a class token."""
        return [*super().behaviour(model, training), np.array(model.has_class_token)]


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

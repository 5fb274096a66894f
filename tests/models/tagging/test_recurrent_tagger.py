from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.models import RecurrentTagger
from attention_zoo.ops import tag_constraints
from tests.layers.running import array, arrays, close, randomise
from tests.models.encoder_conformance import TOKEN_MASK
from tests.models.tagger_conformance import (
    CHARACTERS,
    TAGS,
    TOKENS,
    TaggerConformance,
    emissions,
    fit_and_evaluate,
)
from tests.refusals import refuses

TINY = {
    "vocabulary_size": 13,
    "tags": TAGS,
    "embedding_dim": 6,
    "units": 8,
    "characters": {"vocabulary_size": 8, "embedding_dim": 3, "units": 4},
}


class TestRecurrentTagger(TaggerConformance):
    covers = RecurrentTagger
    options = {**TINY, "marks": True, "attention": {"num_heads": 2, "key_dim": 3}}
    deep = {"units": [8, 6, 8]}
    attentions = 1
    changed = {
        "vocabulary_size": 15,
        "tags": [*TAGS, "B-C"],
        "embedding_dim": 5,
        "units": [4, 6],
        "attention": None,
        "head": {"kind": "crf", "tag_scheme": "BIO"},
        "characters": {"kind": "lstm", "vocabulary_size": 9, "units": 4},
        "dropout": 0.2,
        "word_dropout": 0.1,
        "marks": False,
    }

    @pytest.mark.parametrize("kind", ["softmax", "crf"])
    def test_decoded_tags_follow_the_scheme(self, kind: str) -> None:
        model = self.make_random(head={"kind": kind, "tag_scheme": "BIO"})
        potentials = model(self.inputs())
        tags, scores = arrays(model.decode(potentials, 4))
        rules = tag_constraints("BIO", TAGS)
        for row, valid in enumerate(TOKEN_MASK):
            assert (np.diff(scores[row]) <= 0).all()
            for some in tags[row][np.isfinite(scores[row])]:
                assert rules.find_first_violation(some[valid]) is None
        best, score = arrays(model.decode(potentials))
        np.testing.assert_array_equal(best, tags[:, 0])
        np.testing.assert_allclose(score, scores[:, 0], rtol=1e-5)
        probabilities = array(model.marginals(potentials))
        np.testing.assert_allclose(probabilities.sum(-1), TOKEN_MASK, atol=1e-5)
        assert not probabilities[:, 0, [2, 4]].any()  # no sentence begins inside a span

    def test_softmax_tagger_predicts_each_word_independently(self) -> None:
        """Marginals are the softmax, and the best tags its argmax."""
        model, inputs = self.make_random(head=None), self.inputs()
        energies = emissions(model, inputs)
        probabilities = np.exp(energies) / np.exp(energies).sum(-1, keepdims=True)
        potentials = model(inputs)
        got = array(model.marginals(potentials))
        np.testing.assert_allclose(got, probabilities * TOKEN_MASK[..., None], atol=1e-5)
        tags = array(model.decode(potentials)[0])
        np.testing.assert_array_equal(tags[TOKEN_MASK], energies.argmax(-1)[TOKEN_MASK])

    def test_losses(self) -> None:
        crf, softmax = self.make(head={"kind": "crf"}), self.make(head=None)
        assert type(crf.make_loss()) is az.losses.CRFLoss
        assert softmax.make_loss(0.1).label_smoothing == 0.1
        with pytest.raises(ValueError, match=r"label_smoothing must be 0 .* 'crf', got 0\.1"):
            crf.make_loss(0.1)


def test_embeddings_are_initialized_uniformly() -> None:
    """Ma and Hovy 2016, section 3.1: within sqrt(3 / dim) of 0."""
    model = TestRecurrentTagger().make(vocabulary_size=500, embedding_dim=12)
    largest = np.abs(array(model.features.token_embedding.embeddings)).max()
    assert 0.49 < largest <= 0.5


def make_sentences(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sentences with spans of two types, which depend on the previous word."""
    rng = np.random.default_rng(0)
    words = rng.integers(3, 13, size=(rows, 5)).astype("int32")
    words[:, 4] = 0
    begins = np.pad(words[:, :-1] < 7, ((0, 0), (1, 0)))
    labels = np.where(begins, np.where(words % 2, 1, 3), 0)
    return words, np.where(words > 0, labels, -1)


def test_characters_by_an_lstm_and_no_attention() -> None:
    model = RecurrentTagger(**{**TINY, "characters": {**TINY["characters"], "kind": "lstm"}})
    randomise(model)
    inputs = {"tokens": TOKENS, "characters": CHARACTERS}
    pads = ((0, 0), (2, 1))
    padded = {name: np.pad(x, (*pads, *[(0, 0)] * (x.ndim - 2))) for name, x in inputs.items()}
    close(emissions(model, padded)[:, 2:-1], emissions(model, inputs), 1e-5)
    assert model.attention(inputs) is None


@pytest.mark.full
@pytest.mark.parametrize("kind", ["softmax", "crf"])
def test_learns_with_fit(kind: str) -> None:
    words, labels = make_sentences(256)
    model = RecurrentTagger(13, TAGS, 8, 16, head={"kind": kind}, dropout=0.0, word_dropout=0.01)
    assert fit_and_evaluate(model, words, labels, 0.03, 10) > 0.97


def test_one_width_is_one_layer() -> None:
    one, listed = RecurrentTagger(**TINY), RecurrentTagger(**{**TINY, "units": [8]})
    assert one.count_params() == listed.count_params()
    assert one.settings["units"] == 8


def test_parameter_counts_follow_the_papers() -> None:
    """By hand: embeddings, characters, LSTMs (4 (in + D + 1) D a direction), emissions, CRF."""
    inputs = {"vocabulary_size": 1000, "tags": TAGS, "characters": {"vocabulary_size": 80}}
    crf = 5 * 5 + 5 + 5
    lample = RecurrentTagger.from_preset("bilstm_crf", **inputs)
    characters = 80 * 25 + 2 * 4 * (25 + 25 + 1) * 25
    lstm = 2 * 4 * (100 + 50 + 100 + 1) * 100
    assert lample.count_params() == 1000 * 100 + characters + lstm + 200 * 5 + 5 + crf
    hovy = RecurrentTagger.from_preset("bilstm_cnn_crf", **inputs)
    characters = 80 * 30 + 3 * 30 * 30 + 30
    lstm = 2 * 4 * (100 + 30 + 200 + 1) * 200
    assert hovy.count_params() == 1000 * 100 + characters + lstm + 400 * 5 + 5 + crf
    small = RecurrentTagger.from_preset("tagger_small", **{**inputs, "characters": None})
    assert small.characters is None
    assert small.count_params() == 1000 * 100 + 2 * 4 * (100 + 100 + 1) * 100 + 200 * 5 + 5


@refuses(
    ({"characters": {}}, "characters needs a vocabulary_size"),
    ({"characters": {"vocabulary_size": 0}}, "characters' vocabulary_size must be at least 1"),
    ({"characters": {"vocabulary_size": 9, "kind": "cnm"}}, "character encoder 'cnm'; did you"),
    (
        {"characters": {"vocabulary_size": 9, "kind": "lstm", "width": 3}},
        "characters.kind='lstm' has no option 'width'",
    ),
    ({"characters": "cnn"}, "characters must be a dict"),
    ({"tags": "O"}, "tags must be a list of names, at least one, got 'O'"),
    ({"tags": []}, "tags must be a list of names"),
    ({"head": {"kind": "soft"}}, "unknown tagger's head 'soft'; did you mean 'softmax'"),
    ({"head": {"scheme": "BIO"}}, "head has no option 'scheme'; did you mean 'tag_scheme'"),
    ({"head": "crf"}, r"head must be a dict of options.*, got 'crf' \(known: kind, tag_scheme\)"),
    ({"units": None}, "units must be an integer of at least 1, got None"),
    ({"units": [3, None]}, "units must be an integer of at least 1, got None"),
    ({"attention": {"heads": 2, "key_dim": 3}}, "attention has no option 'heads'; did you mean"),
    ({"attention": {"num_heads": 2}}, "attention needs the option 'key_dim'"),
    ({"attention": 2}, "attention must be a dict of options"),
    ({"head": {"tag_scheme": "BIOX"}}, "unknown tag scheme 'BIOX'; did you mean"),
    *(({"units": units}, "units") for units in ([], 0, [7], "wide")),
)
def test_invalid_options_are_rejected(options: dict) -> None:
    RecurrentTagger(**{**TINY, **options})


def test_word_vectors_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("cat 1 2 3 4 5 6\nDOG 6 5 4 3 2 1\n")
    vocabulary = ["<pad>", "<unk>", "<s>", "</s>", "Cat", "DOG", *"abcdefg"]
    model = RecurrentTagger(**TINY)
    before = array(model.token_embedding.embeddings)
    assert model.load_word_vectors(path, vocabulary) == 2
    after = array(model.token_embedding.embeddings)
    np.testing.assert_array_equal(after[4:6], [[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])
    np.testing.assert_array_equal(np.delete(after, [4, 5], 0), np.delete(before, [4, 5], 0))
    with pytest.raises(ValueError, match="the vocabulary has 3 tokens, the model 13"):
        model.load_word_vectors(path, vocabulary[:3])
    path.write_text("cat 1 2\n")
    with pytest.raises(ValueError, match=r"vectors.txt: vectors of width 2, .* embedding_dim=2"):
        model.load_word_vectors(path, vocabulary)

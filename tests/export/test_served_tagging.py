"""An exported tagger answers as the task does, in a process that has TensorFlow alone."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models
from attention_zoo.data import Tokenizer, train_tokenizer
from attention_zoo.decoding import Automaton
from attention_zoo.export import export
from attention_zoo.metrics import invalid_sequences
from attention_zoo.tasks import Tagging
from tests.export.test_saved_model import ALONE, read, served

TEXTS = [
    "Ada Lamp didn't send 1,000.5 lamps to York.",
    "  Ida 😀👍🏽  saw\tthe 東京 tower\u200b, no? ",
    "x",
    "ↄ שלום e\u0301-b ÉCOLE " + "lamps, " * 5,
]
TAGS = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("PER", "LOC"))]
CHARACTERS = {"embedding_dim": 4, "units": 5}


def tokenizer(kind: str, lowercase: bool = False) -> Tokenizer:
    texts = [" ".join(TEXTS[0].split()), "Ida saw lamps , no ?"]
    return train_tokenizer(kind, texts, 40, lowercase)


@functools.cache
def task(kind: str) -> Tagging:
    """Taggers with random weights: by characters with a constrained CRF, by subwords, plain."""
    head, letters, tokens = {"kind": "softmax", "tag_scheme": "BIOES"}, None, tokenizer("subword")
    more: dict[str, Any] = {"attention": {"num_heads": 2, "key_dim": 3}}
    if kind == "characters":
        head, letters = {"kind": "crf", "tag_scheme": "BIOES"}, tokenizer("character")
        tokens = tokenizer("whitespace", lowercase=True)
        own = {"vocabulary_size": letters.vocabulary_size, **CHARACTERS}
        more = {"characters": {"kind": "cnn", **own}}
    if kind == "plain":
        head = {"kind": "softmax"}
    model = models.RecurrentTagger(
        tokens.vocabulary_size, tags=TAGS, embedding_dim=6, units=8, head=head, **more
    )
    rng = np.random.default_rng(1)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    scheme = None if kind == "plain" else "BIOES"
    return Tagging(model, tokens, letters, max_length=30, scheme=scheme)


def assert_same(answers: dict[str, Any], own: Tagging, texts: Sequence[str]) -> None:
    """What is served is what `predict` gives, and nothing stands past its end."""
    assert len(answers["words"]) == len(texts)
    for row, want in enumerate(own.predict(texts)):
        size = len(want.words)
        assert answers["lengths"][row] == size
        for name, told, nothing in (
            ("words", want.words, ""),
            ("tags", want.tags, ""),
            ("span_labels", [span.label for span in want.spans], ""),
            ("offsets", want.offsets, (0, 0)),
            ("spans", [(span.start, span.end) for span in want.spans], (0, 0)),
        ):
            got = [tuple(x) if np.ndim(x) else x for x in answers[name][row]]
            assert got == [*told, *[nothing] * (len(got) - len(told))], name
        for name, told in (
            ("probabilities", want.probabilities),
            ("span_probabilities", [span.probability for span in want.spans]),
        ):
            got = np.array(answers[name][row])
            np.testing.assert_allclose(got[: len(told)], told, rtol=1e-4, atol=1e-6)
            assert not got[len(told) :].any()
        np.testing.assert_allclose(answers["scores"][row], want.score, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("served")
    return {kind: export(task(kind), folder / kind) for kind in ("characters", "subwords", "plain")}


def test_tensorflow_alone_answers_like_the_task(folders: dict[str, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, str(folders["characters"])],
        input=json.dumps(TEXTS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert_same(answers, task("characters"), TEXTS)


@pytest.mark.parametrize("kind", ["characters", "subwords", "plain"])
def test_sentences_are_answered_like_the_task(kind: str, folders: dict[str, Path]) -> None:
    for texts in (TEXTS, TEXTS[2:3]):
        answers = read(served(folders[kind], texts))
        assert_same(answers, task(kind), texts)
    spans = read(served(folders[kind], TEXTS))["spans"]
    assert spans.any() == (kind != "plain")


@pytest.mark.parametrize("kind", ["characters", "subwords"])
def test_constrained_tags_keep_the_scheme(kind: str, folders: dict[str, Path]) -> None:
    rng = np.random.default_rng(0)
    words = np.array(["Ada", "Lamp", "send", "York", ".", "lamps", "zzz"])
    texts = [" ".join(rng.choice(words, size)) for size in rng.integers(1, 20, 40)]
    answers = read(served(folders[kind], texts))
    tags = [list(row[:size]) for row, size in zip(answers["tags"], answers["lengths"], strict=True)]
    assert invalid_sequences(tags, "BIOES") == 0
    assert len({tag for row in tags for tag in row}) > 3


@pytest.mark.parametrize("kind", ["characters", "subwords"])
def test_no_sentences(kind: str, folders: dict[str, Path]) -> None:
    answers = served(folders[kind], [])
    for name in ("scores", "lengths"):
        assert answers[name].shape == (0,)
    for name in ("words", "tags", "probabilities", "span_labels", "span_probabilities"):
        assert answers[name].shape == (0, 0)
    assert answers["offsets"].shape == answers["spans"].shape == (0, 0, 2)
    assert task(kind).predict([]) == []


def test_what_predict_refuses_is_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"source.*1.*is empty"):
        served(folders["subwords"], ["a cat", " \u200b"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"source.*0.*31.*the limit is.*30"):
        served(folders["characters"], ["lamps " * 31, "a"])


def test_what_has_no_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rules are for searches, and tagging has none"):
        export(task("plain"), tmp_path / "new", rules=[Automaton(np.zeros((1, 9), int))])
    own = task("plain")
    settings = {**own.model.settings, "marks": True}
    marked = Tagging(models.RecurrentTagger(**settings), own.tokenizer)
    with pytest.raises(ValueError, match="reads marked words, which a sentence cannot tell"):
        export(marked, tmp_path / "new")
    assert not list(tmp_path.iterdir())

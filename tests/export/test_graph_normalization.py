"""NFC in a graph equals that of `unicodedata`."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.export.graph_normalization import END, GraphNormalizer

EVERY = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


@pytest.fixture(scope="module")
def normalizer() -> GraphNormalizer:
    return GraphNormalizer()


def assert_normalized(normalizer: GraphNormalizer, texts: Sequence[str]) -> None:
    normalize = tf.function(normalizer.__call__, autograph=False)
    found = [text.decode() for text in normalize(tf.constant(list(texts), tf.string)).numpy()]
    assert found == [unicodedata.normalize("NFC", text) for text in texts]


def test_written_forms(normalizer: GraphNormalizer) -> None:
    texts = [
        "dîner",
        "",
        "한국어 ấ Ω",
        "\u0301a",
        "a\u0323\u0307\u0301",
        "\u1100\u1161\u11a8\u11a8",
    ]
    assert_normalized(normalizer, [*texts, *(unicodedata.normalize("NFD", t) for t in texts)])
    assert_normalized(normalizer, ["plain", "東京 😀"])
    assert_normalized(normalizer, [])


def test_invalid_utf8_does_not_prevent_normalization(normalizer: GraphNormalizer) -> None:
    (text,) = normalizer(tf.constant([b"\xff e\xcc\x81"])).numpy()
    assert text.decode() == "\ufffd é"


@pytest.mark.full
def test_every_character_and_its_decomposition(normalizer: GraphNormalizer) -> None:
    decomposed = [c for c in EVERY if not unicodedata.is_normalized("NFD", c)]
    marks = [c for c in EVERY if unicodedata.combining(c)]
    assert max(map(ord, [*decomposed, *marks])) < END
    assert_normalized(normalizer, [unicodedata.normalize("NFD", c) for c in decomposed])
    assert_normalized(normalizer, [*decomposed, *marks])


def test_random_sequences(normalizer: GraphNormalizer) -> None:
    rng = np.random.default_rng(0)
    marks = [c for c in EVERY[:0x2000] if unicodedata.combining(c)]
    decomposed = [c for c in EVERY[:0x2000] if not unicodedata.is_normalized("NFD", c)]
    hangul = ["가", "ᄀ", "ᅡ", "ᆨ"]
    letters = np.array([*marks, *decomposed, *hangul * 50, *"abc " * 10])
    texts = ["".join(rng.choice(letters, size)) for size in rng.integers(1, 9, 300)]
    assert sum(not unicodedata.is_normalized("NFC", text) for text in texts) > 50
    assert_normalized(normalizer, texts)

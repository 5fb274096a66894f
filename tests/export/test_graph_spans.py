"""Spans computed in the exported graph equal those of `read_spans`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import ops
from attention_zoo.export.graph_spans import GraphSpans
from attention_zoo.metrics import Span, read_spans


@pytest.mark.full
@pytest.mark.parametrize("kinds", [("",), ("-X", "-B-Y")])
@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "BMES"])
def test_spans_equal_read_spans(scheme: str, kinds: tuple[str, ...]) -> None:
    letters = ops.TAG_SCHEMES.get(scheme)().letters()
    names = [*(f"{letter}{kind}" for letter in letters for kind in kinds), "O"]
    rng = np.random.default_rng(0)
    tag_ids = [rng.integers(len(names), size=size).tolist() for size in rng.integers(0, 9, 2000)]
    values = [rng.random(len(row)).tolist() for row in tag_ids]
    module = GraphSpans(names, scheme)
    found = tf.function(module.read)(
        tf.ragged.constant(tag_ids, dtype=tf.int32), tf.ragged.constant(values, dtype=tf.float32)
    )
    parts = [part.to_list() for part in found]
    spans = 0
    for row, (tags, likely) in enumerate(zip(tag_ids, values, strict=True)):
        expected = read_spans([names[tag] for tag in tags], scheme)
        starts, ends, labels, least = (part[row] for part in parts)
        got = [
            Span(start, end, label.decode())
            for start, end, label in zip(starts, ends, labels, strict=True)
        ]
        assert got == expected
        expected_least = [min(likely[s.start : s.end]) for s in expected]
        np.testing.assert_allclose(least, expected_least, rtol=1e-6)
        spans += len(expected)
    assert spans > 2000


@pytest.mark.parametrize("scheme", ["BIO", None])
def test_empty_sentences_have_no_spans(scheme: str | None) -> None:
    module = GraphSpans(["B-X", "O"], scheme)
    for rows in ([], [[]], [[1, 1], []], [] if scheme else [[0, 1], [0]]):
        tags = tf.RaggedTensor.from_row_lengths(
            tf.constant([tag for row in rows for tag in row], "int32"),
            tf.constant([len(row) for row in rows], "int64"),
        )
        for part in module.read(tags, tf.cast(tags, "float32")):
            assert part.to_list() == [[] for _ in rows]


def test_tag_of_another_scheme_raises() -> None:
    with pytest.raises(ValueError, match="tag 'E-X' is not a BIO tag"):
        GraphSpans(["O", "E-X"], "BIO")

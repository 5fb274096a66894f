"""The result of tagging: words with their tags and spans, and the inference of taggers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.data import EncodedWords
from attention_zoo.layers.attention.expected_lengths import (
    expect_long_sequences,
    expects_long_sequences,
)
from attention_zoo.layers.attention.steps import is_long_sequence
from attention_zoo.metrics import read_spans
from attention_zoo.ops.linear_chain import log_partition, unpack
from attention_zoo.tasks.inference import Arrays, Inference
from attention_zoo.tasks.inputs import NAN_LOGITS
from attention_zoo.tasks.result import Result, check_plottable, rank_results
from attention_zoo.tasks.tagging.words import Source
from attention_zoo.tasks.text_inputs import group_by_width
from attention_zoo.typing import Tensor

MAX_EAGER_WORDS = 512
"""Padded number of words above which a tagger is compiled; eager loops over words are slow."""


@dataclass(frozen=True)
class TaggedSpan:
    """A labelled span of words.

    Args:
        text: the text of the span, `sentence[start:end]`.
        label: type of the span; "" if tags have no types.
        start, end: character offsets in the sentence, from 0.
        probability: smallest marginal probability of its tags, an upper bound of the span's own.
    """

    text: str
    label: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True, kw_only=True)
class TaggingResult(Result):
    """A sentence and the tags of its words.

    Args:
        text: printable line: the sentence with `[span](label)`, or `word/tag` for each word without
            a scheme.
        score: joint log probability of the tags.
        words: the words of the sentence.
        tags: one tag for each word.
        offsets: start and end of each word in the sentence, in characters from 0, end exclusive.
        spans: the spans that the tags encode; empty without a scheme.
        probabilities: marginal probability of each word's tag, 0 to 1.
        source_tokens: readable labels of the sentence's T tokens.
        tokens: same as `source_tokens`, for plots.
        unknown: positions of unknown tokens in `source_tokens`. If the model takes characters, only
            tokens that also have an unknown character.
        alternatives: the next best tag sequences of the same sentence, best first.
        attention: weights `(L, H, T, T)` of L self-attention layers with H heads; None if the model
            has no self-attention, weights were not requested, or the sentence does not fit into one
            window of the model.
    """

    words: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    offsets: tuple[tuple[int, int], ...] = ()
    spans: tuple[TaggedSpan, ...] = ()
    probabilities: tuple[float, ...] = ()


class TaggerInference(Inference):
    """Inference of a tagger: its best tag sequences, marginals and attention weights.

    Args:
        tagger: a `models.Tagger`.
        count: N, number of tag sequences.
        marginals: also return the marginal probabilities of tags.
        attention: also return the attention weights, if the tagger has self-attention. A task
            requests none of sentences in several windows; see `group_sentences`.
        expect_long: whether sentences may be long, see `expect_long_sequences`.
    """

    def __init__(
        self,
        tagger: keras.Model,
        count: int = 1,
        marginals: bool = True,
        attention: bool = False,
        expect_long: bool = False,
    ) -> None:
        super().__init__(tagger, expect_long)
        self.count = count
        self.use_marginals, self.use_attention = marginals, attention

    def run(self, inputs: dict[str, Any], compiled: bool) -> Arrays:
        """Return the outputs of `call` as arrays; always compiled above MAX_EAGER_WORDS words."""
        words = inputs.get("starts", inputs["tokens"])
        return super().run(inputs, compiled or words.shape[1] > MAX_EAGER_WORDS)

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `tags (B, N, W)`, their log probabilities `scores (B, N)`, and other outputs.

        The scores are NaN if a potential is NaN: comparisons of the Viterbi algorithm ignore it.
        """
        with expect_long_sequences(self.expect_long or expects_long_sequences()):
            potentials = self.model(inputs, training=False)
        tags, scores = self.model.decode(potentials, self.count)
        scores = scores - log_partition(unpack(potentials))[:, None]
        is_nan = ops.any(ops.isnan(potentials), axis=(1, 2))
        predicted = {"tags": tags, "scores": ops.where(is_nan[:, None], float("nan"), scores)}
        if self.use_marginals:
            predicted["marginals"] = self.model.marginals(potentials)
        weights = self.model.attention(inputs) if self.use_attention else None
        return predicted if weights is None else {**predicted, "attention": weights}


def group_sentences(
    model: keras.Model, sentences: Sequence[EncodedWords], batch_size: int, **options: bool
) -> Iterator[tuple[list[int], dict[str, bool]]]:
    """Yield the row numbers of a batch of equal padded width, and its `TaggerInference` options.

    Sentences in several windows are in batches of their own, without attention weights: their
    number is quadratic in the length.

    Args:
        model: a `models.Tagger`.
        sentences: the encoded sentences.
        batch_size: maximum number of sentences of a batch.
        options: requested options; "attention" is False for sentences in several windows.
    """
    for rows, width in group_by_width([one.tokens for one in sentences], len(sentences)):
        fits = [fits_into_window(model, len(sentences[row].tokens)) for row in rows]
        for is_whole in (True, False):
            group = [row for row, fits_row in zip(rows, fits, strict=True) if fits_row == is_whole]
            group_options = {**options, "expect_long": is_long_sequence(width)}
            if not is_whole:
                group_options["attention"] = False
            for start in range(0, len(group), batch_size):
                yield group[start : start + batch_size], group_options


def fits_into_window(model: keras.Model, length: int) -> bool:
    """Return whether a tagger encodes a sentence of `length` tokens without splitting it."""
    window = model.settings.get("window")
    return window is None or length <= window


def check_attention(result: Any, model: keras.Model) -> None:
    """Raise ValueError for a result without a prediction or attention weights to plot."""
    if result.ok and not fits_into_window(model, len(result.tokens)):
        raise ValueError(
            "the result has no attention weights to plot: sentences in several windows have none,"
            f" and its {len(result.tokens)} tokens exceed window={model.settings['window']}. Use a"
            " shorter sentence."
        )
    check_plottable(result)


def make_result(
    source: Source, outputs: dict[str, Any], names: Sequence[str], scheme: str | None
) -> TaggingResult:
    """Return the result of tagging a sentence.

    Args:
        source: the sentence.
        outputs: its outputs of a `TaggerInference`, including marginals.
        names: tag names.
        scheme: tag scheme of spans, or None.

    Returns:
        The result; with `ok=False` if a score is NaN, or the model's scheme allows no tag sequence
        of this length.
    """
    if np.isnan(outputs["scores"]).any():
        return TaggingResult.failed(NAN_LOGITS)
    size = len(source.words)
    results = (
        _make_hypothesis(source, outputs, rank, names, scheme)
        for rank, score in enumerate(outputs["scores"])
        if np.isfinite(score)  # else fewer than N sequences exist
    )
    missing = (
        f"{source.text!r}: no tag sequence for its {size} words is valid in the tag scheme;"
        " use a longer text, or another checkpoint"
    )
    return rank_results(TaggingResult, results, missing)


def _make_hypothesis(
    source: Source, outputs: dict[str, Any], rank: int, names: Sequence[str], scheme: str | None
) -> TaggingResult:
    """Return the result for the tag sequence of a rank; arguments as in `make_result`."""
    tags, length = outputs["tags"][rank, : len(source.words)], len(source.encoded.tokens)
    attention = outputs.get("attention")
    predicted = tuple(names[tag] for tag in tags)
    marginals = tuple(float(outputs["marginals"][word, tag]) for word, tag in enumerate(tags))
    spans = () if scheme is None else tuple(_spans(source, predicted, marginals, scheme))
    words = tuple(word.text for word in source.words)
    shown = " ".join(f"{word}/{tag}" for word, tag in zip(words, predicted, strict=True))
    return TaggingResult(
        text=shown if scheme is None else _format_spans(source.text, spans),
        score=float(outputs["scores"][rank]),
        attention=None if attention is None else np.array(attention[..., :length, :length]),
        words=words,
        tags=predicted,
        offsets=tuple((word.start, word.end) for word in source.words),
        spans=spans,
        probabilities=marginals,
        source_tokens=source.labels,
        tokens=source.labels,
        unknown=source.unknown,
    )


def _spans(source: Source, tags: Sequence[str], marginals: Sequence[float], scheme: str) -> Any:
    for first, last, label in read_spans(tags, scheme):
        start, end = source.words[first].start, source.words[last - 1].end
        text = source.text[start:end]
        yield TaggedSpan(text, label, start, end, min(marginals[first:last]))


def _format_spans(text: str, spans: Sequence[TaggedSpan]) -> str:
    """Return the text with `[span](label)` for each span."""
    parts, position = [], 0
    for span in spans:
        parts += [text[position : span.start], f"[{span.text}]({span.label})"]
        position = span.end
    return "".join([*parts, text[position:]])

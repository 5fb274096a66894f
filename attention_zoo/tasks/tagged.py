"""What a tagger answers: words with their tags, and the spans that these mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.metrics import read_spans
from attention_zoo.ops.linear_chain import log_partition, unpack
from attention_zoo.tasks.sentences import Source

Tensor = Any


@dataclass(frozen=True)
class TaggedSpan:
    """Some words of a sentence that belong together.

    Args:
        text: as it stands in the sentence.
        label: what it is; "" where tags have no types.
        start, end: its place in the sentence, in characters from 0; `sentence[start:end]` is it.
        probability: of the least likely of its tags, so that the span's own is this at most.
    """

    text: str
    label: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class Tagged:
    """A sentence and the tags of its words.

    Args:
        text: a line to print: the sentence with `[spans](label)`, or without a scheme `word/tag`s.
        score: log-probability of the tags together.
        words: of the sentence.
        tags: one a word.
        offsets: where each word stands in the sentence, in characters from 0, the end exclusive.
        spans: what the tags mark; empty without a scheme.
        probabilities: of each word's tag, 0 to 1, whatever the others are.
        source_tokens: readable labels of the sentence's T tokens.
        tokens: the same; for those who draw what was read for what was written.
        unknown: positions in `source_tokens` of what the model has never seen: the token and, where
            it reads characters, one of these.
        alternatives: the next likely tags of the same sentence, best first.
        attention: `(L, H, T, T)`, of L self-attentions with H heads where each token looked, or
            None for a model without, or where it was not asked for.
        cut: False; for those who tell of it.
    """

    text: str
    score: float
    words: tuple[str, ...]
    tags: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    spans: tuple[TaggedSpan, ...]
    probabilities: tuple[float, ...]
    source_tokens: tuple[str, ...]
    tokens: tuple[str, ...]
    unknown: tuple[int, ...] = ()
    alternatives: tuple[Tagged, ...] = ()
    attention: np.ndarray | None = None
    cut: bool = False


class TagReading(keras.Model):
    """A tagger and what its potentials tell, as one model, because that is what Keras compiles.

    Args:
        tagger: a `models.Tagger`.
        count: N, sequences of tags.
        marginals: also tell each tag by itself.
        attention: also tell where tokens looked, if the tagger does.
    """

    def __init__(
        self, tagger: keras.Model, count: int = 1, marginals: bool = True, attention: bool = False
    ) -> None:
        super().__init__(name="reading", dtype="float32")  # or the global policy would reach in
        self.tagger, self.count = tagger, count
        self.use_marginals, self.use_attention = marginals, attention
        self.jit_compile = keras.backend.backend() != "tensorflow"

    def tell(self, inputs: dict[str, Any], compiled: bool) -> dict[str, np.ndarray]:
        """What `call` returns, as arrays; compiled, the first times are slow, the others quick."""
        if compiled:
            told: dict[str, np.ndarray] = self.predict_on_batch(inputs)
            return told
        given = {name: ops.convert_to_tensor(array) for name, array in inputs.items()}
        return {name: ops.convert_to_numpy(part) for name, part in self(given).items()}

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`tags (B, N, W)`, their log-probabilities `scores (B, N)`, and what is asked for."""
        potentials = self.tagger(inputs, training=False)
        tags, scores = self.tagger.decode(potentials, self.count)
        told = {"tags": tags, "scores": scores - log_partition(unpack(potentials))[:, None]}
        if self.use_marginals:
            told["marginals"] = self.tagger.marginals(potentials)
        weights = self.tagger.attention(inputs) if self.use_attention else None
        return told if weights is None else {**told, "attention": weights}


def answer(source: Source, found: dict[str, Any], names: Sequence[str], scheme: str | None) -> Any:
    """The answer to a sentence.

    Args:
        source: the sentence.
        found: its part of what a `TagReading` tells, with marginals.
        names: of the tags.
        scheme: that marks spans, or None.

    Raises:
        ValueError: the model's scheme allows no tags of as many words.
    """
    size, length = len(source.words), len(source.encoded.tokens)
    attention = found.get("attention")
    if attention is not None:
        attention = attention[..., :length, :length]
    answers = []
    for tags, score in zip(found["tags"][:, :size], found["scores"], strict=True):
        if not np.isfinite(score):  # there are fewer sequences than were asked for
            break
        one = _tagged(source, tags, found["marginals"], names, scheme)
        answers.append(replace(one, score=float(score), attention=attention))
    if not answers:
        raise ValueError(f"{source.text!r}: its {size} words can have no tags that keep the scheme")
    best, *others = answers
    return replace(best, alternatives=tuple(others))


def _tagged(
    source: Source, tags: Any, marginals: Any, names: Sequence[str], scheme: str | None
) -> Tagged:
    """The answer of these tags, by number."""
    told = tuple(names[tag] for tag in tags)
    likely = tuple(float(marginals[word, tag]) for word, tag in enumerate(tags))
    spans = () if scheme is None else tuple(_spans(source, told, likely, scheme))
    words = tuple(word.text for word in source.words)
    shown = " ".join(f"{word}/{tag}" for word, tag in zip(words, told, strict=True))
    return Tagged(
        text=shown if scheme is None else _marked(source.text, spans),
        score=0.0,
        words=words,
        tags=told,
        offsets=tuple((word.start, word.end) for word in source.words),
        spans=spans,
        probabilities=likely,
        source_tokens=source.labels,
        tokens=source.labels,
        unknown=source.unknown,
    )


def _spans(source: Source, tags: Sequence[str], likely: Sequence[float], scheme: str) -> Any:
    for first, end, label in read_spans(tags, scheme):
        begin, over = source.words[first].start, source.words[end - 1].end
        text = source.text[begin:over]
        yield TaggedSpan(text, label, begin, over, min(likely[first:end]))


def _marked(text: str, spans: Sequence[TaggedSpan]) -> str:
    """The text with `[span](label)` for each span."""
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span.start], f"[{span.text}]({span.label})"]
        at = span.end
    return "".join([*parts, text[at:]])

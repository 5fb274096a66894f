"""Results of matching two texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attention_zoo.tasks.inputs import NAN_LOGITS
from attention_zoo.tasks.matching.texts import EncodedPair, Pair
from attention_zoo.tasks.result import Result, Span, rank_results
from attention_zoo.tasks.text_inputs import find_unknown


@dataclass(frozen=True, kw_only=True)
class MatchingResult(Result):
    """A pair of texts with its class, number or relevance.

    Args:
        text: name of the predicted class; the number or the relevance, as text.
        score: log probability of the class; with target "regression" the number; with target
            "ranking" the log probability that the pair is relevant.
        label: name of the predicted class; "" without classes.
        classes: names of all classes.
        probabilities: probability of each of `classes`, 0 to 1; with target "ranking" the
            probability that the pair is relevant.
        first, second: the texts.
        tokens: readable labels of the S tokens of the first text.
        source_tokens: readable labels of the T tokens of the second text.
        first_offsets, second_offsets: start and end of each token in its text, in characters, the
            end exclusive.
        attention: alignment of the two texts `(S, T)`, see the class of the model; None if the
            model has no attention or weights were not requested.
        unknown: positions of unknown tokens in `source_tokens`.
        truncated: whether tokens were dropped because a text exceeds a limit.
        alternatives: the next most probable classes.
    """

    label: str = ""
    classes: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    first: str = ""
    second: str = ""
    first_offsets: tuple[Span, ...] = ()
    second_offsets: tuple[Span, ...] = ()


class Source(NamedTuple):
    """A pair of texts to match.

    texts: the texts.
    encoded: their token ids.
    tokens: readable labels of their tokens.
    offsets: span of each token in its text.
    unknown: positions of unknown tokens of the second text.
    """

    texts: Pair
    encoded: EncodedPair
    tokens: tuple[tuple[str, ...], tuple[str, ...]]
    offsets: tuple[tuple[Span, ...], tuple[Span, ...]]
    unknown: tuple[int, ...]


def make_source(texts: Pair, encoded: EncodedPair, tokenizer: Any) -> Source:
    """Return a pair with the labels and spans of its tokens."""
    first, second = (
        (tuple(tokenizer.tokens(ids)), tuple(tokenizer.offsets(text)[: len(ids)]))
        for text, ids in zip(texts, encoded[:2], strict=True)
    )
    unknown = find_unknown(encoded.second, tokenizer.unknown)
    return Source(texts, encoded, (first[0], second[0]), (first[1], second[1]), unknown)


def make_result(
    source: Source, outputs: dict[str, Any], target: str, classes: Sequence[str], count: int
) -> MatchingResult:
    """Return the result of matching a pair.

    Args:
        source: the pair.
        outputs: its outputs of a `MatcherInference`; scores on the original scale.
        target: "classification", "regression" or "ranking".
        classes: names of the classes.
        count: number of predictions with target "classification".

    Returns:
        The result; with `ok=False` if an output is NaN or infinite.
    """
    values = outputs["outputs"]
    if np.isnan(values).any() or np.isposinf(values).any():
        return MatchingResult.failed(NAN_LOGITS)
    common = MatchingResult(
        text="",
        score=float(values[0]),
        classes=tuple(classes),
        first=source.texts[0],
        second=source.texts[1],
        tokens=source.tokens[0],
        source_tokens=source.tokens[1],
        first_offsets=source.offsets[0],
        second_offsets=source.offsets[1],
        attention=_get_alignment(source.encoded, outputs),
        unknown=source.unknown,
        truncated=source.encoded.is_truncated,
    )
    if target == "regression":
        return replace(common, text=f"{common.score:.4g}")
    if target == "ranking":
        score = -float(np.logaddexp(0, -values[0]))
        relevance = float(np.exp(score))
        return replace(common, text=f"{relevance:.4f}", score=score, probabilities=(relevance,))
    common = replace(common, probabilities=tuple(np.exp(values).tolist()))
    ranked = np.argsort(-values, kind="stable")[:count]
    results = (
        replace(common, text=classes[one], label=classes[one], score=float(values[one]))
        for one in ranked
    )
    return rank_results(MatchingResult, results)


def _get_alignment(encoded: EncodedPair, outputs: dict[str, Any]) -> np.ndarray | None:
    """Return the alignment `(S, T)` without padding, or None."""
    if "alignment" not in outputs:
        return None
    size = len(encoded.first), len(encoded.second)
    return np.array(outputs["alignment"][: size[0], : size[1]])

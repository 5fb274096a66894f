"""Token ids of texts and of documents of sentences, within the limits of a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from attention_zoo.data.text.labelled_fields import join_sentences
from attention_zoo.data.text.sentences import split_sentences
from attention_zoo.tasks.inputs import check_text, is_list
from attention_zoo.tasks.result import Span


class Limits(NamedTuple):
    """Limits of a text.

    max_length: maximum number of tokens, without special tokens.
    max_sentences: maximum number of sentences of a document.
    max_sentence_length: maximum number of tokens of a sentence; longer ones are split.
    """

    max_length: int
    max_sentences: int
    max_sentence_length: int


class EncodedText(NamedTuple):
    """Token ids of a text, truncated to the limits.

    tokens: token ids, without special tokens; of all sentences of a document, concatenated.
    lengths: number of tokens of each sentence of a document, None for a text.
    num_tokens, num_sentences: numbers of tokens and sentences before it was truncated.
    """

    tokens: list[int]
    lengths: list[int] | None
    num_tokens: int
    num_sentences: int

    @property
    def is_truncated(self) -> bool:
        """Whether tokens were dropped."""
        return len(self.tokens) < self.num_tokens


class TextEncoder:
    """Encoder of the texts of a classifier.

    Args:
        tokenizer: the tokenizer.
        rule: rule of `data.split_sentences`, for models of documents; None for models of texts.
        has_class_token: whether the model expects a class token and an end token around texts.
    """

    def __init__(self, tokenizer: Any, rule: str | None, has_class_token: bool = False) -> None:
        self.tokenizer, self.rule, self.has_class_token = tokenizer, rule, has_class_token

    def add_special_tokens(self, tokens: list[int]) -> list[int]:
        """Return token ids with the class token before and the end token after them."""
        if not self.has_class_token:
            return tokens
        return [self.tokenizer.start, *tokens, self.tokenizer.end]

    def encode(self, texts: Sequence[str], limits: Limits) -> list[EncodedText]:
        """Return the token ids of each text."""
        if self.rule is None:
            return [
                EncodedText(ids[: limits.max_length], None, len(ids), 1)
                for ids in self.tokenizer.encode(texts)
            ]
        documents = [split_sentences(text, self.rule) for text in texts]
        ids = iter(self.tokenizer.encode([one for sentences in documents for one in sentences]))
        return [_join([next(ids) for _ in sentences], limits) for sentences in documents]

    def find_offsets(self, text: str, encoded: EncodedText) -> list[Span]:
        """Return the span of each token of an encoded text in the text."""
        if self.rule is None:
            return self.tokenizer.offsets(text)[: len(encoded.tokens)]
        spans: list[Span] = []
        position = 0
        for sentence in split_sentences(text, self.rule):
            if len(spans) >= len(encoded.tokens):
                break
            position = text.index(sentence, position)
            offsets = self.tokenizer.offsets(sentence)
            spans += [(position + start, position + end) for start, end in offsets]
            position += len(sentence)
        return spans[: len(encoded.tokens)]


def _join(sentences: Sequence[list[int]], limits: Limits) -> EncodedText:
    """Return the token ids of a document from those of its sentences."""
    size = limits.max_sentence_length
    parts = [ids[start : start + size] for ids in sentences for start in range(0, len(ids), size)]
    tokens: list[int] = []
    lengths: list[int] = []
    for part in parts[: limits.max_sentences]:
        fitting = part[: limits.max_length - len(tokens)]
        if not fitting:
            break
        tokens += fitting
        lengths.append(len(fitting))
    return EncodedText(tokens, lengths, sum(map(len, parts)), len(parts))


def find_sentence_spans(offsets: Sequence[Span], lengths: Sequence[int]) -> Iterator[Span]:
    """Yield the span of each sentence, from its first token to its last.

    Args:
        offsets: span of each token of a document.
        lengths: number of tokens of each sentence.
    """
    for start, end in pairwise(accumulate(lengths, initial=0)):
        yield offsets[start][0], offsets[end - 1][1]


def describe_excess(
    encoded: EncodedText, limits: Limits, num_special_tokens: int
) -> tuple[str, str]:
    """Return the length of a truncated text that exceeds a limit, and the name of the limit."""
    if encoded.num_tokens > limits.max_length:
        special = f" and {num_special_tokens} special tokens" if num_special_tokens else ""
        return f"{encoded.num_tokens} tokens{special}", "max_length"
    return f"{encoded.num_sentences} sentences", "max_sentences"


def check_document(location: str, text: Any) -> str:
    """Return a text, or the lines of a list of sentences; raise ValueError if it is invalid."""
    if not is_list(text):
        return check_text(location, text)
    sentences = [check_text(f"{location}: sentence {n}", one) for n, one in enumerate(text)]
    return join_sentences(sentences)

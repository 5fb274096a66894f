"""Exported language model of raw prompts: tokenizer and search in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD, START
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.export.checks import Check, check_long, get_first_error, serve_valid_rows
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.export.modules import NO_LIMIT, SearchModule


class LanguageModelModule(SearchModule):
    """`task.predict` of language modeling in core TensorFlow operations, with the same results."""

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        self._longest, self._max_positions = task.longest - 1, task.max_positions
        super().__init__(task, rules, make_graph_tokenizer(task.tokenizer))

    def _serve(self, text: tf.Tensor, **values: tf.Tensor) -> dict[str, tf.Tensor]:
        """Continue prompts `(B,)`.

        Returns:
            The outputs of `format_hypotheses` and `serve_valid_rows`, where `text` is the
            continuation; `source_tokens` (B, S) strings, the tokens of the prompt.
        """
        options = self._make_options(values)
        ids, _ = self.tokenizer.encode(text)

        def continue_prompts(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            prompt = tf.gather(ids, rows).to_tensor(PAD)
            source = tf.pad(prompt, [[0, 0], [1, 0]], constant_values=START)
            return self._format_continuations(prompt, self._search(source, options))

        return serve_valid_rows(get_first_error(*self._check(ids, options)), continue_prompts)

    def _format_continuations(self, prompt: tf.Tensor, result: Any) -> dict[str, tf.Tensor]:
        """Return the outputs of the search for prompts `(B, S)`."""
        outputs = self.format_hypotheses(result)
        longest = tf.shape(outputs["tokens"])[2]
        generated = tf.sequence_mask(outputs["lengths"], longest)
        ids = tf.where(generated, result.tokens[:, :, :longest], PAD)
        prompts = tf.repeat(prompt[:, None], tf.shape(ids)[1], axis=1)
        prefixes = self.tokenizer.text(self.tokenizer.surfaces(prompts))
        texts = self.tokenizer.text(self.tokenizer.surfaces(tf.concat([prompts, ids], axis=-1)))
        labels = tf.where(prompt == PAD, "", self.tokenizer.labels(prompt))
        return {**outputs, "text": _remove_prefixes(texts, prefixes), "source_tokens": labels}

    def _check(self, ids: tf.RaggedTensor, options: SearchOptions) -> tuple[Check, ...]:
        """Return the checks that `predict` makes of prompts.

        Without a length limit, a continuation may have as many tokens as there are positions left.
        """
        lengths = tf.cast(ids.row_lengths(), "int32")
        needed = options.limit(lengths + 1)
        if (self._options.max_length, self._options.max_length_ratio) == (None, None):
            is_default = options.max_length == NO_LIMIT
            needed = tf.where(is_default, options.min_target_length, needed)
        max_lengths = lengths + needed
        unit = "tokens with its continuation"
        return (
            check_long(lengths, self._longest),
            check_long(max_lengths, self._max_positions, unit),
        )

    def _score(self, text: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Score continuations of prompts; the prompt and its continuation are encoded as one text.

        The tokens of the target are those after the longest common prefix of the whole text and
        the prompt.
        """
        ids, _ = self.tokenizer.encode(text)
        whole, _ = self.tokenizer.encode(tf.strings.join([text, target]))
        prefix_lengths = _count_common_prefix(ids.to_tensor(PAD), whole.to_tensor(PAD))
        lengths = whole.row_lengths()

        def score(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            ids_of_text = tf.gather(whole, rows)
            is_prompt = (
                tf.ragged.range(ids_of_text.row_lengths())
                < tf.gather(prefix_lengths, rows)[:, None]
            )
            prompt = tf.ragged.boolean_mask(ids_of_text, is_prompt).to_tensor(PAD)
            targets = tf.ragged.boolean_mask(ids_of_text, ~is_prompt)
            source = tf.pad(prompt, [[0, 0], [1, 0]], constant_values=START)
            return self.score_targets(source, targets)

        return serve_valid_rows(get_first_error(check_long(lengths, self._longest)), score)


def _count_common_prefix(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return the length of the longest common prefix of ids `(B, S)` and `(B, T)`, `(B,)` int64."""
    width = tf.minimum(tf.shape(first)[1], tf.shape(second)[1])
    is_equal = (first[:, :width] == second[:, :width]) & (first[:, :width] != PAD)
    return tf.reduce_sum(tf.math.cumprod(tf.cast(is_equal, "int64"), axis=1), axis=1)


def _remove_prefixes(texts: tf.Tensor, prefixes: tf.Tensor) -> tf.Tensor:
    """Return the part of each text after its prefix."""
    end = tf.strings.length(texts)
    start = tf.minimum(tf.strings.length(prefixes), end)
    return tf.strings.substr(texts, start, end - start)

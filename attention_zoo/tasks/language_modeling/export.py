"""Exported language model of raw prompts: tokenizer and search in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD, START
from attention_zoo.decoding import Rule
from attention_zoo.export.checks import refuse_long
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.export.modules import SearchModule, string_signature


class LanguageModelModule(SearchModule):
    """`task.predict` of language modeling in core TensorFlow operations.

    A batch with a prompt that is too long is rejected as a whole.
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        super().__init__(task, rules, GraphTokenizer(task.tokenizer))
        self._longest, self._max_positions = task.longest - 1, task.max_positions

    @string_signature("text")
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Continue prompts `(B,)`.

        Returns:
            The outputs of `format_hypotheses`, where `text` is the continuation, and
            `source_tokens` (B, S) strings, the tokens of the prompt.
        """
        ragged, _ = self.tokenizer.encode(text)
        with tf.control_dependencies(self._checks(tf.cast(ragged.row_lengths(), "int32"))):
            prompt = ragged.to_tensor(PAD)
        result = self._search(tf.pad(prompt, [[0, 0], [1, 0]], constant_values=START))
        outputs = self.format_hypotheses(result)
        longest = tf.shape(outputs["tokens"])[2]
        generated = tf.sequence_mask(outputs["lengths"], longest)
        ids = tf.where(generated, result.tokens[:, :, :longest], PAD)
        prompts = tf.repeat(prompt[:, None], tf.shape(ids)[1], axis=1)
        prefixes = self.tokenizer.text(self.tokenizer.surfaces(prompts))
        texts = self.tokenizer.text(self.tokenizer.surfaces(tf.concat([prompts, ids], axis=-1)))
        labels = tf.where(prompt == PAD, "", self.tokenizer.labels(prompt))
        return {**outputs, "text": _remove_prefixes(texts, prefixes), "source_tokens": labels}

    def _checks(self, lengths: tf.Tensor) -> list[tf.Operation]:
        """Return assertions that reject what `predict` rejects, with the first such row."""
        max_lengths = lengths + self._options.limit(lengths + 1)
        message = "tokens with its continuation and could exceed max_length of the model:"
        return [
            refuse_long(lengths, self._longest, "tokens, the limit is"),
            refuse_long(max_lengths, self._max_positions, message),
        ]


def _remove_prefixes(texts: tf.Tensor, prefixes: tf.Tensor) -> tf.Tensor:
    """Return the part of each text after its prefix."""
    end = tf.strings.length(texts)
    start = tf.minimum(tf.strings.length(prefixes), end)
    return tf.strings.substr(texts, start, end - start)

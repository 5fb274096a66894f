"""A served language model of raw prompts: tokenizer and search in one graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD, START
from attention_zoo.decoding import Rule
from attention_zoo.export.checks import refuse_long
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.tasks.translation.export import ServedTranslation


class ServedLanguageModel(ServedTranslation):
    """`task.predict` of language modeling in core TensorFlow operations.

    Outputs are those of `ServedTranslation`; `source_tokens` are the tokens of the prompt, and
    `text` is the continuation. A batch with a prompt that is too long is rejected as a whole.
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        tf.Module.__init__(self, name="language_modeling")
        self.weights = [variable.value for variable in task.model.variables]
        self.source = self.target = GraphTokenizer(task.tokenizer)
        self._search = functools.partial(task.model.search, options=task.search, rules=rules)
        self._copies = False
        self._limit, self._longest = task.search.limit, task.longest - 1
        self._max_positions = task.model.settings["max_length"]

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,
    )
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Continue prompts `(B,)`; see `answers` for the outputs."""
        ragged, _ = self.source.encode(text)
        with tf.control_dependencies(self._checks(tf.cast(ragged.row_lengths(), "int32"))):
            prompt = ragged.to_tensor(PAD)
        found = self._search(tf.pad(prompt, [[0, 0], [1, 0]], constant_values=START))
        served = self.answers(found, prompt, prompt)
        longest = tf.shape(served["tokens"])[2]
        ids = tf.where(
            tf.range(longest) < served["lengths"][..., None], found.tokens[:, :, :longest], PAD
        )
        before = tf.repeat(prompt[:, None], tf.shape(ids)[1], axis=1)
        begins, whole = (
            self.target.text(self.target.surfaces(part))
            for part in (before, tf.concat([before, ids], axis=-1))
        )
        return {**served, "text": _after(whole, begins)}

    def _checks(self, lengths: tf.Tensor) -> list[tf.Operation]:
        """Return assertions that reject what `predict` rejects, with the first such row."""
        most = lengths + self._limit(lengths + 1)
        full = tf.where(most > self._max_positions)[:1, 0]
        of_full = (
            "with its continuation could exceed max_length of the model:",
            self._max_positions,
        )
        return [
            refuse_long(lengths, self._longest, "tokens, the limit is"),
            tf.debugging.Assert(tf.size(full) == 0, ["source", full, *of_full]),
        ]


def _after(whole: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Return the part of strings `whole` after their prefixes `begins`."""
    end = tf.strings.length(whole)
    start = tf.minimum(tf.strings.length(begins), end)
    return tf.strings.substr(whole, start, end - start)

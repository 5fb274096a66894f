"""Exported translator of raw texts: tokenizers, search and attention in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD
from attention_zoo.decoding import Rule
from attention_zoo.export.checks import refuse_empty, refuse_long
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.export.modules import SearchModule, pad_ragged, string_signature


class TranslationModule(SearchModule):
    """`task.predict` of translation in core TensorFlow operations.

    The results are those of `predict`. A batch with an empty or too long source is rejected as a
    whole (`InvalidArgumentError` with the row).
    """

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        super().__init__(task, rules, GraphTokenizer(task.target_tokenizer))
        self.source, self._longest = GraphTokenizer(task.source_tokenizer), task.max_source_length

    @string_signature("text")
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translate texts `(B,)`.

        Returns:
            The outputs of `format_hypotheses`, and `source_tokens` (B, S) strings.
        """
        ragged, pieces = self.source.encode(text)
        lengths = ragged.row_lengths()
        too_long = refuse_long(lengths, self._longest, "tokens, the limit is")
        with tf.control_dependencies([refuse_empty(lengths), too_long]):
            source = pad_ragged(ragged)
        outputs = self.format_hypotheses(self._search(source), pieces.to_tensor(""))
        labels = tf.where(source == PAD, "", self.source.labels(source))
        return {**outputs, "source_tokens": labels}

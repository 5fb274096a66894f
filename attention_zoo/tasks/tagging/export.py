"""Exported tagger of raw sentences: word splitting, model, Viterbi and spans in one graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attention_zoo.export.checks import refuse_empty, refuse_long
from attention_zoo.export.graph_spans import GraphSpans
from attention_zoo.export.graph_tokenizer import GraphTokenizer
from attention_zoo.export.graph_words import GraphWords
from attention_zoo.export.modules import TaskModule, pad_ragged, string_signature
from attention_zoo.tasks.tagging.result import TaggerInference


class TaggingModule(TaskModule):
    """`task.predict` of sentences in core TensorFlow operations.

    The result of a sentence is the best one of `predict`. A batch with an empty or too long
    sentence is rejected as a whole (`InvalidArgumentError` with the row).

    Args:
        task: a `tasks.Tagging`.

    Raises:
        ValueError: if the model takes marked words, which a plain sentence does not have, or if the
            tokenizer is not a registered `data.Tokenizer`.
    """

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        if task.model.settings["marks"]:
            raise ValueError(
                "a model with marks=True cannot be exported: the export takes plain sentences, "
                "without marked words"
            )
        self.words, self.tokens = GraphWords(), GraphTokenizer(task.tokenizer)
        self.characters = task.characters and GraphTokenizer(task.characters)
        self.spans = GraphSpans(task.tags, task.scheme)
        self._names = tf.constant(task.tags)
        self._inference = TaggerInference(task.model)
        self._limits = task.max_length, task.max_positions

    @string_signature("text")
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Tag sentences `(B,)`; see `format_outputs` for the outputs."""
        words, starts, ends = self.words.split(text)
        ragged = self.inputs(words)
        checks = self._checks(words.row_lengths(), ragged["tokens"].row_lengths())
        with tf.control_dependencies(checks):
            inputs = {name: pad_ragged(ids) for name, ids in ragged.items()}
        outputs = self._inference(inputs, training=False)
        offsets = words.with_values(tf.stack([starts.flat_values, ends.flat_values], axis=-1))
        return self.format_outputs(words, offsets, outputs)

    def inputs(self, words: tf.RaggedTensor) -> dict[str, tf.RaggedTensor]:
        """Return the model's inputs for words, ragged `(B, W)`."""
        ids, _ = self.tokens.encode(words.flat_values)
        tokens = words.with_values(ids).merge_dims(1, 2)
        starts = tf.cumsum(ids.row_lengths(), exclusive=True)
        starts -= tf.gather(tokens.row_starts(), words.value_rowids())
        inputs = {"tokens": tokens, "starts": words.with_values(tf.cast(starts + 1, "int32"))}
        if self.characters is not None:  # then tokens are whole words
            characters, _ = self.characters.encode(words.flat_values)
            inputs["characters"] = words.with_values(characters)
        return inputs

    def format_outputs(
        self, words: tf.RaggedTensor, offsets: tf.RaggedTensor, outputs: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of the signature.

        Args:
            words: ragged `(B, W)`.
            offsets: start and end of each word, ragged `(B, W, 2)`.
            outputs: those of a `tasks.tagging.result.TaggerInference`.

        Returns:
            `words` (B, W) strings; `offsets` (B, W, 2), their positions in characters, the end
            exclusive; `tags` (B, W) strings; `probabilities` (B, W), the marginal of each tag;
            `lengths` (B,), numbers of words; `scores` (B,), log probability of the tag sequence;
            `spans` (B, S, 2), their positions; `span_labels` (B, S) strings; `span_probabilities`
            (B, S), the probability of the least likely tag of each span. At positions after the
            end, strings are "" and numbers are 0; the end of a real span is above 0.
        """
        lengths = words.row_lengths()
        tags = outputs["tags"][:, 0]
        probabilities = tf.gather(outputs["marginals"], tags, batch_dims=2)
        tags = tf.RaggedTensor.from_tensor(tags, lengths)
        probabilities = tf.RaggedTensor.from_tensor(probabilities, lengths)
        spans = self.spans.read(tags, probabilities)
        first = tf.cast(tf.gather(words.row_starts(), spans.starts.value_rowids()), "int32")
        starts = tf.gather(offsets.flat_values[:, 0], first + spans.starts.flat_values)
        ends = tf.gather(offsets.flat_values[:, 1], first + spans.ends.flat_values - 1)
        return {
            "words": words.to_tensor(""),
            "offsets": offsets.to_tensor(),
            "tags": tags.with_values(tf.gather(self._names, tags.flat_values)).to_tensor(""),
            "probabilities": probabilities.to_tensor(),
            "lengths": tf.cast(lengths, "int32"),
            "scores": outputs["scores"][:, 0],
            "spans": spans.starts.with_values(tf.stack([starts, ends], axis=-1)).to_tensor(),
            "span_labels": spans.labels.to_tensor(""),
            "span_probabilities": spans.least.to_tensor(),
        }

    def _checks(self, words: tf.Tensor, tokens: tf.Tensor) -> list[tf.Operation]:
        """Return assertions that reject what `predict` rejects, with the first such row."""
        longest, max_positions = self._limits
        checks = [refuse_empty(words), refuse_long(words, longest, "words, the limit is")]
        if max_positions is not None:
            message = "tokens, but the model has max_length"
            checks.append(refuse_long(tokens, max_positions, message))
        return checks

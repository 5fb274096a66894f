"""Exported tagger of raw sentences: word splitting, model, Viterbi and spans in one graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.public_tokenizers import ByteLevelTokenizer
from attention_zoo.export.checks import (
    Check,
    check_empty,
    check_long,
    get_first_error,
    serve_valid_rows,
)
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.export.graph_spans import GraphSpans
from attention_zoo.export.graph_tokenizer import GraphTokenizer, is_first_of_row, shift_right
from attention_zoo.export.graph_words import GraphWords
from attention_zoo.export.modules import TaskModule, add_special_tokens, pad_ragged
from attention_zoo.tasks.tagging.result import TaggerInference
from attention_zoo.tasks.tagging.words import make_word_tokenizer

NO_SEQUENCE = (
    "no tag sequence for its words is valid in the tag scheme;"
    " use a longer text, or another checkpoint"
)


class TaggingModule(TaskModule):
    """`task.predict` of sentences in core TensorFlow operations, with the same results.

    Args:
        task: a `tasks.Tagging`; `n_best` of its search options is the number of tag sequences.

    Raises:
        ValueError: if the model takes marked words, which a plain sentence does not have, or if the
            tokenizer is not a registered `data.Tokenizer`.
    """

    def __init__(self, task: Any) -> None:
        if task.model.settings["marks"]:
            raise ValueError(
                "a model with marks=True cannot be exported: the export takes plain sentences, "
                "without marked words"
            )
        self.words = GraphWords()
        self.tokens = make_graph_tokenizer(make_word_tokenizer(task.tokenizer))
        self._unknown = task.tokenizer.unknown
        self._special_ids = (
            [task.tokenizer.start, task.tokenizer.end] if task.model.has_class_token else None
        )
        self._includes_spaces = isinstance(task.tokenizer, ByteLevelTokenizer)
        self._prefixes_first = self._includes_spaces and task.tokenizer.adds_prefix_space
        self.characters = task.characters and GraphTokenizer(task.characters)
        self.spans = GraphSpans(task.tags, task.scheme)
        self._names, self._count = tf.constant(task.tags), task.search.n_best
        self._inference = TaggerInference(task.model, self._count)
        self._limits = task.max_length, task.max_positions
        super().__init__(task)

    def get_max_length(self, task: Any) -> int:
        """Return the limit of the model in tokens; if it has none, that of the task in words."""
        return int(task.max_positions or task.max_length)

    def _serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Tag sentences `(B,)`.

        Returns:
            The outputs of `format_outputs` and `serve_valid_rows`.
        """
        words, starts, ends = self.words.split(text)
        ragged = self.encode(self._prefix_spaces(words, starts, ends))
        offsets = words.with_values(tf.stack([starts.flat_values, ends.flat_values], axis=-1))
        lengths = words.row_lengths(), ragged["tokens"].row_lengths()

        def tag(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            inputs = {name: pad_ragged(tf.gather(ids, rows)) for name, ids in ragged.items()}
            outputs = self._inference(inputs, training=False)
            return self.format_outputs(tf.gather(words, rows), tf.gather(offsets, rows), outputs)

        return serve_valid_rows(get_first_error(*self._make_checks(*lengths)), tag)

    def _prefix_spaces(
        self, words: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tf.RaggedTensor:
        """Prefix words with the space before them if the tokenizer is byte-level."""
        if not self._includes_spaces:
            return words
        is_first = is_first_of_row(words.value_rowids())
        has_space = starts.flat_values != shift_right(ends.flat_values)
        has_space = tf.where(is_first, self._prefixes_first, has_space)
        spaces = tf.where(has_space, " ", "")
        return words.with_values(tf.strings.join([spaces, words.flat_values]))

    def encode(self, words: tf.RaggedTensor) -> dict[str, tf.RaggedTensor]:
        """Return the model's inputs for words, ragged `(B, W)`."""
        ids, _ = self.tokens.encode(words.flat_values)
        is_empty = tf.cast(ids.row_lengths() == 0, "int64")
        unknown = tf.fill([tf.reduce_sum(is_empty)], self._unknown)
        ids = tf.concat([ids, tf.RaggedTensor.from_row_lengths(unknown, is_empty)], axis=1)
        tokens = words.with_values(ids).merge_dims(1, 2)
        starts = tf.cumsum(ids.row_lengths(), exclusive=True)
        starts -= tf.gather(tokens.row_starts(), words.value_rowids())
        if self._special_ids is not None:
            tokens, starts = add_special_tokens(tokens, self._special_ids), starts + 1
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
            exclusive; `lengths` (B,), numbers of words; `tags` (B, W) strings; `probabilities`
            (B, W), the marginal of each tag; `scores` (B,), log probability of the tag sequence;
            `spans` (B, S, 2), their positions; `span_labels` (B, S) strings; `span_probabilities`
            (B, S), the probability of the least likely tag of each span. At positions after the
            end, strings are "" and numbers are 0; the end of a real span is above 0.

            If `n_best` is above 1, tags, probabilities, scores and the outputs of spans have an
            axis of the n best tag sequences after B, best first. Sequences that do not exist have
            score -inf and no tags.
        """
        lengths, scores = words.row_lengths(), outputs["scores"]
        tags = outputs["tags"]
        probabilities = tf.gather(outputs["marginals"], tf.transpose(tags, [0, 2, 1]), batch_dims=2)
        sizes = tf.where(tf.math.is_finite(scores), lengths[:, None], 0)
        ragged = [
            tf.RaggedTensor.from_tensor(
                tf.reshape(x, [-1, tf.shape(tags)[2]]), tf.reshape(sizes, [-1])
            )
            for x in (tags, tf.transpose(probabilities, [0, 2, 1]))
        ]
        predicted = {**self._format_tags(*ragged), **self._format_spans(offsets, *ragged)}
        if self._count > 1:
            shape = tf.shape(scores)
            predicted = {
                name: tf.reshape(x, tf.concat([shape, tf.shape(x)[1:]], 0))
                for name, x in predicted.items()
            }
        return {
            "words": words.to_tensor(""),
            "offsets": offsets.to_tensor(),
            "lengths": tf.cast(lengths, "int32"),
            "scores": scores if self._count > 1 else scores[:, 0],
            **predicted,
            "error": get_first_error((~tf.math.is_finite(scores[:, 0]), NO_SEQUENCE)),
        }

    def _format_tags(
        self, tags: tf.RaggedTensor, probabilities: tf.RaggedTensor
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of tags, ragged `(B n, W)`."""
        names = tags.with_values(tf.gather(self._names, tags.flat_values))
        return {"tags": names.to_tensor(""), "probabilities": probabilities.to_tensor()}

    def _format_spans(
        self, offsets: tf.RaggedTensor, tags: tf.RaggedTensor, probabilities: tf.RaggedTensor
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of the spans of tags, ragged `(B n, W)`."""
        spans = self.spans.read(tags, probabilities)
        rows = spans.starts.value_rowids() // self._count
        first = tf.cast(tf.gather(offsets.row_starts(), rows), "int32")
        starts = tf.gather(offsets.flat_values[:, 0], first + spans.starts.flat_values)
        ends = tf.gather(offsets.flat_values[:, 1], first + spans.ends.flat_values - 1)
        return {
            "spans": spans.starts.with_values(tf.stack([starts, ends], axis=-1)).to_tensor(),
            "span_labels": spans.labels.to_tensor(""),
            "span_probabilities": spans.least.to_tensor(),
        }

    def _make_checks(self, words: tf.Tensor, tokens: tf.Tensor) -> list[Check]:
        """Return the checks that `predict` makes of numbers of words and tokens, `(B,)`."""
        longest, max_positions = self._limits
        checks = [check_empty(words), check_long(words, longest, "words")]
        if max_positions is not None:
            checks.append(check_long(tokens, max_positions))
        return checks

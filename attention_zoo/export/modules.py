"""Base classes of exported modules, and parts that they share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD, UNKNOWN
from attention_zoo.decoding import Rule
from attention_zoo.export.graph_tokenizer import GraphTokenizer


def string_signature(*names: str) -> Any:
    """Return a decorator that compiles a method with `tf.function`.

    The inputs of the method are string tensors `(B,)` with these names. AutoGraph is off, because
    it would hide the messages of errors raised while tracing.
    """
    signature = [tf.TensorSpec([None], tf.string, name=name) for name in names]
    return tf.function(input_signature=signature, autograph=False)


def pad_ragged(ids: tf.RaggedTensor) -> tf.Tensor:
    """Pad ids to a dense tensor with at least one position in each axis but the batch.

    Encoders do not accept empty sequences.
    """
    dense = ids.to_tensor(PAD)
    missing = tf.cast(tf.shape(dense) == 0, "int32")
    missing = tf.concat([[0], missing[1:]], axis=0)  # the batch may stay empty
    paddings = tf.stack([tf.zeros_like(missing), missing], axis=1)
    return tf.pad(dense, paddings, constant_values=PAD)


class TaskModule(tf.Module):
    """Base class of exported tasks. It holds the model's variables, which TensorFlow then saves."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        # `tf.Module.variables` does not find Keras variables.
        self.weights = [variable.value for variable in task.model.variables]


class SearchModule(TaskModule):
    """Base class of exported tasks that generate text by a search.

    Args:
        task: a `tasks.generation.GenerationTask`.
        rules: additional decoding rules.
        tokenizer: the tokenizer of the outputs.
    """

    def __init__(self, task: Any, rules: Sequence[Rule], tokenizer: GraphTokenizer) -> None:
        super().__init__(task)
        self.tokenizer, self._options = tokenizer, task.search_options()
        self._search = functools.partial(task.model.search, options=self._options, rules=rules)

    def format_hypotheses(
        self,
        result: Any,
        pieces: tf.Tensor | None = None,
        decode: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]] | None = None,
    ) -> dict[str, tf.Tensor]:
        """Return the outputs of all signatures that return hypotheses.

        Args:
            result: a `SearchResult`.
            pieces: `(B, S)` strings, the text of each source token; with the search option
                `replace_unknown`, the piece with the largest attention weight replaces an unknown
                token.
            decode: maps ids to their texts (with space marks) and to their readable labels;
                default: `tokenizer.decode`.

        Returns:
            `text` (B, n); `scores` (B, n); `lengths` (B, n), numbers of tokens without the end
            token; `finished` (B, n), False for a truncated output; `tokens` (B, n, L) strings;
            `token_scores` (B, n, L); `attention` (B, n, L, S) if `result` has attention. At
            positions after the end, tokens are "" and numbers are 0. Hypotheses that are missing
            because the search finds fewer than n have score -inf.
        """
        lengths = result.lengths - tf.cast(result.finished, "int32")
        # The maximum over an empty batch is the lowest int32.
        longest = tf.maximum(tf.reduce_max(result.lengths), 0)
        ids = result.tokens[:, :, :longest]
        generated = tf.sequence_mask(lengths, longest)
        outputs = {"scores": result.scores, "lengths": lengths, "finished": result.finished}
        outputs["token_scores"] = result.token_scores[:, :, :longest]  # 0 after the end
        if result.attention is not None:
            attention = result.attention[:, :, :longest]
            masked = tf.where(generated[..., None], attention, tf.zeros_like(attention))
            outputs["attention"] = masked
        surfaces, labels = (decode or self.tokenizer.decode)(ids)
        if pieces is not None and self._options.replace_unknown:
            best_positions = tf.argmax(outputs["attention"], axis=-1, output_type="int32")
            copied = tf.gather(pieces, best_positions, batch_dims=1)
            unknown = ids == UNKNOWN
            surfaces = tf.where(unknown, copied, surfaces)
            labels = tf.where(unknown, self.tokenizer.bare(copied), labels)
        outputs["text"] = self.tokenizer.text(tf.where(generated, surfaces, ""))
        outputs["tokens"] = tf.where(generated, labels, "")
        return outputs

"""Exported translator of raw texts: tokenizers, search and attention in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import PAD
from attention_zoo.decoding import Rule, SearchOptions
from attention_zoo.export.checks import (
    Check,
    check_empty,
    check_long,
    check_unknown,
    get_first_error,
    serve_valid_rows,
)
from attention_zoo.export.graph_public_tokenizers import make_graph_tokenizer
from attention_zoo.export.modules import SearchModule, pad_ragged, require_one_per_source


class TranslationModule(SearchModule):
    """`task.predict` of translation in core TensorFlow operations, with the same results."""

    def __init__(self, task: Any, rules: Sequence[Rule]) -> None:
        self.source = make_graph_tokenizer(task.source_tokenizer)
        self._longest = task.max_source_length
        self._language_codes = task.source_tokenizer.language_codes
        self._source_end = task.source_tokenizer.end if task.add_source_end else None
        super().__init__(task, rules, make_graph_tokenizer(task.target_tokenizer))

    def _make_defaults(self, task: Any) -> dict[str, Any]:
        return {**super()._make_defaults(task), "prefixes": np.array([], str)}

    def _serve(self, text: tf.Tensor, **values: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translate texts `(B,)`, with target prefixes `(B,)`, or `(0,)` for none.

        Returns:
            The outputs of `format_hypotheses` and `serve_valid_rows`; `source_tokens` (B, S)
            strings.
        """
        options = self._make_options(values)
        ids, pieces = self._encode_sources(text)
        prefixes, prefix_pieces = self.tokenizer.encode(
            _fill_prefixes(values["prefixes"], tf.size(text))
        )
        errors = get_first_error(
            *self._check_sources(text, ids),
            check_unknown(prefixes, prefix_pieces, "the prefix"),
            _check_prefix_lengths(prefixes, options, ids),
        )

        def translate(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            source = pad_ragged(tf.gather(ids, rows))
            prefix = tf.gather(prefixes, rows).to_tensor(PAD)
            result = self._search(source, options, prefix=prefix)
            outputs = self.format_hypotheses(result, tf.gather(pieces, rows).to_tensor(""))
            labels = tf.where(source == PAD, "", self.source.labels(source))
            return {**outputs, "source_tokens": labels}

        return serve_valid_rows(errors, translate)

    def _score(self, text: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        ids, _ = self._encode_sources(text)
        targets, _ = self.tokenizer.encode(target)
        return serve_valid_rows(
            get_first_error(*self._check_sources(text, ids)),
            lambda rows: self.score_targets(
                pad_ragged(tf.gather(ids, rows)), tf.gather(targets, rows)
            ),
        )

    def _encode_sources(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Return the token ids of sources `(B,)` and their pieces; empty texts get no end token."""
        ids, pieces = self.source.encode(texts)
        if self._source_end is None:
            return ids, pieces
        has_end = tf.cast(ids.row_lengths() > 0, "int64")
        count = tf.reduce_sum(has_end)
        ends = tf.RaggedTensor.from_row_lengths(tf.fill([count], self._source_end), has_end)
        marks = tf.RaggedTensor.from_row_lengths(tf.fill([count], ""), has_end)
        return tf.concat([ids, ends], axis=1), tf.concat([pieces, marks], axis=1)

    def _check_sources(self, texts: tf.Tensor, ids: tf.RaggedTensor) -> tuple[Check, ...]:
        lengths = ids.row_lengths()
        codes = self.source.find_unknown_codes(texts)
        known = ", ".join(self._language_codes) or "none"
        message = tf.strings.join(["unknown language code ", codes, f". Known: {known}."])
        unknown_code = codes != "", message
        return unknown_code, check_empty(lengths), check_long(lengths, self._longest)


def _fill_prefixes(prefixes: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Return one prefix for each of the texts; fail for another number of prefixes."""
    has_none = tf.size(prefixes) == 0
    filled = tf.cond(has_none, lambda: tf.fill([count], ""), lambda: prefixes)
    return require_one_per_source(filled, count, "prefix")


def _check_prefix_lengths(
    prefixes: tf.RaggedTensor, options: SearchOptions, ids: tf.RaggedTensor
) -> Check:
    """Return a check that fails for a prefix longer than the output may be."""
    lengths = tf.cast(prefixes.row_lengths(), "int32")
    limits = options.limit(tf.cast(ids.row_lengths(), "int32"))
    message = tf.strings.join(
        ["the prefix has ", tf.strings.as_string(lengths), " tokens, but the length limit is "]
    )
    limits = tf.broadcast_to(limits, tf.shape(lengths))
    end = ", and force_end needs the last position" if options.force_end else ""
    message = tf.strings.join([message, tf.strings.as_string(limits), f"{end}. Raise max_length."])
    return lengths > limits - int(options.force_end), message

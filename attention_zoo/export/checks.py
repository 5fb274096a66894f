"""Status of the rows of a batch in a graph: a bad row gets an error message, the others results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from attention_zoo.data.tokenizers.vocabulary import MARK, UNKNOWN

NAN_LOGITS = "the model returned NaN or +inf logits; export an earlier checkpoint"
EMPTY = "the text is empty. Remove it or write a sentence."

FILLS = {
    "scores": float("-inf"),
    "similarities": float("-inf"),
    "origins": -1,
    "image_indices": -1,
}
"""Values of outputs in rows with an error; others are 0 or ""."""

Check = tuple[tf.Tensor, Any]
"""Whether the check fails for each row `(B,)`, and its message: a string, or strings `(B,)`."""


def check_empty(lengths: tf.Tensor, message: str = EMPTY) -> Check:
    """Return a check that fails for length 0; lengths are `(B,)`."""
    return lengths == 0, message


def check_long(lengths: tf.Tensor, limit: int, unit: str = "tokens") -> Check:
    """Return a check that fails for a length `(B,)` above the limit."""
    count = tf.strings.as_string(lengths)
    message = tf.strings.join([count, f" {unit}, the limit is {limit}. Shorten the text."])
    return lengths > limit, message


def check_unknown(ids: tf.RaggedTensor, pieces: tf.RaggedTensor, noun: str) -> Check:
    """Return a check that fails for unknown tokens in ids `(B, S)`; the message has their text."""
    is_unknown = ids == UNKNOWN
    words = tf.strings.reduce_join(tf.ragged.boolean_mask(pieces, is_unknown), axis=1)
    message = tf.strings.join(
        [f"{noun} has words that are not in the target vocabulary (remove or replace them):", words]
    )
    return tf.reduce_any(is_unknown, axis=1), tf.strings.regex_replace(message, MARK, " ")


def get_first_error(*checks: Check) -> tf.Tensor:
    """Return the message of the first check that fails for each row `(B,)`, "" if none does."""
    errors = tf.zeros_like(checks[0][0], tf.string)
    for failed, message in reversed(checks):
        errors = tf.where(failed, message, errors)
    return errors


def serve_valid_rows(
    errors: tf.Tensor, serve: Callable[[tf.Tensor], Mapping[str, tf.Tensor]]
) -> dict[str, tf.Tensor]:
    """Compute the outputs of the rows without an error.

    Args:
        errors: message of each row `(B,)`, "" for a valid row.
        serve: returns the outputs `(G, ..)` of the G valid rows from their indices `(G,)`. They may
            include `error`, for errors that only the computation shows; `scores` that are NaN are
            such an error, too.

    Returns:
        The outputs of all rows `(B, ..)`, `ok` (B,) and `error` (B,) strings. In a row that is not
        valid, `scores` and `similarities` are -inf, indices (`origins`, `image_indices`) -1, other
        numbers 0 and strings "".
    """
    rows = tf.where(errors == "")
    outputs = dict(serve(rows[:, 0]))
    late_errors = outputs.pop("error", tf.zeros_like(rows[:, 0], tf.string))
    checks = [(late_errors != "", late_errors)]
    if "scores" in outputs:
        axes = list(range(1, outputs["scores"].shape.rank))
        checks.insert(0, (tf.reduce_any(tf.math.is_nan(outputs["scores"]), axes), NAN_LOGITS))
    late_errors = get_first_error(*checks)
    outputs = {name: tf.boolean_mask(x, late_errors == "") for name, x in outputs.items()}
    errors = tf.tensor_scatter_nd_update(errors, rows, late_errors)
    return {**scatter_rows(outputs, errors == ""), "ok": errors == "", "error": errors}


def scatter_rows(outputs: Mapping[str, tf.Tensor], is_valid: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return outputs `(G, ..)` of the G valid rows as outputs of all rows `(B, ..)`."""
    count = tf.reduce_sum(tf.cast(is_valid, "int32"))
    index = tf.where(is_valid, tf.cumsum(tf.cast(is_valid, "int32")) - 1, count)

    def scatter(name: str, x: tf.Tensor) -> tf.Tensor:
        fill = tf.constant(FILLS[name], x.dtype) if name in FILLS else tf.zeros([], x.dtype)
        row = tf.fill(tf.concat([[1], tf.shape(x)[1:]], 0), fill)
        return tf.gather(tf.concat([x, row], 0), index)

    return {name: scatter(name, x) for name, x in outputs.items()}

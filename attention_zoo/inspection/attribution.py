"""Attribution of an output of any Keras model to its input tokens or image positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo.inspection.attributed_positions import Positions, find_attributed
from attention_zoo.inspection.attributed_tensors import (
    LayerOutput,
    ModelInput,
    TargetFunction,
    restore_input_dtypes,
)
from attention_zoo.inspection.attribution_targets import class_logit
from attention_zoo.inspection.keras_layers import check_keras_model
from attention_zoo.ops.arguments import whole_number
from attention_zoo.ops.gradients import gradient
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

MIN_STEPS, MAX_STEPS = 32, 864
"""Numbers of steps of integrated gradients by default: 32, 96, 288 or 864."""
TOLERANCE = 0.01
"""Completeness error at which the default number of steps is not increased further."""
ROUNDING = 1e-5
"""Completeness gap relative to the outputs that is due to float32."""


class Attribution(NamedTuple):
    """Scores of input positions for one output, of each of B examples.

    Attributes:
        scores: `(B, T)` float32 in the shape of the attributed input, without its last axis if it
            has features: `(B, H, W)` for images, `(B, L, W)` for documents. 0 at padding and where
            `mask` is False.
        method: name of the method.
        tokens: the token ids that the scores belong to, in the shape of the scores; None if no
            tokens are attributed.
        output: F(x), `(B,)`.
        baseline_output: F(x0), `(B,)`; None except for integrated gradients.
        total: sum of the scores of each example, `(B,)`.
        completeness_error: `|total - (F(x) - F(x0))| / |F(x) - F(x0)|`, `(B,)`; None except for
            integrated gradients.
        steps: N, number of steps; None except for integrated gradients.
    """

    scores: NDArray[Any]
    method: str
    tokens: NDArray[Any] | None
    output: NDArray[Any]
    baseline_output: NDArray[Any] | None
    total: NDArray[Any]
    completeness_error: NDArray[Any] | None
    steps: int | None


def attribute(
    model: keras.layers.Layer,
    inputs: Any,
    target: Callable[[Any], Tensor] | int,
    method: str = "integrated_gradients",
    *,
    input_name: str | int | None = None,
    embedding: keras.layers.Layer | None = None,
    call: int | None = None,
    baseline: Any = None,
    mask: Any = None,
    word_ids: Any = None,
    steps: int | None = None,
    batch_size: int = 64,
    padding_id: int | None = 0,
    **call_arguments: Any,
) -> Attribution:
    """Attribute one output of a model to the tokens or positions of an input.

    With F the target, e_t the embedding of token t and e'_t its baseline:

    - "integrated_gradients": `a_t = sum_d (e_td - e'_td) 1/N sum_n dF/de_td(e' + (n - 1/2)/N
      (e - e'))`, n = 1..N, the midpoint rule. Complete: the scores sum to `F(x) - F(x0)`, where x0
      is the input with baseline embeddings.
    - "gradient_x_input": `a_t = sum_d e_td dF/de_td`.
    - "occlusion": `a_t = F(x) - F(x with another token in place of t)`; with `word_ids`, all tokens
      of a word are replaced at once, and each of them has the score of the word.

    The gradients are those at the output of the embedding layer, which is replaced in this call
    only. The embedding layer is the `keras.layers.Embedding` that is called with the tokens of the
    input. If a layer is called several times, as for both texts of a pair, one call is attributed:
    the one with the tokens of `input_name`, or number `call`. Float inputs, and inputs of four axes
    (images), are attributed directly. The embeddings of padding and of masked positions are not
    changed.

    A model may embed other tokens than those of the input: a BERT joins both texts of a pair, and
    splits long texts into windows. Gradient methods then score the embedded tokens, which the
    result returns as `tokens`, if `embedding` is given or the model has a `token_embedding`.

    Args:
        model: any Keras model, functional or subclassed; of a task, `task.model`.
        inputs: its inputs with B examples: token ids `(B, T)`, images `(B, H, W, C)`, feature grids
            `(B, h, w, C)`, or a list or dict of several inputs.
        target: function from the model's outputs to one number per example, `(B,)`, see
            `attribution_targets`; or the index of a class in logits `(B, K)`.
        method: "integrated_gradients", "gradient_x_input" or "occlusion".
        input_name: key or index of the attributed input, if there are several; by default "source",
            "tokens", "image" or "token_ids".
        embedding: the layer whose output is attributed, if it is not found: an embedding layer, or
            any other, such as `model.encoder` of a captioner, for the cells of its feature grid.
        call: number of the attributed call of the layer, from 0.
        baseline: None: for gradients zeros, for occlusion of tokens the unknown token, 1. Or a
            token id: its embedding, or the id that replaces others. Or, if no tokens are
            attributed, a number or an array that broadcasts to the attributed tensor.
        mask: `(B, T)`, True at positions to attribute, in the shape of the scores. By default, all
            except padding. Special tokens are attributed too unless they are masked.
        word_ids: `(B, T)` integers for occlusion; equal ids of an example are one word (or region
            of an image). By default, each position is a word.
        steps: N, number of steps of integrated gradients. By default 32, then three times as many,
            up to 864, until the completeness error of all examples is within 1 %, or the difference
            is due to float32. Models with ReLU or max pooling need the most steps.
        batch_size: maximum number of examples in one call of the model, copies included.
        padding_id: id of padding; None if there is none.
        **call_arguments: further arguments of the model's call; `training` is False by default.

    Returns:
        `Attribution`.

    Raises:
        ValueError: an unknown method, a target of another shape or that is not finite, no or
            several possible embedding layers, or an argument of a wrong shape.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.inspection.attribution import attribute
        >>> tokens = keras.Input((None,), dtype="int32")
        >>> x = keras.layers.Embedding(9, 4)(tokens)
        >>> logits = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x))
        >>> model = keras.Model(tokens, logits)
        >>> result = attribute(model, np.array([[5, 3, 8]]), target=1)
        >>> result.scores.shape, bool(result.completeness_error[0] < 0.01)
        ((1, 3), True)

    Reference:
        Sundararajan et al. 2017, arXiv 1703.01365, equations 1 and 3 (x' is e') and proposition 1
        (completeness); the paper uses a right Riemann sum. Occlusion: Zeiler and Fergus 2013, arXiv
        1311.2901, section 4.2; of words, Li et al. 2016, arXiv 1612.08220, equation 1, without the
        division by F(x).
    """
    check_keras_model(model)
    check_choice("method", method, METHODS)
    if steps is not None:
        whole_number("steps", steps, 1)
    whole_number("batch_size", batch_size, 1)
    if baseline is not None and method == "gradient_x_input":
        raise ValueError(f"baseline must be None for gradient_x_input, got {baseline!r}")
    if word_ids is not None and method != "occlusion":
        raise ValueError(f"word_ids must be None for {method}. Sum the scores of each word.")
    with restore_input_dtypes(model):
        arguments = {"training": False, **call_arguments}
        model_call = TargetFunction(model, inputs, _make_target(target), arguments)
        name = model_call.find_input_name(input_name)
        replace_ids = method == "occlusion" and embedding is None
        attributed, positions, target_values = find_attributed(
            model_call, name, embedding, call, padding_id, replace_ids
        )
        mask_of_values = positions.read_mask(mask)
        words = positions.read_word_ids(word_ids, mask_of_values)
        settings = _Settings(attributed, mask_of_values, words, baseline, steps, batch_size)
        output = _check_finite(target_values)
        computed = METHODS[method](settings, output)
    return _make_result(method, positions, output, computed)


class _Settings(NamedTuple):
    """Arguments of a method.

    attributed: the attributed tensor. mask: True at attributed positions, in their shape. words:
    number of the word of each position, -1 if it has none. baseline, steps, batch_size: see
    `attribute`.
    """

    attributed: ModelInput | LayerOutput
    mask: NDArray[Any]
    words: NDArray[Any]
    baseline: Any
    steps: int | None
    batch_size: int

    @property
    def max_copies(self) -> int:
        """Number of copies of all examples in one call of the model."""
        return max(1, self.batch_size // self.attributed.call.batch_size)

    def expand(self, mask: NDArray[Any]) -> Tensor:
        """Return a mask of positions that broadcasts to the attributed tensor."""
        return ops.convert_to_tensor(mask[..., None] if self.attributed.has_features else mask)

    def sum_features(self, scores: Tensor) -> NDArray[Any]:
        """Return the scores of positions, 0 where they are masked."""
        if self.attributed.has_features:
            scores = ops.sum(scores, axis=-1)
        return np.where(self.mask, ops.convert_to_numpy(scores), 0)


class _Scores(NamedTuple):
    """Scores in the layout of the attributed values; F(x0) and N of integrated gradients."""

    scores: NDArray[Any]
    baseline_output: NDArray[Any] | None = None
    steps: int | None = None


def _integrate_gradients(settings: _Settings, output: NDArray[Any]) -> _Scores:
    """Compute scores by integrated gradients.

    The midpoints of N steps are among those of 3 N steps, so that no gradient is computed twice.
    """
    attributed, x = settings.attributed, settings.attributed.value
    baseline = attributed.make_baseline(settings.baseline)
    difference = ops.where(settings.expand(settings.mask), x - baseline, 0.0)
    start = x - difference
    baseline_output = _check_finite(attributed.compute_target(start, 1)[0])
    steps = settings.steps or MIN_STEPS
    numbers, total = np.arange(steps), ops.zeros_like(x)
    while True:
        fractions = ((numbers + 0.5) / steps).astype("float32")
        total = total + _sum_gradients(settings, start, difference, fractions)
        scores = settings.sum_features(difference * total / steps)
        gap, change = _compute_gap(scores, output, baseline_output)
        rounding = ROUNDING * (np.abs(output) + np.abs(baseline_output))
        is_complete = (gap <= np.maximum(TOLERANCE * change, rounding)).all()
        if settings.steps is not None or is_complete or 3 * steps > MAX_STEPS:
            return _Scores(scores, baseline_output, steps)
        steps *= 3
        numbers = np.arange(steps)
        numbers = numbers[numbers % 3 != 1]


def _sum_gradients(
    settings: _Settings, start: Tensor, difference: Tensor, fractions: NDArray[Any]
) -> Tensor:
    """Return the sum of the gradients at some fractions of the path from the baseline."""
    total = ops.zeros_like(start)
    for first in range(0, len(fractions), settings.max_copies):
        part = fractions[first : first + settings.max_copies]
        alpha = ops.convert_to_tensor(part.reshape(-1, *[1] * len(start.shape)))
        points = ops.reshape(start + alpha * difference, (-1, *start.shape[1:]))
        gradients = _compute_gradient(settings.attributed, points, len(part))
        total = total + ops.sum(ops.reshape(gradients, (len(part), *start.shape)), axis=0)
    return total


def _compute_gap(
    scores: NDArray[Any], output: NDArray[Any], baseline_output: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return `|sum of scores - (F(x) - F(x0))|` and `|F(x) - F(x0)|` of each example."""
    difference = output - baseline_output
    total = scores.reshape(len(output), -1).sum(axis=1)
    return np.abs(total - difference), np.abs(difference)


def _multiply_gradient(settings: _Settings, output: NDArray[Any]) -> _Scores:
    """Compute scores by gradient times input."""
    x = settings.attributed.value
    return _Scores(settings.sum_features(x * _compute_gradient(settings.attributed, x, 1)))


def _occlude(settings: _Settings, output: NDArray[Any]) -> _Scores:
    """Compute scores by replacing one word of each example at a time."""
    attributed, words, x = settings.attributed, settings.words, settings.attributed.value
    baseline = attributed.make_baseline(settings.baseline)
    num_words, rows = int(words.max(initial=-1)) + 1, len(output)
    drops = np.zeros((num_words, rows), "float32")
    for first in range(0, num_words, settings.max_copies):
        numbers = range(first, min(first + settings.max_copies, num_words))
        variants = [ops.where(settings.expand(words == n), baseline, x) for n in numbers]
        target = attributed.compute_target(ops.concatenate(variants, axis=0), len(numbers))
        drops[numbers.start : numbers.stop] = output - ops.convert_to_numpy(target)
    by_row = words.reshape(rows, -1)
    scores = np.zeros(by_row.shape, "float32")
    if num_words:
        scores = np.take_along_axis(drops.T, np.maximum(by_row, 0), axis=1)
    return _Scores(np.where(settings.mask, scores.reshape(words.shape), 0))


METHODS: dict[str, Callable[[_Settings, NDArray[Any]], _Scores]] = {
    "integrated_gradients": _integrate_gradients,
    "gradient_x_input": _multiply_gradient,
    "occlusion": _occlude,
}


def _compute_gradient(attributed: ModelInput | LayerOutput, x: Tensor, copies: int) -> Tensor:
    return gradient(lambda points: attributed.compute_target(points, copies), x)


def _check_finite(target: Tensor) -> NDArray[Any]:
    """Return the target `(B,)` as an array; raise ValueError if it is not finite."""
    output: NDArray[Any] = ops.convert_to_numpy(target)
    for row, value in enumerate(output):
        if not np.isfinite(value):
            raise ValueError(
                f"target must be finite, got {value} for example {row}. Attribute another output."
            )
    return output


def _make_result(
    method: str, positions: Positions, output: NDArray[Any], computed: _Scores
) -> Attribution:
    """Return the result of all examples, with scores in the layout of the input."""
    scores, baseline_output, steps = computed
    error = None
    if baseline_output is not None:
        gap, change = _compute_gap(scores, output, baseline_output)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(gap == 0, 0.0, gap / change)
    return Attribution(
        scores=positions.arrange(scores).astype("float32"),
        method=method,
        tokens=positions.ids,
        output=output,
        baseline_output=baseline_output,
        total=scores.reshape(len(output), -1).sum(axis=1),
        completeness_error=error,
        steps=steps,
    )


def _make_target(target: Any) -> Callable[[Any], Tensor]:
    if callable(target):
        return target
    return class_logit(whole_number("target, unless it is a function,", target, 0))

"""Targets of attribution: functions from the outputs of a model to one number per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.typing import Tensor


class ExampleTarget:
    """Target that is computed for several copies of all examples at once.

    Args:
        function: maps outputs `(copies B, ...)`, in which all examples of a copy follow those of
            the one before, and the number of copies to `(copies B,)`.
    """

    def __init__(self, function: Callable[[Any, int], Tensor]) -> None:
        self._function = function

    def __call__(self, outputs: Any, copies: int = 1) -> Tensor:
        """Return the target of each example and copy."""
        return self._function(outputs, copies)


def class_logit(index: Any) -> ExampleTarget:
    """Return the target `y_k`, the logit of a class.

    Args:
        index: k, the index of the class, or one for each example, `(B,)`. 0 for a model with one
            output, such as a ranking.

    Returns:
        Function from logits `(B, K)` to `(B,)`.

    Raises:
        ValueError: when called, for outputs of another shape, or an index outside 0..K-1.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.inspection.attribution_targets import class_logit
        >>> [float(x) for x in class_logit([0, 2])(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))]
        [1.0, 6.0]

    Reference: Simonyan et al. 2013, arXiv 1312.6034, section 2: S_c is the logit.
    """

    def target(logits: Tensor, copies: int) -> Tensor:
        return _select("class", _check_rank("logits", logits, 2), index, copies)

    return ExampleTarget(target)


def class_log_probability(index: Any, multi_label: bool = False) -> ExampleTarget:
    """Return the target `log softmax(y)_k`, or `log sigmoid(y_k)` with `multi_label`.

    Args:
        index: k, the index of the class, or one for each example, `(B,)`.
        multi_label: whether an example may have several classes, see `models.Classifier`.

    Returns:
        Function from logits `(B, K)` to `(B,)`.

    Raises:
        ValueError: when called, for outputs of another shape, or an index outside 0..K-1.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.inspection.attribution_targets import class_log_probability
        >>> target = class_log_probability(1)
        >>> round(float(target(np.array([[0.0, 0.0]], "float32"))[0]), 4)
        -0.6931

    Reference: this library.
    """

    def target(logits: Tensor, copies: int) -> Tensor:
        logits = ops.cast(_check_rank("logits", logits, 2), "float32")
        logs = ops.log_sigmoid(logits) if multi_label else ops.log_softmax(logits, axis=-1)
        return _select("class", logs, index, copies)

    return ExampleTarget(target)


def tag_emission(word: Any, tag: Any) -> ExampleTarget:
    """Return the target `e_wk`, the emission score of one tag at one word of a tagger.

    Args:
        word: w, the index of the word, or one for each example, `(B,)`.
        tag: k, the index of the tag, or one for each example, `(B,)`.

    Returns:
        Function from the potentials of a `models.Tagger` to `(B,)`.

    Raises:
        ValueError: when called, for an index outside the outputs.

    Example:
        >>> import numpy as np
        >>> from attention_zoo import ops
        >>> from attention_zoo.inspection.attribution_targets import tag_emission
        >>> emissions = np.arange(6, dtype="float32").reshape(1, 3, 2)
        >>> chain = ops.make_chain(emissions, np.zeros((2, 2), "float32"))
        >>> float(tag_emission(2, 1)(ops.pack(chain))[0])
        5.0

    Reference: Lample et al. 2016, arXiv 1603.01360, section 2.2: P_ij is e_wk.
    """

    def target(potentials: Tensor, copies: int) -> Tensor:
        emissions = zoo_ops.unpack(ops.convert_to_tensor(potentials)).emissions
        return _select("tag", _select("word", emissions, word, copies), tag, copies)

    return ExampleTarget(target)


def tag_log_marginal(word: Any, tag: Any) -> ExampleTarget:
    """Return the target `log p(y_w = k | x)`, the log marginal probability of one tag at one word.

    With a softmax head and no tag scheme, it is the log softmax of the word's emissions.

    Args:
        word: w, the index of the word, or one for each example, `(B,)`.
        tag: k, the index of the tag, or one for each example, `(B,)`.

    Returns:
        Function from the potentials of a `models.Tagger` to `(B,)`.

    Raises:
        ValueError: when called, for an index outside the outputs.

    Example:
        >>> import numpy as np
        >>> from attention_zoo import ops
        >>> from attention_zoo.inspection.attribution_targets import tag_log_marginal
        >>> chain = ops.make_chain(np.zeros((1, 3, 2), "float32"), np.zeros((2, 2), "float32"))
        >>> round(float(tag_log_marginal(0, 1)(ops.pack(chain))[0]), 4)
        -0.6931

    Reference: Lafferty et al. 2001, "Conditional random fields", section 3: alpha_i beta_i / Z.
    """

    def target(potentials: Tensor, copies: int) -> Tensor:
        marginals = zoo_ops.marginals(zoo_ops.unpack(ops.convert_to_tensor(potentials)))
        return ops.log(_select("tag", _select("word", marginals, word, copies), tag, copies))

    return ExampleTarget(target)


def token_log_probability(position: Any, token: Any) -> ExampleTarget:
    """Return the target `log p(y_t = v | y_<t, x)`, the log probability of one output token.

    For translators, summarizers and captioners, whose input "target" is the prefix: the start token
    and the output tokens before position t, at least (forced decoding); also for language models,
    where t is the position of the token before it.

    Args:
        position: t, from 0, or one for each example, `(B,)`.
        token: v, the id of the token, or one for each example, `(B,)`.

    Returns:
        Function from logits or log probabilities `(B, T, V)` to `(B,)`.

    Raises:
        ValueError: when called, for outputs of another shape, or an index outside the outputs.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.inspection.attribution_targets import token_log_probability
        >>> logits = np.zeros((1, 3, 4), "float32")
        >>> round(float(token_log_probability(2, 1)(logits)[0]), 4)
        -1.3863

    Reference: Bahdanau et al. 2014, arXiv 1409.0473, equation 4.
    """

    def target(logits: Tensor, copies: int) -> Tensor:
        step = _select("position", _check_rank("logits", logits, 3), position, copies)
        return _select("token", ops.log_softmax(ops.cast(step, "float32"), axis=-1), token, copies)

    return ExampleTarget(target)


def _check_rank(name: str, x: Any, rank: int) -> Tensor:
    """Return x as a tensor; raise ValueError for another number of axes."""
    if not hasattr(x, "shape"):
        raise ValueError(
            f"target needs one tensor of {name} of {rank} axes, got {type(x).__name__}. Pass a "
            "function that selects an output of the model."
        )
    if len(x.shape) != rank:
        raise ValueError(f"target needs {name} of {rank} axes, got shape {tuple(x.shape)}")
    return ops.convert_to_tensor(x)


def _select(name: str, x: Tensor, index: Any, copies: int) -> Tensor:
    """Return `x[b, index]` or `x[b, index[b]]` of each example and copy, `(copies B, ...)`."""
    rows, size = x.shape[0] // copies, x.shape[1]
    index = np.asarray(index)
    if not np.issubdtype(index.dtype, np.integer) or index.shape not in ((), (rows,)):
        raise ValueError(
            f"{name} must be an index or one for each of {rows} examples, got {index.dtype} of "
            f"shape {index.shape}"
        )
    if index.min() < 0 or index.max() >= size:
        bad = int(index.min()) if index.min() < 0 else int(index.max())
        raise ValueError(f"{name} must be in 0..{size - 1}, got {bad}")
    index = np.tile(np.broadcast_to(index, (rows,)), copies).astype("int32")
    index = ops.convert_to_tensor(index.reshape(-1, *[1] * (len(x.shape) - 1)))
    return ops.squeeze(ops.take_along_axis(x, index, axis=1), axis=1)

"""Record the attention weights of any Keras model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo import ops as zoo_ops
from attention_zoo.inspection.attention_layers import attention_hooks, find_attention_layers
from attention_zoo.ops.arguments import whole_number
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

DTYPES = ("float16", "float32", "float64")
FUNCTIONS = ("train_function", "test_function", "predict_function", "generate_function")
"""Attributes that hold the compiled functions of Keras and KerasHub models."""

NEVER_RAN = (
    "no attention layer of {model} ran within `record`: call it on arrays or tensors. Symbolic "
    "inputs have no weights. A `tf.function` that was traced before does not record; call it first "
    "inside `record`, or trace a new one."
)
NO_XLA = (
    "weights cannot be recorded in a graph that XLA compiles on TensorFlow: XLA cannot call "
    "Python functions. Use `tf.function(jit_compile=False)`, or `attention_model`, which returns "
    "the weights as outputs."
)


class AttentionRecord(NamedTuple):
    """The attention weights of one call of a layer.

    Attributes:
        path: path of the layer.
        call: number of the layer's call within `record`, from 0.
        weights: `(B, H, T, S)`, before dropout; H is 1 in layers without heads. A step of a decoder
            has T = 1, or `(B, H, N, S)` for the N hypotheses of a search. Layers of sentence pairs
            (BCNN) record their scores, which are not normalized.
        mask: booleans that broadcast to the weights, False where query t must not attend to source
            s, or None.
    """

    path: str
    call: int
    weights: NDArray[Any]
    mask: NDArray[Any] | None


class AttentionRecords(Mapping[str, list[AttentionRecord]]):
    """Recorded attention weights by layer path: a list of records, one for each call.

    The arrays are read-only: they share memory with tensors.

    Layers are in the order of their first call; those that did not run are missing.

    Args:
        paths: paths of the layers that may be recorded.
        max_bytes: maximum size of all weights and masks, in bytes.
    """

    def __init__(self, paths: Sequence[str], max_bytes: int) -> None:
        self._paths, self._max_bytes = list(paths), max_bytes
        self._records: dict[str, list[AttentionRecord]] = {}
        self.num_bytes = 0
        self.error: ValueError | None = None

    def add(self, path: str, weights: NDArray[Any], mask: NDArray[Any] | None) -> None:
        """Append a record; above the memory limit, set `error` and add nothing more."""
        if self.error is not None:
            return
        size = weights.nbytes + (0 if mask is None else mask.nbytes)
        if self.num_bytes + size > self._max_bytes:
            self.error = ValueError(
                f"recorded weights exceed max_bytes={self._max_bytes:,} at layer {path}, got "
                f"{self.num_bytes + size:,} bytes. Select fewer `layers` or `heads`, use "
                'dtype="float16", or increase max_bytes.'
            )
            return
        records = self._records.setdefault(path, [])
        records.append(AttentionRecord(path, len(records), weights, mask))
        self.num_bytes += size

    def __getitem__(self, path: str) -> list[AttentionRecord]:
        try:
            return self._records[path]
        except KeyError:
            if path in self._paths:
                raise KeyError(f"layer {path} did not run within `record`") from None
            known = ", ".join(self._paths)
            raise KeyError(f"no recorded layer {path!r}; known: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


@contextlib.contextmanager
def record(
    model: keras.layers.Layer,
    layers: Sequence[Any] | None = None,
    heads: Sequence[int] | None = None,
    dtype: str = "float32",
    max_bytes: int = 2**30,
) -> Iterator[AttentionRecords]:
    """Record the attention weights of all calls of a model within the context.

    It records all attention layers of attention_zoo, and `MultiHeadAttention`,
    `GroupQueryAttention`, `Attention` and `AdditiveAttention` of Keras, with their subclasses, in
    functional, sequential, subclassed and nested models; in direct calls, `predict`, `evaluate`,
    `fit`, searches and `tf.function`s that are traced within the context. The outputs of the model
    do not change. On TensorFlow, `predict`, `evaluate` and `fit` run without XLA. Calls of the
    model by other threads are recorded too. Contexts must end in the reverse order of their start.

    Args:
        model: any Keras model or layer.
        layers: paths, patterns of paths such as `"decoder/*"`, or layers; all if None.
        heads: indices of the heads to record; all if None. Ignored in layers without heads.
        dtype: dtype of the recorded weights, "float16", "float32" or "float64".
        max_bytes: maximum size of all recorded weights and masks, in bytes.

    Yields:
        `AttentionRecords`, a mapping from layer paths to lists of `AttentionRecord`.

    Raises:
        ValueError: the model has no attention layer, an entry of `layers` matches none, a head does
            not exist, the weights exceed `max_bytes`, no layer ran within the context, or XLA
            compiled the graph.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.inspection import record
        >>> x = keras.Input((None, 8))
        >>> model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
        >>> with record(model) as weights:
        ...     y = model.predict(np.ones((1, 5, 8), "float32"), verbose=0)
        >>> weights["attention"][0].weights.shape
        (1, 2, 5, 5)

    Reference: this library.
    """
    check_choice("dtype", dtype, DTYPES)
    whole_number("max_bytes", max_bytes, 1)
    if heads is not None:
        heads = [whole_number("heads", head, 0) for head in heads]
        if not heads:
            raise ValueError("heads must not be empty. Omit it to record all heads.")
    found = find_attention_layers(model, layers)
    records = AttentionRecords(list(found), max_bytes)
    recorder = _Recorder(found, records, heads, dtype)
    with _retrace_functions(model), attention_hooks(list(found.values()), recorder):
        try:
            yield records
            zoo_ops.wait_for_host_calls()
        except Exception as error:
            if _is_from_xla(error):
                raise ValueError(NO_XLA) from error
            raise
        finally:
            recorder.records = None
    if records.error is not None:
        raise records.error
    if not records:
        raise ValueError(NEVER_RAN.format(model=model.name))


class _Recorder:
    """Hook that adds the weights of a layer to the records whenever the graph runs."""

    def __init__(
        self,
        layers: Mapping[str, Any],
        records: AttentionRecords,
        heads: Sequence[int] | None,
        dtype: str,
    ) -> None:
        self.paths = {id(layer): path for path, layer in layers.items()}
        self.heads, self.dtype = heads, dtype
        self.records: AttentionRecords | None = records
        """None after the context, when graphs that were traced within it may still run."""

    def __call__(self, layer: Any, weights: Tensor, mask: Tensor | None, output: Tensor) -> Tensor:
        path = self.paths[id(layer)]
        weights = self._select(path, weights)
        tensors = [ops.cast(weights, self.dtype)]
        if mask is not None:
            tensors.append(expand_heads(ops.cast(mask, "bool")))

        def add(weights: NDArray[Any], mask: NDArray[Any] | None = None) -> None:
            if self.records is not None:
                self.records.add(path, weights, mask)

        return zoo_ops.call_on_host(add, tensors, output)

    def _select(self, path: str, weights: Tensor) -> Tensor:
        """Return the weights of the selected heads, `(B, H, T, S)`."""
        if len(weights.shape) > 4:
            raise ValueError(
                f"layer {path} has weights of {len(weights.shape)} axes, which cannot be recorded. "
                "Use a layer with one attention axis, or omit it from `layers`."
            )
        has_heads = len(weights.shape) > 3
        weights = expand_heads(weights)
        if self.heads is None or not has_heads:
            return weights
        count = weights.shape[1]
        for head in self.heads:
            if not 0 <= head < count:
                raise ValueError(f"heads must be in 0..{count - 1} for layer {path}, got {head}.")
        return ops.take(weights, ops.convert_to_tensor(list(self.heads), "int32"), axis=1)


def expand_heads(x: Tensor) -> Tensor:
    """Return weights or a mask as `(B, H, T, S)`; missing axes have size 1."""
    if len(x.shape) == 2:
        x = x[None]
    return x[:, None] if len(x.shape) == 3 else x


def join_decoder_steps(records: Sequence[AttentionRecord]) -> list[AttentionRecord]:
    """Join the records of a decoder that attends for one query per call to one of T queries.

    Args:
        records: records of one layer.

    Returns:
        One record with the weights `(B, H, T, S)` of T calls; the given records if there is only
        one, or if they have several queries or different shapes.
    """
    shapes = {entry.weights.shape for entry in records}
    if len(records) < 2 or len(shapes) > 1 or records[0].weights.shape[2] != 1:
        return list(records)
    weights = np.concatenate([entry.weights for entry in records], axis=2)
    if all(entry.mask is None for entry in records):
        return [AttentionRecord(records[0].path, 0, weights, None)]
    masks = [np.True_ if entry.mask is None else entry.mask for entry in records]
    shape = records[0].weights.shape
    mask = np.concatenate([np.broadcast_to(mask, shape) for mask in masks], axis=2)
    return [AttentionRecord(records[0].path, 0, weights, mask)]


@contextlib.contextmanager
def _retrace_functions(model: Any) -> Iterator[None]:
    """Clear the compiled functions of all Keras models inside, and restore them afterwards."""
    models = [layer for layer in _flatten(model) if isinstance(layer, keras.Model)]
    before = [[getattr(m, name, None) for name in FUNCTIONS] for m in models]
    compiled = [vars(m).get("_jit_compile") for m in models]
    optimizers = [getattr(m, "optimizer", None) for m in models]
    try:
        for m in models:
            _set_functions(m, [None] * len(FUNCTIONS))
            if keras.backend.backend() == "tensorflow":
                m.jit_compile = False
        yield
    finally:
        saved = zip(models, before, compiled, optimizers, strict=True)
        for m, functions, jit_compile, optimizer in saved:
            if getattr(m, "optimizer", None) is not optimizer:  # compiled within the context
                _set_functions(m, [None] * len(FUNCTIONS))
                continue
            _set_functions(m, functions)
            m.jit_compile = jit_compile


def _flatten(model: Any) -> list[Any]:
    return list(model._flatten_layers())


def _set_functions(model: Any, functions: Sequence[Any]) -> None:
    for name, function in zip(FUNCTIONS, functions, strict=True):
        if name in vars(model):  # not a method or property of the user's that has this name
            setattr(model, name, function)


def _is_from_xla(error: Exception) -> bool:
    """Return whether TensorFlow's compiler rejected the call of a Python function."""
    message = str(error)
    return "PyFunc" in message and ("XLA" in message or "compil" in message)

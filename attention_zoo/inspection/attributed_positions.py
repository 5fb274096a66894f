"""Layout of attribution scores.

Models may rearrange tokens before they embed them: ours move padding to the end. The positions of
the embedded tokens are mapped to those of the input by the order of tokens without padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo.inspection.attributed_tensors import (
    LayerCall,
    LayerOutput,
    ModelInput,
    TargetFunction,
    TokenInput,
    find_embedding_layers,
    record_calls,
)
from attention_zoo.ops.arguments import whole_number
from attention_zoo.typing import Tensor


class Positions:
    """Mapping between the positions of the attributed tensor and those of the input.

    Args:
        shape: shape of the positions of the attributed values.
        ids: token ids at the positions of the result, or None.
        mask: True at positions that are attributed by default, in their shape.
        index: `(B, P)`, for each position of the input the index of its embedded token in the row
            of an example, -1 at padding; None if both layouts are equal.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        ids: NDArray[Any] | None,
        mask: NDArray[Any],
        index: NDArray[Any] | None = None,
    ) -> None:
        self.shape, self.ids, self.mask, self.index = shape, ids, mask, index
        self.result_shape = shape if ids is None else ids.shape

    def read_mask(self, mask: Any) -> NDArray[Any]:
        """Return a mask in the shape of the values; True at positions that are attributed."""
        if mask is None:
            return self.mask
        mask = self._read("mask", mask)
        if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
            raise ValueError(f"mask must be boolean, got dtype {mask.dtype}")
        return self._rearrange(mask.astype(bool), False) & self.mask

    def read_word_ids(self, word_ids: Any, mask: NDArray[Any]) -> NDArray[Any]:
        """Return the number of the word of each value, from 0 in each example; -1 if masked."""
        rows = self.result_shape[0]
        by_row = mask.reshape(rows, -1)
        if word_ids is None:
            numbers = np.where(by_row, np.cumsum(by_row, axis=1) - 1, -1)
            return numbers.reshape(self.shape)
        ids = self._read("word_ids", word_ids)
        if not np.issubdtype(ids.dtype, np.integer):
            raise ValueError(f"word_ids must be integers, got dtype {ids.dtype}")
        ids = self._rearrange(ids, -1).reshape(rows, -1)
        numbers = np.full(ids.shape, -1)
        for row in range(rows):
            used = by_row[row]
            numbers[row, used] = np.unique(ids[row, used], return_inverse=True)[1]
        return numbers.reshape(self.shape)

    def arrange(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores of values in the layout of the result."""
        rows = self.result_shape[0]
        if self.index is not None:
            by_row = scores.reshape(rows, -1)
            taken = np.take_along_axis(by_row, np.maximum(self.index, 0), axis=1)
            scores = np.where(self.index >= 0, taken, 0)
        return scores.reshape(self.result_shape)

    def _read(self, name: str, values: Any) -> NDArray[Any]:
        array = np.asarray(values)
        if array.shape != self.result_shape:
            raise ValueError(
                f"{name} must have the shape of the scores, {tuple(self.result_shape)}, got "
                f"{array.shape}"
            )
        return array

    def _rearrange(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """Return values in the layout of the result in that of the attributed values."""
        if self.index is None:
            return values.reshape(self.shape)
        rows = len(self.index)
        result = np.full((rows, int(np.prod(self.shape)) // rows), fill, values.dtype)
        row, column = np.nonzero(self.index >= 0)
        result[row, self.index[row, column]] = values.reshape(rows, -1)[row, column]
        return result.reshape(self.shape)


def find_attributed(
    call: TargetFunction,
    name: str | int | None,
    embedding: Any,
    number: int | None,
    padding_id: int | None,
    replace_ids: bool,
) -> tuple[ModelInput | LayerOutput, Positions, Tensor]:
    """Return the attributed tensor of a call, its positions, and the target `(B,)`.

    Args:
        call: the call of the model.
        name: name of the attributed input.
        embedding: the layer whose output is attributed, or None to find it.
        number: number of the layer's call, or None.
        padding_id: id of padding, or None.
        replace_ids: whether token ids are attributed instead of their embeddings.
    """
    x = call.get_input(name)
    is_float = "float" in keras.backend.standardize_dtype(x.dtype)
    is_direct = embedding is None and (is_float or len(x.shape) > 3)
    if replace_ids and not is_direct:
        ids = TokenInput(call, name)
        return ids, _make_positions(ids, None, padding_id), call.compute_target()[0]
    if not call.model.built:  # some models create their layers in their first call
        call.compute_target()
    layers = find_embedding_layers(call.model) if embedding is None else [embedding]
    calls, target = record_calls(call, layers)
    if embedding is not None and not calls:
        raise ValueError(
            f"embedding must be a layer that the model calls, got {embedding!r}, which was not "
            "called"
        )
    values = ops.convert_to_numpy(x)
    indices = [_match_tokens(one, values, padding_id) for one in calls]
    matches = [row for row, index in enumerate(indices) if index is not None]
    if is_direct and not matches:
        value = ModelInput(call, name)
        return value, _make_positions(value, None, padding_id), target[0]
    own = getattr(call.model, "token_embedding", None) if embedding is None else None
    if not matches and any(one.layer is own for one in calls):
        calls, indices = [one for one in calls if one.layer is own], [None]
    row = _choose_call(calls, matches, number, name, embedding is not None)
    output = LayerOutput(call, calls[row])
    index = indices[row]
    tokens = None if index is None else values
    return output, _make_positions(output, index, padding_id, tokens), target[0]


def _choose_call(
    calls: Sequence[LayerCall],
    matches: Sequence[int],
    number: int | None,
    name: str | int | None,
    is_given: bool,
) -> int:
    """Return the row of the attributed call; raise ValueError unless there is exactly one."""
    rows = list(matches) or list(range(len(calls)))
    if number is not None:
        whole_number("call", number, 0)
        rows = [row for row in range(len(calls)) if calls[row].number == number]
        rows = rows if is_given else [row for row in rows if row in matches] or rows
    if len(rows) == 1:
        return rows[0]
    found = ", ".join(f"{one.layer.name} (call {one.number})" for one in calls) or "none"
    which = "the only input" if name is None else f"input {name!r}"
    raise ValueError(
        f"exactly one call of an embedding layer must have the tokens of {which}, got "
        f"{len(rows)} candidates; calls of embedding layers: {found}. Pass `embedding=` (a layer) "
        "and `call=` (a number), or another `input_name`."
    )


def _match_tokens(
    call: LayerCall, values: NDArray[Any], padding_id: int | None
) -> NDArray[Any] | None:
    """Return the index of each input token among the embedded ones; None if they differ.

    Ids that the layer cannot embed, those of copied words, match any id.

    Args:
        call: a call of an embedding layer, or of another layer.
        values: the input, `(B, ...)`.
        padding_id: id of padding, or None.
    """
    if call.ids is None or call.ids.size % len(values) or len(call.ids) % len(values):
        return None
    tokens, embedded = (x.reshape(len(values), -1) for x in (values, call.ids))
    is_token, is_embedded = (
        np.ones(x.shape, bool) if padding_id is None else x != padding_id
        for x in (tokens, embedded)
    )
    if (is_token.sum(axis=1) != is_embedded.sum(axis=1)).any():
        return None
    known = tokens[is_token]
    if ((known != embedded[is_embedded]) & (known < call.layer.input_dim)).any():
        return None
    index = np.full(tokens.shape, -1)
    index[is_token] = np.nonzero(is_embedded)[1]
    return index


def _make_positions(
    attributed: ModelInput | LayerOutput,
    index: NDArray[Any] | None,
    padding_id: int | None,
    values: NDArray[Any] | None = None,
) -> Positions:
    """Return the positions of a tensor; `values` are the input tokens if `index` is given."""
    shape = tuple(attributed.value.shape)
    shape = shape[:-1] if attributed.has_features else shape
    ids = attributed.ids
    mask = np.ones(shape, bool)
    if ids is not None and padding_id is not None:
        mask = ids != padding_id
    if values is not None:
        ids = values.astype("int64")
    elif ids is not None and len(ids) != attributed.call.batch_size:  # windows of an example
        ids = ids.reshape(attributed.call.batch_size, -1)
    return Positions(shape, ids, mask, index)

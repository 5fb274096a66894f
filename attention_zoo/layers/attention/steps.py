"""The four attention steps (score, mask, align, weighted sum), in parallel or sequentially.

Shape letters: B batch, T queries, S sources, W window positions, K and V key and value features,
H heads. `[H]` is an axis of multi-head attention only.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from keras import ops, tree

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.alignments.base import unpack_result
from attention_zoo.layers.alignments.softmax import SoftmaxAlignment
from attention_zoo.layers.attention.expected_lengths import expects_long_sequences
from attention_zoo.layers.scores.dot import DotScore
from attention_zoo.layers.scores.scaled_dot import ScaledDotScore
from attention_zoo.typing import State, Tensor

BLOCKWISE_MIN_SCORES = 2**22
"""Number of scores per head (2048 queries times 2048 sources) from which attention is blockwise.
Below it, blocks would save little memory and no time."""
WINDOW_MIN_SCORES = 2**18
"""The same for a window that skips blocks (512 queries times 512 sources).
Blocks then save time too."""
MIN_STATIC_LENGTH = 128
"""Static length from which attention can be blockwise if the other length is dynamic."""
SCALES = {DotScore: lambda width: 1.0, ScaledDotScore: lambda width: 1 / math.sqrt(width)}
"""Scale of each inner-product score. Exact classes only: a subclass may compute something else."""


class Memory(NamedTuple):
    """Memory prepared for attention.

    values: `(B, S, Dv)`, with heads `(B, H, S, Dv)`. keys: projected keys `(B, S, K)`, with heads
    `(B, H, S, K)`. mask: `(B, S)` or None. extra: result of the alignment's `prepare`.
    unprojected: keys before projection, if each step projects only the keys of its window; `keys`
    is None in this case.
    """

    values: Tensor
    keys: Tensor | None
    mask: Tensor | None
    extra: Any = ()
    unprojected: Tensor | None = None


class Noise(NamedTuple):
    """Noise of T attention steps in training; each field is `(B, [H], T, S)` or None.

    dropout_mask: factors that multiply the weights. alignment: noise of the alignment. With a
    window of W positions, the last axis is W.
    """

    dropout_mask: Tensor | None = None
    alignment: Tensor | None = None


class AttentionMasks(NamedTuple):
    """Query mask, memory mask, attention mask and bias (each may be None), and the mask pattern.

    query: `(B, T)`. memory: `(B, S)`. attention: `(B|1, T, S)`, with heads `(B|1, H|1, T, S)`.
    pattern: causal or windowed. bias: added to the scores, of the shapes of `attention`.
    """

    query: Tensor | None = None
    memory: Tensor | None = None
    attention: Tensor | None = None
    pattern: zoo_ops.MaskPattern = zoo_ops.FULL_ATTENTION
    bias: Tensor | None = None

    def full_mask(self, query: Tensor, values: Tensor) -> Tensor | None:
        """Combine all masks of query and values, to broadcast to `(B, [H], T, S)`, or None."""
        pattern = None
        if self.pattern.causal or self.pattern.window is not None:
            queries = ops.arange(zoo_ops.axis_size(query, -2), dtype="int32")
            sources = ops.arange(zoo_ops.axis_size(values, -2), dtype="int32")
            pattern = ops.expand_dims(self.pattern.mask(queries, sources), 0)
        mask = zoo_ops.combine_masks(
            None if self.query is None else ops.expand_dims(self.query, 2),
            None if self.memory is None else ops.expand_dims(self.memory, 1),
            pattern,
        )
        if mask is None:
            return self.attention
        if len(query.shape) == 4:
            mask = ops.expand_dims(mask, 1)
        return zoo_ops.combine_masks(mask, self.attention)

    def window_mask(self, window: zoo_ops.Window, num_sources: Tensor) -> Tensor:
        """Combine all masks within a window, `(B, [H], T, W)`, without building the full mask."""
        positions = window.positions
        num_queries = zoo_ops.axis_size(positions, -2)
        masks = [window.inside, positions >= 0, positions < num_sources]
        if self.query is not None:
            heads = (1,) * (len(positions.shape) - 3)
            masks.append(ops.reshape(self.query, (-1, *heads, num_queries, 1)))
        if self.memory is not None:
            masks.append(zoo_ops.gather_positions(self.memory, positions, batch_dims=1))
        if self.attention is not None:
            masks.append(_gather_pairs(self.attention, positions, num_sources))
        if self.pattern.causal:
            masks.append(positions <= ops.arange(num_queries, dtype="int32")[:, None])
        return zoo_ops.combine_masks(*masks)

    def add_bias(
        self,
        scores: Tensor,
        mask: Tensor,
        window: zoo_ops.Window | None = None,
        num_sources: Tensor | None = None,
    ) -> Tensor:
        """Add the bias to the scores `(B, [H], T, S or W)` of unmasked positions."""
        bias = self.bias
        if window is not None:
            bias = _gather_pairs(bias, window.positions, num_sources)
        return scores + ops.where(mask, ops.cast(bias, scores.dtype), 0)


class AttentionResult(NamedTuple):
    """Result of T attention steps.

    context: `(B, [H], T, V)`. row_mask: False for fully masked rows, broadcasts to
    `(B, [H], T, 1)`; None if no row can be fully masked. weights: before dropout,
    `(B, [H], T, S)`, or `(B, [H], T, W)` in a window; None if blockwise. state: if parallel, the
    state after each step, leaves `(B, [H], T, ...)`; if sequential, the state after the last step,
    leaves `(B, [H], ...)`. window: the window of each step, or None.
    """

    context: Tensor
    row_mask: Tensor | None
    weights: Tensor | None = None
    state: State = ()
    window: zoo_ops.Window | None = None

    def full_weights(self, num_sources: Tensor) -> Tensor:
        """Return the weights over the whole memory, `(B, [H], T, S)`."""
        if self.window is None:
            return self.weights
        return zoo_ops.scatter_window(self.weights, self.window, num_sources)


def is_long_sequence(length: int) -> bool:
    """Return whether self-attention over this many positions is blockwise."""
    return length**2 >= BLOCKWISE_MIN_SCORES


def use_blockwise(attention: Any, num_queries: Tensor, num_sources: Tensor) -> bool:
    """Return whether the contexts are computed block by block, without storing the weights.

    Dynamic lengths count as long within `expect_long_sequences`, unless the other length is static
    and small. A window costs O(T S) without blocks, and dynamic lengths always count as long.
    Symbolic lengths (on JAX) are always short: they cannot be compared with the size of a block.
    """
    pattern = attention.mask_pattern
    if isinstance(num_queries, int) and isinstance(num_sources, int):
        num_scores = num_queries * num_sources
        long = num_scores >= BLOCKWISE_MIN_SCORES
        if num_scores >= WINDOW_MIN_SCORES:
            long = long or pattern.skips_blocks(num_sources)
    elif zoo_ops.is_symbolic(num_queries) or zoo_ops.is_symbolic(num_sources):
        long = False
    else:
        sizes = [size for size in (num_queries, num_sources) if isinstance(size, int)]
        long = expects_long_sequences() and min(sizes, default=math.inf) >= MIN_STATIC_LENGTH
        long = long or pattern.window is not None
    return long and _is_inner_product_softmax(attention)


def _is_inner_product_softmax(attention: Any) -> bool:
    """Return whether weights are a softmax of inner products plus at most a bias by distance."""
    for name in ("compute_scores", "weighted_sum"):
        module = getattr(type(attention), name).__module__
        if not module.startswith("attention_zoo.layers."):
            return False  # an override in another package may compute something else
    if type(attention.score) not in SCALES or type(attention.alignment) is not SoftmaxAlignment:
        return False
    positions = getattr(attention, "positions", None)
    return positions is None or (
        not positions.has_offset and (not positions.has_bias or positions.has_distance_bias)
    )


def attend_stateful(
    attention: Any,
    query: Tensor,
    memory: Memory,
    masks: AttentionMasks,
    noise: Noise | None,
    training: bool,
) -> AttentionResult:
    """Run T attention steps of a stateful layer.

    They run in parallel if the state before each is known, else sequentially.
    """
    alignment, like = attention.alignment, attention.weights_like(memory)
    query_mask = ops.ones(ops.shape(query)[:-1], "bool")
    if masks.query is not None:
        mask = masks.query[:, None] if attention.heads else masks.query
        query_mask = ops.logical_and(query_mask, mask)
    previous = None
    if not attention.score.is_stateful:
        previous = alignment.compute_previous_states(like, query_mask)
    if previous is None:
        state = attention.initial_state(memory)
        return attend_sequential(attention, query, memory, masks, state, noise, training)
    state = ((), previous)
    result = attend_parallel(attention, query, memory, masks, state, noise, training)
    final_state = alignment.compute_final_state(result.state[1], query_mask)
    return result._replace(state=((), final_state))


def attend_parallel(
    attention: Any,
    query: Tensor,
    memory: Memory,
    masks: AttentionMasks,
    state: State,
    noise: Noise | None = None,
    training: bool = False,
) -> AttentionResult:
    """Run T attention steps in parallel; `state` is the state before each, `(B, [H], T, ...)`."""
    score, alignment = attention.score, attention.alignment
    score_state, alignment_state = state or ((), ())
    aux = None  # what the alignment computes from query and keys: a window, or its own tensors
    if alignment.has_precompute:
        aux = alignment.precompute(query, memory, alignment_state)
    window = aux if isinstance(aux, zoo_ops.Window) else None
    num_sources = None if window is None else zoo_ops.axis_size(memory.values, -2)
    if window is None:
        values = memory.values  # (B, [H], S, V)
        scores = attention.compute_scores(query, memory.keys, score_state)  # (B, [H], T, S)
        mask = masks.full_mask(query, memory.values)  # (B, [1], T, S)
    else:
        values = attention.gather_window(memory.values, window)  # (B, [H], T, W, V)
        scores = _score_window(  # (B, [H], T, W)
            attention, query, memory, window, values, score_state
        )
        mask = masks.window_mask(window, num_sources)  # (B, [H], T, W)
    if masks.bias is not None:
        scores = masks.add_bias(scores, mask, window, num_sources)
    alignment_noise = noise.alignment if noise else None
    weights, alignment_state = align(
        alignment, scores, mask, alignment_state, aux, alignment_noise, training
    )  # (B, [H], T, S or W)
    context = sum_values(attention, weights, values, noise)  # (B, [H], T, V)
    row_mask = None
    if mask is not None or not memory.values.shape[-2]:  # else no row can be fully masked
        row_mask = _row_mask(mask, memory)
    if not state:
        return AttentionResult(context, row_mask, weights, (), window)
    if score.is_stateful:
        score_state = score.update_state(weights, score_state)
    new_state = (score_state, alignment_state)
    if window is None:  # a fully masked window updates the state too: the next window is another
        new_state = _restore_fully_masked(row_mask, new_state, state)
    return AttentionResult(context, row_mask, weights, new_state, window)


def attend_sequential(
    attention: Any,
    query: Tensor,
    memory: Memory,
    masks: AttentionMasks,
    state: State,
    noise: Noise | None = None,
    training: bool = False,
) -> AttentionResult:
    """Run T attention steps sequentially; `state` is the initial state, `(B, [H], ...)`."""
    score, alignment = attention.score, attention.alignment
    mask = masks.full_mask(query, memory.values)
    if mask is not None:
        shape = (*ops.shape(query)[:-1], zoo_ops.axis_size(memory.values, -2))
        mask = ops.broadcast_to(mask, shape)  # (B, [H], T, S)
    # A stateful score is computed within the loop, any other for all steps before it.
    rows, bias = query, None
    if not score.is_stateful:
        rows = attention.compute_scores(query, memory.keys, ())
        if masks.bias is not None:
            rows = masks.add_bias(rows, mask)
    elif masks.bias is not None:
        zeros = ops.zeros(ops.shape(mask), zoo_ops.at_least_float32(masks.bias).dtype)
        bias = masks.add_bias(zeros, mask)
    inputs = {
        "query_or_scores": rows[..., None, :],
        "bias": bias,
        "mask": mask,
        "aux": alignment.precompute(query, memory, None) if alignment.has_precompute else None,
        "noise": noise.alignment if noise else None,
    }
    inputs = {name: x for name, x in inputs.items() if x is not None}
    time_axis = len(query.shape) - 2
    inputs = tree.map_structure(lambda x: ops.moveaxis(x, time_axis, 0), inputs)

    def step(state: State, inputs: dict[str, Any]) -> tuple[State, Tensor]:
        score_state, alignment_state = state
        row, mask = inputs["query_or_scores"], inputs.get("mask")
        if score.is_stateful:
            before = tree.map_structure(lambda x: x[..., None, :], score_state)
            row = attention.compute_scores(row, memory.keys, before)
            if "bias" in inputs:
                row = row + ops.cast(inputs["bias"], row.dtype)[..., None, :]
        aux, noise = inputs.get("aux"), inputs.get("noise")
        weights, alignment_state = align(
            alignment, row[..., 0, :], mask, alignment_state, aux, noise, training
        )
        if score.is_stateful:
            score_state = score.update_state(weights, score_state)
        row_mask = None if mask is None else ops.any(mask, axis=-1, keepdims=True)
        return _restore_fully_masked(row_mask, (score_state, alignment_state), state), weights

    like = ops.zeros_like(attention.weights_like(memory))
    state, weights = zoo_ops.scan(step, state, inputs, like=like)
    weights = ops.moveaxis(weights, 0, time_axis)  # (B, [H], T, S)
    context = sum_values(attention, weights, memory.values, noise)  # (B, [H], T, V)
    return AttentionResult(context, _row_mask(mask, memory), weights, state)


def align(
    alignment: Any,
    scores: Tensor,
    mask: Tensor | None,
    state: State,
    aux: Any,
    noise: Tensor | None,
    training: bool,
) -> tuple[Tensor, State]:
    """Return weights and next state; an alignment that takes no `aux` or `noise` gets none."""
    options = {"state": state, "training": training}
    if aux is not None:
        options["aux"] = aux
    if noise is not None:
        options["noise"] = noise
    result = alignment.call(scores, mask=mask, **options)
    is_pair = type(result) is tuple and len(result) == 2
    return result if is_pair else unpack_result(alignment, result)  # raises an error


def sum_values(attention: Any, weights: Tensor, values: Tensor, noise: Noise | None) -> Tensor:
    """Apply dropout to the weights and sum the values, in at least float32.

    Args:
        weights: `(B, [H], T, S)`, or `(B, [H], T, W)` in a window.
        values: `(B, [H], S, V)`, or `(B, [H], T, W, V)` in a window.

    Returns:
        `(B, [H], T, V)` in the compute dtype.
    """
    if noise is not None and noise.dropout_mask is not None:
        weights = weights * ops.cast(noise.dropout_mask, weights.dtype)
    if len(values.shape) == len(weights.shape):
        context = attention.weighted_sum(weights, values)
    else:
        values = ops.cast(values, weights.dtype)
        context = ops.matmul(weights[..., None, :], values)[..., 0, :]
    return ops.cast(context, attention.compute_dtype)


def _score_window(
    attention: Any,
    query: Tensor,
    memory: Memory,
    window: zoo_ops.Window,
    window_values: Tensor,
    state: State,
) -> Tensor:
    """Compute the scores within the window of each step, `(B, [H], T, W)`."""
    query = query[..., None, :]  # (B, [H], T, 1, K)
    keys = memory.keys if memory.unprojected is None else memory.unprojected
    in_window = window_values  # (B, [H], T, W, K)
    if keys is not memory.values:
        in_window = attention.gather_window(keys, window)
    if memory.unprojected is not None:
        return attention.score.call(query, in_window)[..., 0, :]
    return attention.compute_scores(query, in_window, state)[..., 0, :]


def _row_mask(mask: Tensor | None, memory: Memory) -> Tensor | None:
    """Return booleans, False for fully masked rows; None if no row can be fully masked."""
    if mask is not None:
        return ops.any(mask, axis=-1, keepdims=True)
    if memory.values.shape[-2]:
        return None
    has_sources = ops.convert_to_tensor(zoo_ops.axis_size(memory.values, -2) > 0)
    return ops.reshape(has_sources, (1,) * len(memory.values.shape))


def _gather_pairs(x: Tensor, positions: Tensor, num_sources: Tensor) -> Tensor:
    """Gather entries of a mask or bias of all pairs at source positions `(B, [H], T, W)`."""
    x = ops.broadcast_to(x, (*ops.shape(positions)[:-1], num_sources))
    return zoo_ops.gather_positions(x, positions, batch_dims=len(positions.shape) - 1)


def _restore_fully_masked(row_mask: Tensor | None, new: State, old: State) -> State:
    """Return the new state; fully masked rows keep the old state."""
    if row_mask is None:
        return new
    return tree.map_structure(lambda a, b: ops.where(row_mask, a, b), new, old)

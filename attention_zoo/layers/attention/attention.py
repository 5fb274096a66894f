"""Attention layer: score, mask, align, weighted sum."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops, tree

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.alignments import make_alignment
from attention_zoo.layers.attention import blockwise, steps
from attention_zoo.layers.attention.alignment_checks import build_alignment
from attention_zoo.layers.attention.attention_shapes import (
    NOT_SYMBOLIC,
    broadcast_batch,
    check_built_shapes,
    check_shapes,
    compute_output_specs,
    expand_list_arguments,
    repeat_batch,
    standardize_mask_and_bias,
    unpack_shapes,
    zero_unattended,
)
from attention_zoo.layers.attention.excluded_pairs import refuse_excluded_pair
from attention_zoo.layers.attention.steps import AttentionMasks, Memory, Noise
from attention_zoo.layers.attention.weights_hooks import HOOKS, run_result_hooks
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.scores import make_score
from attention_zoo.layers.scores.base import build_score
from attention_zoo.typing import Shape, State, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class Attention(KernelLayer):
    """Attention with any score and any alignment.

    `context_t = sum_j weights_tj value_j`, `weights_t = align(score(query_t, key_j) over j)`

    Args:
        score: score function of query and key, a name (see `SCORES.names()`) or a `Score`.
        alignment: function from scores to weights, a name (see `ALIGNMENTS.names()`) or an
            `Alignment`.
        units: number of hidden units of the score, if it is given by name and has a hidden layer.
        dropout: dropout rate of the weights, in [0, 1).
        seed: seed of the dropout, an integer or None.
        **kwargs: keywords of kernels and biases as in `keras.layers.Dense`, such as
            `kernel_regularizer`, and arguments of `keras.layers.Layer`.

    Raises:
        ValueError: score and alignment exclude each other: local alignments need a score that has
            no state and compares query and key (`excluded_pairs.EXCLUDED_PAIRS`).

    A multi-head subclass sets `heads` to the number of heads, splits them in `prepare` and
    `project_query`, and concatenates them in `project_output`.

    Call arguments:
        query: `(B, T, Dq)`; or a list `[query, value]` or `[query, value, key]`, with `mask` as a
            list `[query_mask, value_mask]`, as in `keras.layers.Attention`.
        value: `(B, S, Dv)`; a batch of 1 broadcasts, in all tensors and masks.
        key: `(B, S, Dk)`; if None, the value is the key.
        query_mask, value_mask, key_mask: `(B, T)`, `(B, S)`, `(B, S)`, False at masked positions;
            combined by AND with the tensors' implicit Keras masks.
        attention_mask: `(T, S)`, `(B, T, S)` or `(B, H, T, S)`, True where query t may attend to
            source s; axes of size 1 broadcast. H is 1 in layers without heads.
        attention_bias: floats of the same shapes as `attention_mask`, added to the scores;
            positions with a bias of -inf are masked.
        use_causal_mask: whether query t attends to the sources 0 .. t only.
        return_attention_scores: whether to return the weights too.
        return_state: whether to return the state after the last step too.
        training: enables dropout and the training mode of the alignment (noise, sampling).

    Returns:
        Context `(B, T, Dv)`; if requested, also the weights `(B, T, S)` before dropout, and the
        state.

    Weights:
        The weights of the score and of the alignment.

    Masking:
        A masked position has weight exactly 0; if all queries mask it, its content (even NaN)
        affects no output and no gradient. A causal mask does not stop NaN: 0 times NaN is NaN.
        Masked queries and fully masked rows have context 0 and weights 0. The Keras mask of the
        context is the query mask. The implicit masks of the inputs are not modified.

    Cost:
        O(T S) scores (see the score for the cost of each), O(T S Dv) for the weighted sum; O(T S)
        memory. Softmax attention with the score "dot" or "scaled_dot" is computed blockwise in
        O(T + S) memory if T S >= 2^22, unless weights or state are returned. If T or S is dynamic,
        it is blockwise in `training.fit`, `task.predict` and `compiled_search` if a sequence has
        2,048 tokens or more, and in exports of tasks that accept such sources.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention
        >>> layer = Attention(score="additive", units=8)
        >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")
        >>> context, weights = layer(query, value, return_attention_scores=True)
        >>> tuple(context.shape), tuple(weights.shape)
        ((2, 3, 6), (2, 3, 5))

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, equations 5 and 6: c_i is the context, alpha_ij
        the weights, e_ij the scores, h_j key and value, s_{i-1} the query.
    """

    runs_weights_hooks = True
    heads: int | None = None
    mask_pattern = zoo_ops.FULL_ATTENTION  # WindowedAttention sets a window
    built_shapes: tuple[Shape, ...] = ()  # shapes of query, value and key in `build`

    def __init__(
        self,
        score: Any = "scaled_dot",
        alignment: Any = "softmax",
        units: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.score = make_score(score, **self.part_arguments, units=units)
        self.alignment = make_alignment(alignment, **self.part_arguments)
        refuse_excluded_pair(self.score, self.alignment)
        # Whether an attention step depends on the previous steps.
        self.is_stateful = self.score.is_stateful or self.alignment.is_stateful
        self.dropout, self.seed = zoo_ops.rate("dropout", dropout), seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(
        self, query_shape: Any, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        """Build the layer from three shapes, or from a list of them."""
        shapes = unpack_shapes(query_shape, value_shape, key_shape)
        self.built_shapes = check_shapes(*shapes)
        self.build_parts(shapes[0], shapes[2], shapes[1][-1])

    def build_parts(self, query_shape: Shape, key_shape: Shape, value_width: int) -> None:
        """Build score and alignment for shapes `(B, [H], T, Dq)` and `(B, [H], S, Dk)`."""
        build_score(self.score, query_shape, key_shape)
        build_alignment(self.alignment, self.score, query_shape, key_shape, value_width)

    def __call__(self, query: Any, *args: Any, mask: Any = None, **kwargs: Any) -> Any:
        """Call the layer; lists of inputs and masks are passed on as single arguments."""
        if not isinstance(query, (list, tuple)) and mask is None:
            return super().__call__(query, *args, **kwargs)
        inputs, kwargs = expand_list_arguments(query, args, mask, kwargs)
        return super().__call__(*inputs, **kwargs)

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        return_state: bool = False,
        training: bool | None = None,
    ) -> Any:
        keys = value if key is None else key
        if 1 in (query.shape[0], value.shape[0], keys.shape[0]):
            masks = (query_mask, value_mask, key_mask, attention_mask, attention_bias)
            query, value, key = zoo_ops.match_batches((query, value, key), masks)
            keys = value if key is None else key
        if (tuple(query.shape), tuple(value.shape), tuple(keys.shape)) != self.built_shapes:
            check_built_shapes(self, query, value, key)
        num_queries, num_sources = query.shape[1], value.shape[1]
        query_mask = zoo_ops.merge_masks("query_mask", query_mask, query)  # (B, T)
        value_mask = zoo_ops.merge_masks("value_mask", value_mask, value)  # (B, S)
        if key is not None or key_mask is not None:
            key_mask = zoo_ops.merge_masks("key_mask", key_mask, key)
            value_mask = zoo_ops.combine_masks(value_mask, key_mask)
        if attention_mask is not None or attention_bias is not None:
            attention_mask, attention_bias = standardize_mask_and_bias(
                self, attention_mask, attention_bias, (query, value, keys)
            )
            value, key = zero_unattended(attention_mask, value, key)
        pattern = self.mask_pattern._replace(causal=use_causal_mask)
        query = zoo_ops.zero_masked(ops.cast(query, self.compute_dtype), query_mask)  # (B, T, Dq)
        training = bool(training)
        if not query.shape[0] == value.shape[0] == keys.shape[0]:
            like = (query, value, keys)
            query, query_mask = repeat_batch(query, query_mask, like=like)
            if key is not None or self.is_stateful or self.alignment.has_precompute or training:
                value, key, value_mask = repeat_batch(value, key, value_mask, like=like)

        # Prepare keys (B, [H], S, K) and values (B, [H], S, V); only multi-head layers have axis
        # [H]. Then score, mask, align, sum.
        memory = self.prepare(value, key, value_mask, num_queries)
        projected = self.project_query(query)  # (B, [H], T, K)
        masks = AttentionMasks(query_mask, memory.mask, attention_mask, pattern, attention_bias)
        needs_weights = return_attention_scores or return_state
        if not needs_weights and steps.use_blockwise(self, num_queries, num_sources):
            result = blockwise.attend_blockwise(self, projected, memory, masks, training)
        else:
            noise = None
            if training:
                noise = self.sample_noise(memory, zoo_ops.axis_size(query, 1), training)
            if self.is_stateful:
                result = steps.attend_stateful(self, projected, memory, masks, noise, training)
            else:
                result = steps.attend_parallel(self, projected, memory, masks, (), noise, training)
            if result.row_mask is not None:  # NaN of the memory reaches no fully masked row
                context = zoo_ops.where_or_zero(result.row_mask, result.context)
                result = result._replace(context=context)
        if HOOKS:
            result = run_result_hooks(self, projected, memory, masks, result)
        output = self.project_output(result.context, query, result.row_mask)  # (B, T, Dv)
        if query_mask is not None:
            zoo_ops.attach_mask(output, query_mask)
        if not needs_weights:
            return output
        outputs = [output]
        if return_attention_scores:
            weights = result.full_weights(zoo_ops.axis_size(memory.values, -2))  # (B, [H], T, S)
            outputs.append(ops.cast(weights, self.compute_dtype))
        if return_state:
            outputs.append(result.state)
        return tuple(outputs)

    def prepare(
        self,
        value: Tensor,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        num_queries: int | None = None,
    ) -> Memory:
        """Zero the masked positions and project the keys, once for many attention steps.

        Args:
            value: `(B, S, Dv)`. key: `(B, S, Dk)` or None.
            value_mask: `(B, S)` or None; combined by AND with the value's implicit Keras mask.
            num_queries: number of attention steps, None if unknown. With a local alignment, if
                that many windows together have fewer than S positions, each step projects the keys
                of its own window instead.
        """
        values, keys, mask = self.zero_masked_memory(value, key, value_mask)
        if not self.alignment.has_precompute:
            return Memory(values, self.score.project(keys), mask)
        extra = self.alignment.prepare(keys)
        num_queries, num_sources = map(zoo_ops.static_size, (num_queries, keys.shape[-2]))
        width = self.alignment.width(num_sources) if num_sources else 0
        if num_queries and num_sources and num_queries * width < num_sources:
            return Memory(values, None, mask, extra, unprojected=keys)
        return Memory(values, self.score.project(keys), mask, extra)

    def zero_masked_memory(
        self, value: Tensor, key: Tensor | None, value_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values and keys in the compute dtype, 0 where masked, and their combined mask."""
        if isinstance(value, keras.KerasTensor) or isinstance(key, keras.KerasTensor):
            raise ValueError(NOT_SYMBOLIC)
        if value.shape[0] == 1 and value_mask is not None:
            value, key = (zoo_ops.repeat_to_mask_batch(x, value_mask) for x in (value, key))
        keys = value if key is None else key
        if (tuple(value.shape), tuple(keys.shape)) != self.built_shapes[1:]:
            check_built_shapes(self, None, value, key)
        value_mask = zoo_ops.merge_masks("value_mask", value_mask, value)
        values = zoo_ops.zero_masked(ops.cast(value, self.compute_dtype), value_mask)
        if key is None:
            return values, values, value_mask
        keys = zoo_ops.zero_masked(ops.cast(key, self.compute_dtype), value_mask)
        return values, keys, value_mask

    def weights_like(self, memory: Memory) -> Tensor:
        """Return a tensor of the shape and dtype of one step's weights, `(B, [H], S)`."""
        return zoo_ops.at_least_float32(memory.values[..., 0])

    def initial_state(self, memory: Memory) -> State:
        """Return the state before the first step: the score's state and the alignment's state.

        It is `()` if neither is stateful.
        """
        return self._initial_state(self.weights_like(memory))

    def _initial_state(self, like: Tensor) -> State:
        if not self.is_stateful:
            return ()
        return self.score.initial_state(like), self.alignment.initial_state(like)

    def attend(
        self,
        query: Tensor,
        memory: Memory,
        state: State = (),
        noise: Noise | None = None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, State]:
        """Run one attention step inside the call of a built layer or model.

        Args:
            query: `(B, Dq)`; or `(B, N, Dq)` for N independent queries to one memory, such as
                the hypotheses of a beam search.
            memory: from `prepare`.
            state: from `initial_state` or the previous step, leaves `(B, ...)` or `(B, N, ...)`.
            noise: from `sample_noise`, leaves `(B, [H], S)` or `(B, [H], N, S)`. In a loop over
                time, sample it before the loop.
            training: passed to the alignment; dropout is applied through `noise`.

        Returns:
            Context `(B, Dv)`, weights `(B, [H], S)` before dropout, and the next state. If the
            query has an axis N, all three have it as their second axis.
        """
        if isinstance(query, keras.KerasTensor):
            raise ValueError(NOT_SYMBOLIC)
        query = ops.cast(query, self.compute_dtype)
        single = len(query.shape) == 2
        if single:
            query = query[:, None]
            noise = tree.map_structure(lambda x: None if x is None else x[..., None, :], noise)
            state = tree.map_structure(lambda x: x[..., None, :], state)
        elif self.heads:
            state = tree.map_structure(lambda x: ops.swapaxes(x, 1, 2), state)
        masks, projected = AttentionMasks(memory=memory.mask), self.project_query(query)
        result = steps.attend_parallel(self, projected, memory, masks, state, noise, training)
        if HOOKS:
            result = run_result_hooks(self, projected, memory, masks, result)
        context = self.project_output(result.context, query, result.row_mask)
        weights = result.full_weights(zoo_ops.axis_size(memory.values, -2))
        weights, state = ops.cast(weights, self.compute_dtype), result.state
        if single:
            state = tree.map_structure(lambda x: x[..., 0, :], state)
            return context[:, 0], weights[..., 0, :], state
        if self.heads:
            state = tree.map_structure(lambda x: ops.swapaxes(x, 1, 2), state)
            weights = ops.swapaxes(weights, 1, 2)
        return context, weights, state

    def sample_noise(self, memory: Memory, num_steps: Tensor, training: bool) -> Noise | None:
        """Sample dropout mask and alignment noise of `num_steps` attention steps.

        The result is None at inference, or if there is neither.
        """
        if not (training and (self.dropout or self.alignment.has_noise)):
            return None
        like = self.weights_like(memory)
        *rows, num_sources = ops.shape(like)
        shape = (*rows, num_steps, self.alignment.width(num_sources))
        dtype = keras.backend.standardize_dtype(like.dtype)
        dropout_mask = None
        if self.dropout:  # indexed by position, so that the blockwise path drops the same weights
            num_rows = math.prod(rows[1:]) * rows[0]
            seed = self.seed_generator.next()
            dropout_mask = zoo_ops.dropout_mask(seed, self.dropout, num_rows, shape[-2:])
            dropout_mask = ops.cast(ops.reshape(dropout_mask, shape), dtype)
        noise = self.alignment.sample_noise(shape, dtype)
        return None if dropout_mask is None and noise is None else Noise(dropout_mask, noise)

    def project_query(self, query: Tensor) -> Tensor:
        """Return the query that is passed to the score, `(B, [H], T, D)`."""
        return query

    def compute_scores(self, query: Tensor, keys: Tensor, state: State) -> Tensor:
        """Compute the scores of queries and projected keys; `state` is the score's state."""
        return self.score.compute_scores(query, keys, *([state] if state else []))

    def project_output(self, context: Tensor, query: Tensor, row_mask: Tensor | None) -> Tensor:
        """Compute the output `(B, T, Dv)` from the context `(B, [H], T, Dv)`.

        Args:
            context: in the compute dtype.
            query: `(B, T, Dq)`, before `project_query`.
            row_mask: booleans that broadcast to `(B, [H], T, 1)`, False for fully masked rows,
                whose output is 0; or None.
        """
        return context

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return weighted sums `(B, [H], T, Dv)` in the dtype of the weights `(B, [H], T, S)`."""
        return ops.matmul(weights, ops.cast(values, weights.dtype))

    def gather_window(self, x: Tensor, window: zoo_ops.Window) -> Tensor:
        """Gather the keys or values of each step's window, `(B, [H], T, W, D)`."""
        return zoo_ops.gather_positions(x, window.positions, batch_dims=len(x.shape) - 2)

    def compute_output_shape(
        self, query_shape: Any, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> Shape:
        """Compute the shape of the context from three shapes, or from a list of them."""
        shapes = unpack_shapes(query_shape, value_shape, key_shape)
        query, value, _ = shapes
        batch = broadcast_batch(*(shape[0] for shape in shapes))
        return (batch, *query[1:-1], self.get_output_width(query[-1], value[-1]))

    def get_output_width(self, query_width: int, value_width: int) -> int:
        """Return the width of the context."""
        return value_width

    def compute_output_spec(self, query: Any, *args: Any, mask: Any = None, **kwargs: Any) -> Any:
        """Return the symbolic outputs for the arguments of the layer, lists included."""
        return compute_output_specs(self, *expand_list_arguments(query, args, mask, kwargs))

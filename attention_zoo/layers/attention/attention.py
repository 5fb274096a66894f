"""Attention layer: score, mask, align, weighted sum."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops, tree

# Keras has no public function that infers the output shapes of a function.
from keras.src.backend import compute_output_spec

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.alignments import make_alignment
from attention_zoo.layers.attention import blockwise, steps
from attention_zoo.layers.attention.attention_shapes import check_call, check_memory, check_shapes
from attention_zoo.layers.attention.excluded_pairs import refuse_excluded_pair
from attention_zoo.layers.attention.steps import AttentionMasks, AttentionResult, Memory, Noise
from attention_zoo.layers.scores import make_score
from attention_zoo.typing import Shape, State, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class Attention(keras.layers.Layer):
    """Attention with any score and any alignment.

    `context_t = sum_j weights_tj value_j`, `weights_t = align(score(query_t, key_j) over j)`

    Args:
        score: score function of query and key, a name (see `SCORES.names()`) or a `Score`.
        alignment: function from scores to weights, a name (see `ALIGNMENTS.names()`) or an
            `Alignment`.
        units: number of hidden units of the score, if it is given by name and has a hidden layer.
        dropout: dropout rate of the weights, in [0, 1).
        seed: seed of the dropout, an integer or None.

    A multi-head subclass sets `heads` to the number of heads, splits them in `prepare` and
    `project_query`, and concatenates them in `project_output`.

    Call arguments:
        query: `(B, T, Dq)`.
        value: `(B, S, Dv)`.
        key: `(B, S, Dk)`; if None, the value is the key.
        query_mask, value_mask, key_mask: `(B, T)`, `(B, S)`, `(B, S)`, False at masked positions;
            combined by AND with the tensors' implicit Keras masks.
        attention_mask: `(B, T, S)`, True where query t may attend to source s.
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
        A masked position has weight exactly 0; its content (even NaN) affects no output and no
        gradient. Masked queries and fully masked rows have context 0 and weights 0. The context
        carries the query's mask. The implicit masks of the inputs are not modified.

    Cost:
        O(T S) scores (see the score for the cost of each), O(T S Dv) for the weighted sum; O(T S)
        memory. From static T S = 2^22 on, softmax attention with an inner-product score is computed
        blockwise in O(T + S) memory, unless the weights are returned.

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

    heads: int | None = None
    reach = zoo_ops.FULL_ATTENTION  # an enclosing layer may restrict it

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
        if not 0 <= zoo_ops.number(dropout) < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout!r}")
        self.score = make_score(score, self.dtype_policy, units=units)
        self.alignment = make_alignment(alignment, self.dtype_policy)
        refuse_excluded_pair(self.score, self.alignment)
        self.dropout, self.seed = dropout, seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        check_shapes(query_shape, value_shape, key_shape or value_shape)
        self.build_parts(tuple(query_shape), tuple(key_shape or value_shape))
        self.built = True

    def build_parts(self, query_shape: Shape, key_shape: Shape) -> None:
        """Build score and alignment for shapes `(B, [H], T, Dq)` and `(B, [H], S, Dk)`."""
        if not self.score.built:
            self.score.build(query_shape, key_shape)
        if not self.alignment.built:
            self.alignment.build_readers(query_shape, key_shape)
            self.alignment.build((*query_shape[:-1], key_shape[-2]))

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        return_state: bool = False,
        training: bool | None = None,
    ) -> Any:
        check_call(self, query, value, key)
        query_mask = zoo_ops.merge_masks("query_mask", query_mask, query)
        value_mask = zoo_ops.combine_masks(
            zoo_ops.merge_masks("value_mask", value_mask, value),
            zoo_ops.merge_masks("key_mask", key_mask, key),
        )
        shape = (query.shape[0], query.shape[1], value.shape[1])
        if attention_mask is not None:
            attention_mask = zoo_ops.as_boolean_mask(attention_mask, "attention_mask", shape)
        memory = self.prepare(value, key, value_mask, query.shape[1])
        reach = self.reach._replace(causal=use_causal_mask)
        allowed = AttentionMasks(query_mask, memory.mask, attention_mask, reach)
        query = zoo_ops.zero_masked(ops.cast(query, self.compute_dtype), query_mask)
        projected, training = self.project_query(query), bool(training)
        needs_weights = return_attention_scores or return_state
        if not needs_weights and blockwise.use_blockwise(self, *shape[1:]):
            context, row_mask = blockwise.attend_blockwise(
                self, projected, memory, allowed, training
            )
            context = self.project_output(ops.cast(context, self.compute_dtype), query, row_mask)
            return zoo_ops.pass_mask_on(context, query_mask)
        noise = self.sample_noise(memory, ops.shape(query)[1], training)
        result = self._attend(projected, memory, allowed, noise, training)
        context = self.project_output(self._weigh(result, memory, noise), query, result.row_mask)
        outputs = [zoo_ops.pass_mask_on(context, query_mask)]
        if return_attention_scores:
            weights = result.full_weights(ops.shape(memory.values)[-2])
            outputs.append(ops.cast(weights, self.compute_dtype))
        if return_state:
            outputs.append(result.state)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

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
            num_queries: number of attention steps, None if unknown. If all their windows together
                have fewer than S positions, each step projects the keys of its own window instead.
        """
        values, keys, mask = self.zero_masked_memory(value, key, value_mask)
        extra = self.alignment.prepare(keys)
        places = keys.shape[-2]
        if num_queries and places and num_queries * self.alignment.width(places) < places:
            return Memory(values, None, mask, extra, unprojected=keys)
        return Memory(values, self.score.project(keys), mask, extra)

    def zero_masked_memory(
        self, value: Tensor, key: Tensor | None, value_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return values and keys in the compute dtype, 0 where masked, and their combined mask."""
        _refuse_symbolic(value, key)
        check_memory(self, value, key)
        value_mask = zoo_ops.merge_masks("value_mask", value_mask, value)
        values = zoo_ops.zero_masked(ops.cast(value, self.compute_dtype), value_mask)
        keys = values
        if key is not None:
            keys = zoo_ops.zero_masked(ops.cast(key, self.compute_dtype), value_mask)
        return values, keys, value_mask

    def weights_like(self, memory: Memory) -> Tensor:
        """Return a tensor of the shape and dtype of one step's weights, `(B, [H], S)`."""
        return zoo_ops.at_least_float32(memory.values[..., 0])

    @property
    def is_stateful(self) -> bool:
        """Whether an attention step depends on the previous steps."""
        return bool(self.score.is_stateful or self.alignment.is_stateful)

    def initial_state(self, memory: Memory) -> State:
        """Return the state before the first step: the score's state and the alignment's state.

        It is `()` if neither is stateful.
        """
        if not self.is_stateful:
            return ()
        like = self.weights_like(memory)
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
            training: passed to the alignment.

        Returns:
            Context `(B, Dv)`, weights `(B, [H], S)` before dropout, and the next state. If the
            query has an axis N, all three have it as their second axis.
        """
        _refuse_symbolic(query)
        query = ops.cast(query, self.compute_dtype)
        one = len(query.shape) == 2
        if one:
            query = query[:, None]
            noise = tree.map_structure(lambda x: None if x is None else x[..., None, :], noise)
        elif self.heads:
            state = tree.map_structure(lambda x: ops.swapaxes(x, 1, 2), state)
        if one:
            state = tree.map_structure(lambda x: x[..., None, :], state)
        allowed = AttentionMasks(memory=memory.mask)
        projected = self.project_query(query)
        result = steps.attend_parallel(self, projected, memory, allowed, state, noise, training)
        context = self.project_output(self._weigh(result, memory, noise), query, result.row_mask)
        weights = result.full_weights(ops.shape(memory.values)[-2])
        weights, state = ops.cast(weights, self.compute_dtype), result.state
        if one:
            state = tree.map_structure(lambda x: x[..., 0, :], state)
            return context[:, 0], weights[..., 0, :], state
        if self.heads:
            state = tree.map_structure(lambda x: ops.swapaxes(x, 1, 2), state)
            weights = ops.swapaxes(weights, 1, 2)
        return context, weights, state

    def sample_noise(self, memory: Memory, steps: Tensor, training: bool) -> Noise | None:
        """Sample the noise for `steps` attention steps; None at inference or without noise."""
        if not training:
            return None
        like = self.weights_like(memory)
        *rows, sources = ops.shape(like)
        shape = (*rows, steps, self.alignment.width(sources))
        dtype = keras.backend.standardize_dtype(like.dtype)
        dropout_mask = None
        if self.dropout:  # indexed by position, so that the blockwise path drops the same weights
            heads = math.prod(rows[1:]) * rows[0]
            seed = self.seed_generator.next()
            dropout_mask = zoo_ops.keep_places(seed, self.dropout, heads, shape[-2:])
            dropout_mask = ops.cast(ops.reshape(dropout_mask, shape), dtype)
        noise = self.alignment.sample_noise(shape, dtype)
        return None if dropout_mask is None and noise is None else Noise(dropout_mask, noise)

    def project_query(self, query: Tensor) -> Tensor:
        """Return the query that is passed to the score, `(B, [H], T, D)`."""
        return query

    def compute_scores(self, query: Tensor, keys: Tensor, state: State) -> Tensor:
        """Compute the scores of queries and projected keys."""
        score: Any = self.score
        return score.compute_scores(query, keys, *([state] if score.is_stateful else []))

    def project_output(self, context: Tensor, query: Tensor, row_mask: Tensor | None) -> Tensor:
        """Compute the output `(B, T, Dv)` from the context `(B, [H], T, Dv)`.

        Args:
            context: in the compute dtype.
            query: `(B, T, Dq)`, before `project_query`.
            row_mask: booleans that broadcast to `(B, [H], T, 1)`, False for fully masked rows,
                whose output is 0; or None.
        """
        return context

    def _attend(
        self,
        query: Tensor,
        memory: Memory,
        allowed: AttentionMasks,
        noise: Noise | None,
        training: bool,
    ) -> AttentionResult:
        """Run T steps, in parallel if the state before each is known in advance, else in a loop."""
        if not self.is_stateful:
            return steps.attend_parallel(self, query, memory, allowed, (), noise, training)
        like = self.weights_like(memory)
        live = ops.ones(ops.shape(query)[:-1], "bool")
        if allowed.query is not None:
            mask = allowed.query[:, None] if self.heads else allowed.query
            live = ops.logical_and(live, mask)
        alignment = self.alignment
        before = None if self.score.is_stateful else alignment.compute_previous_states(like, live)
        if before is None:
            state = self.initial_state(memory)
            return steps.attend_sequential(self, query, memory, allowed, state, noise, training)
        result = steps.attend_parallel(self, query, memory, allowed, ((), before), noise, training)
        return result._replace(state=((), alignment.compute_final_state(result.state[1], live)))

    def _weigh(self, result: AttentionResult, memory: Memory, noise: Noise | None) -> Tensor:
        """Return the weighted sum of values, summed in at least float32, in the compute dtype."""
        weights = result.weights
        if noise is not None and noise.dropout_mask is not None:
            weights = weights * ops.cast(noise.dropout_mask, weights.dtype)
        if result.window is None:
            return ops.cast(self.weighted_sum(weights, memory.values), self.compute_dtype)
        seen = ops.cast(result.window_values, weights.dtype)
        return ops.cast(ops.matmul(weights[..., None, :], seen)[..., 0, :], self.compute_dtype)

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return weighted sums `(B, [H], T, Dv)` in the dtype of the weights `(B, [H], T, S)`."""
        return ops.matmul(weights, ops.cast(values, weights.dtype))

    def gather_window(self, x: Tensor, window: zoo_ops.Window) -> Tensor:
        """Gather the keys or values of each step's window, `(B, [H], T, W, D)`."""
        return zoo_ops.take_places(x, window.places, lead=len(x.shape) - 2)

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], value_shape[-1])

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        return_state: bool = False,
        **kwargs: Any,
    ) -> Any:
        shape = self.compute_output_shape(query.shape, value.shape)
        context = keras.KerasTensor(shape, dtype=self.compute_dtype)
        outputs = [zoo_ops.pass_mask_on(context, query_mask)]
        batch, steps = query.shape[:2]
        rows = (batch, self.heads) if self.heads else (batch,)
        if return_attention_scores:
            weights_shape = (*rows, steps, value.shape[1])
            outputs.append(keras.KerasTensor(weights_shape, dtype=self.compute_dtype))
        if return_state:
            outputs.append(self._state_spec((*rows, value.shape[1])))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _state_spec(self, shape: Shape) -> State:
        """Return symbolic tensors with the shapes of the state after a call."""
        if not self.is_stateful:
            return ()
        like = keras.KerasTensor(shape, dtype="float32")

        def states(like: Tensor) -> State:
            return self.score.initial_state(like), self.alignment.initial_state(like)

        return compute_output_spec(states, like)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "score": keras.saving.serialize_keras_object(self.score),
            "alignment": keras.saving.serialize_keras_object(self.alignment),
            "dropout": self.dropout,
            "seed": self.seed,
        }


def _refuse_symbolic(*tensors: Tensor | None) -> None:
    if any(isinstance(x, keras.KerasTensor) for x in tensors):
        raise ValueError(
            "prepare and attend work inside the call of a layer or model: on the symbolic tensors "
            "of a functional model their weights would be lost; call the layer itself instead"
        )

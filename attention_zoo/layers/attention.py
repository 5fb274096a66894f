"""The one attention: score, mask, align, weigh."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops, tree

# Keras exports no way to trace shapes through a function.
from keras.src.backend import compute_output_spec

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import blockwise, steps
from attention_zoo.layers.alignments import make_alignment
from attention_zoo.layers.attention_shapes import check_call, check_memory, check_shapes
from attention_zoo.layers.pairs import refuse_excluded_pair
from attention_zoo.layers.scores import make_score
from attention_zoo.layers.steps import AttentionMasks, AttentionResult, Memory, Noise

Tensor = Any
Shape = tuple[Any, ...]
State = tuple[Any, ...]


@keras.saving.register_keras_serializable("attention_zoo")
class Attention(keras.layers.Layer):
    """Attention of any score and any alignment.

    `context_t = sum_j weights_tj value_j`, `weights_t = align(score(query_t, key_j) over j)`

    Args:
        score: how alike are query and key: a name (`SCORES.names()`) or a `Score`.
        alignment: scores to weights: a name (`ALIGNMENTS.names()`) or an `Alignment`.
        units: hidden width of the score, where it has one and is given by name.
        dropout: rate of dropped weights in training, 0 to 1.
        seed: of the dropout, an integer or None.

    A subclass with heads sets their number in `heads`, splits them in `prepare` and
    `project_query`, and joins them in `project_output`; the four steps are the same for all.

    Call arguments:
        query: `(B, T, Dq)`.
        value: `(B, S, Dv)`.
        key: `(B, S, Dk)`; the value when None.
        query_mask, value_mask, key_mask: `(B, T)`, `(B, S)`, `(B, S)`, True where there is
            something; ANDed with the masks that Keras carries on the tensors.
        attention_mask: `(B, T, S)`, True where query t may look at source s.
        use_causal_mask: query t may look at the sources 0 .. t only.
        return_attention_scores: also return the weights.
        return_state: also return the state after the last look.
        training: switches dropout and the alignment's noise on.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)`, before dropout, and the state.

    Weights:
        Those of the score and of the alignment.

    Masking:
        A hidden position weighs exactly 0 and what stands there (NaN too) reaches no output and
        no gradient. A query with nothing to attend, or hidden itself, gets context 0 and weights
        0. The query's mask goes on with the context. Inputs keep their own masks.

    Cost:
        O(T S) scores (each as its score says), O(T S Dv) to weigh; O(T S) memory. A softmax of
        inner products from T S = 2^22 on takes O(T + S) memory while nobody asks for the weights.

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
    reach = zoo_ops.FULL_ATTENTION  # a layer around this one may narrow it

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
        """Builds score and alignment on what they read, `(B, [H], T, Dq)` and `(B, [H], S, Dk)`."""
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
        asked, training = self.project_query(query), bool(training)
        needs_weights = return_attention_scores or return_state
        if not needs_weights and blockwise.use_blockwise(self, *shape[1:]):
            context, alive = blockwise.look(self, asked, memory, allowed, training)
            context = self.project_output(ops.cast(context, self.compute_dtype), query, alive)
            return zoo_ops.pass_mask_on(context, query_mask)
        draws = self.draw(memory, ops.shape(query)[1], training)
        looked = self._look(asked, memory, allowed, draws, training)
        context = self.project_output(self._weigh(looked, memory, draws), query, looked.alive)
        outputs = [zoo_ops.pass_mask_on(context, query_mask)]
        if return_attention_scores:
            weights = looked.weights_of_all(ops.shape(memory.values)[-2])
            outputs.append(ops.cast(weights, self.compute_dtype))
        if return_state:
            outputs.append(looked.state)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def prepare(
        self,
        value: Tensor,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        looks: int | None = None,
    ) -> Memory:
        """Projects the keys, once for many looks; hidden positions are cleared first.

        Args:
            value: `(B, S, Dv)`. key: `(B, S, Dk)` or None. value_mask: `(B, S)` or None; the
            mask that Keras carries on the value counts too.
            looks: how many there will be, None for any number. Where they see fewer places than
            the memory has, the keys are left for each look to project.
        """
        values, keys, mask = self.cleared(value, key, value_mask)
        extra = self.alignment.prepare(keys)
        places = keys.shape[-2]
        if looks and places and looks * self.alignment.width(places) < places:
            return Memory(values, None, mask, extra, unprojected=keys)
        return Memory(values, self.score.project(keys), mask, extra)

    def cleared(
        self, value: Tensor, key: Tensor | None, value_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values and keys in the compute dtype, 0 where hidden, and the whole mask of both."""
        _refuse_symbolic(value, key)
        check_memory(self, value, key)
        value_mask = zoo_ops.merge_masks("value_mask", value_mask, value)
        values = zoo_ops.zero_masked(ops.cast(value, self.compute_dtype), value_mask)
        keys = values
        if key is not None:
            keys = zoo_ops.zero_masked(ops.cast(key, self.compute_dtype), value_mask)
        return values, keys, value_mask

    def weights_like(self, memory: Memory) -> Tensor:
        """A tensor of the shape and dtype of one look's weights, `(B, [H], S)`."""
        return zoo_ops.at_least_float32(memory.values[..., 0])

    @property
    def is_stateful(self) -> bool:
        """Whether a look depends on the looks before it."""
        return bool(self.score.is_stateful or self.alignment.is_stateful)

    def initial_state(self, memory: Memory) -> State:
        """What the first look starts from: the score's state and the alignment's.

        `()` where neither remembers anything.
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
        draws: Noise | None = None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, State]:
        """One look, from inside the call of a built layer or model.

        Args:
            query: `(B, Dq)`; or `(B, N, Dq)`, N looks that know nothing of each other (the
                hypotheses of a search) at one memory.
            memory: from `prepare`.
            state: from `initial_state` or the last look, leaves `(B, ...)` or `(B, N, ...)`.
            draws: what `draw` drew for these looks, leaves `(B, [H], S)` or `(B, [H], N, S)`; in
                a loop over time it must be drawn before the loop.
            training: passed to the alignment.

        Returns:
            Context `(B, Dv)`, weights `(B, [H], S)` before dropout, the state after this look; with
            N in second place where the query has it.
        """
        _refuse_symbolic(query)
        query = ops.cast(query, self.compute_dtype)
        one = len(query.shape) == 2
        if one:
            query = query[:, None]
            draws = tree.map_structure(lambda x: None if x is None else x[..., None, :], draws)
        elif self.heads:
            state = tree.map_structure(lambda x: ops.swapaxes(x, 1, 2), state)
        if one:
            state = tree.map_structure(lambda x: x[..., None, :], state)
        allowed = AttentionMasks(memory=memory.mask)
        asked = self.project_query(query)
        looked = steps.attend_parallel(self, asked, memory, allowed, state, draws, training)
        context = self.project_output(self._weigh(looked, memory, draws), query, looked.alive)
        weights = looked.weights_of_all(ops.shape(memory.values)[-2])
        weights, state = ops.cast(weights, self.compute_dtype), looked.state
        if one:
            state = tree.map_structure(lambda x: x[..., 0, :], state)
            return context[:, 0], weights[..., 0, :], state
        if self.heads:
            state = tree.map_structure(lambda x: ops.swapaxes(x, 1, 2), state)
            weights = ops.swapaxes(weights, 1, 2)
        return context, weights, state

    def draw(self, memory: Memory, steps: Tensor, training: bool) -> Noise | None:
        """What `steps` looks of training draw at random; None where nothing is drawn."""
        if not training:
            return None
        like = self.weights_like(memory)
        *rows, sources = ops.shape(like)
        shape = (*rows, steps, self.alignment.width(sources))
        dtype = keras.backend.standardize_dtype(like.dtype)
        keep = None
        if self.dropout:  # as the blocks of a long memory draw it, each for its place
            heads = math.prod(rows[1:]) * rows[0]
            seed = self.seed_generator.next()
            keep = zoo_ops.keep_places(seed, self.dropout, heads, shape[-2:])
            keep = ops.cast(ops.reshape(keep, shape), dtype)
        noise = self.alignment.draw(shape, dtype)
        return None if keep is None and noise is None else Noise(keep, noise)

    def project_query(self, query: Tensor) -> Tensor:
        """The query as the score reads it, `(B, [H], T, D)`."""
        return query

    def compute_scores(self, query: Tensor, keys: Tensor, state: State) -> Tensor:
        """Scores of queries and projected keys."""
        score: Any = self.score
        return score.compute_scores(query, keys, *([state] if score.is_stateful else []))

    def project_output(self, context: Tensor, query: Tensor, alive: Tensor | None) -> Tensor:
        """The output `(B, T, Dv)` from the context `(B, [H], T, Dv)`.

        Args:
            context: in the compute dtype.
            query: `(B, T, Dq)`, as it came in.
            alive: booleans that broadcast against `(B, [H], T, 1)`, False where a look had nothing
                to attend and the output is 0; or None.
        """
        return context

    def _look(
        self,
        query: Tensor,
        memory: Memory,
        allowed: AttentionMasks,
        draws: Noise | None,
        training: bool,
    ) -> AttentionResult:
        """T looks from the start: at once where each one's state is known, else in turn."""
        if not self.is_stateful:
            return steps.attend_parallel(self, query, memory, allowed, (), draws, training)
        like = self.weights_like(memory)
        live = ops.ones(ops.shape(query)[:-1], "bool")
        if allowed.query is not None:
            mask = allowed.query[:, None] if self.heads else allowed.query
            live = ops.logical_and(live, mask)
        alignment = self.alignment
        before = None if self.score.is_stateful else alignment.compute_previous_states(like, live)
        if before is None:
            state = self.initial_state(memory)
            return steps.attend_sequential(self, query, memory, allowed, state, draws, training)
        looked = steps.attend_parallel(self, query, memory, allowed, ((), before), draws, training)
        return looked._replace(state=((), alignment.compute_final_state(looked.state[1], live)))

    def _weigh(self, looked: AttentionResult, memory: Memory, draws: Noise | None) -> Tensor:
        """Weighted sum of the values, in float32 at least, returned in the compute dtype."""
        weights = looked.weights
        if draws is not None and draws.keep is not None:
            weights = weights * ops.cast(draws.keep, weights.dtype)
        if looked.window is None:
            return ops.cast(self.weighted_sum(weights, memory.values), self.compute_dtype)
        seen = ops.cast(looked.seen, weights.dtype)
        return ops.cast(ops.matmul(weights[..., None, :], seen)[..., 0, :], self.compute_dtype)

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        """The weighted sums `(B, [H], T, Dv)`, in the dtype of the weights `(B, [H], T, S)`."""
        return ops.matmul(weights, ops.cast(values, weights.dtype))

    def gather_window(self, x: Tensor, window: zoo_ops.Window) -> Tensor:
        """What each look's window shows of the keys or values, `(B, [H], T, W, D)`."""
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
        """Symbolic tensors of the shapes of the state after a call."""
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

"""The one attention: score, mask, align, weigh."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.alignments import make_alignment
from attention_zoo.layers.scores import make_score

Tensor = Any
Shape = tuple[Any, ...]
State = tuple[Tensor, ...]


class Memory(NamedTuple):
    """What is attended: values `(B, S, Dv)`, projected keys `(B, S, K)`, mask `(B, S)` or None."""

    values: Tensor
    keys: Tensor
    mask: Tensor | None


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

    Call arguments:
        query: `(B, T, Dq)`.
        value: `(B, S, Dv)`.
        key: `(B, S, Dk)`; the value when None.
        query_mask, value_mask, key_mask: `(B, T)`, `(B, S)`, `(B, S)`, True where there is
            something; ANDed with the masks that Keras carries on the tensors.
        attention_mask: `(B, T, S)`, True where query t may look at source s.
        use_causal_mask: query t may look at the sources 0 .. t only.
        return_attention_scores: also return the weights.
        training: switches dropout on.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)`, before dropout.

    Weights:
        Those of the score and of the alignment.

    Masking:
        A hidden position weighs exactly 0 and what stands there (NaN too) reaches no output and
        no gradient. A query with nothing to attend, or hidden itself, gets context 0 and weights
        0. The query's mask goes on with the context. Inputs keep their own masks.

    Cost:
        O(T S) scores (each as its score says), O(T S Dv) to weigh; O(T S) memory.

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
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        self.score = make_score(score, self.dtype_policy, units=units)
        self.alignment = make_alignment(alignment, self.dtype_policy)
        self.dropout, self.seed = dropout, seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        _check_shapes(query_shape, value_shape, key_shape or value_shape)
        if not self.score.built:
            self.score.build(tuple(query_shape), tuple(key_shape or value_shape))
        if not self.alignment.built:
            self.alignment.build((*query_shape[:-1], value_shape[-2]))
        self.built = True

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
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        query_mask = _both_masks("query_mask", query_mask, query)
        value_mask = zoo_ops.combine_masks(
            _both_masks("value_mask", value_mask, value), _both_masks("key_mask", key_mask, key)
        )
        memory = self.prepare(value, key, value_mask)
        shape = (query.shape[0], query.shape[1], value.shape[1])
        mask = zoo_ops.combine_masks(
            None if query_mask is None else query_mask[:, :, None],
            None if memory.mask is None else memory.mask[:, None, :],
            None
            if attention_mask is None
            else zoo_ops.as_boolean_mask(attention_mask, "attention_mask", shape),
            zoo_ops.causal_mask(ops.shape(query)[1], ops.shape(value)[1])
            if use_causal_mask
            else None,
        )
        weights = self._align_all(zoo_ops.clear(query, query_mask), memory, mask, bool(training))
        keep = self.dropout_multiplier(ops.shape(weights), weights.dtype, bool(training))
        context = zoo_ops.pass_mask_on(self._weigh(weights, memory, keep), query_mask)
        if return_attention_scores:
            return context, ops.cast(weights, self.compute_dtype)
        return context

    def prepare(
        self, value: Tensor, key: Tensor | None = None, value_mask: Tensor | None = None
    ) -> Memory:
        """Projects the keys, once for many looks; hidden positions are cleared first.

        Args:
            value: `(B, S, Dv)`. key: `(B, S, Dk)` or None. value_mask: `(B, S)` or None; the
            mask that Keras carries on the value counts too.
        """
        _refuse_symbolic(value, key)
        value_mask = _both_masks("value_mask", value_mask, value)
        values = zoo_ops.clear(ops.cast(value, self.compute_dtype), value_mask)
        keys = values
        if key is not None:
            keys = zoo_ops.clear(ops.cast(key, self.compute_dtype), value_mask)
        return Memory(values, self.score.project(keys), value_mask)

    def initial_state(self, memory: Memory) -> State:
        """What the first look starts from; `()` for an alignment that remembers nothing."""
        return self.alignment.initial_state(zoo_ops.at_least_float32(memory.values[..., 0]))

    def attend(
        self,
        query: Tensor,
        memory: Memory,
        state: State = (),
        keep: Tensor | None = None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, State]:
        """One look, from inside the call of a built layer or model.

        Args:
            query: `(B, Dq)`; or `(B, N, Dq)`, N looks that know nothing of each other (the
                hypotheses of a search) at one memory.
            memory: from `prepare`.
            state: from `initial_state` or the last look, leaves `(B, ...)` or `(B, N, ...)`.
            keep: what `dropout_multiplier` drew for these weights, or None.
            training: passed to the alignment.

        Returns:
            Context `(B, Dv)`, weights `(B, S)` before dropout, the state after this look; with
            N in second place where the query has it.
        """
        _refuse_symbolic(query)
        query = ops.cast(query, self.compute_dtype)
        one = len(query.shape) == 2
        if one:
            query = query[:, None]
            state = tuple(leaf[:, None] for leaf in state)
            keep = None if keep is None else keep[:, None]
        mask = None if memory.mask is None else memory.mask[:, None, :]
        weights, state = self._align(query, memory, mask, state, training)
        context = self._weigh(weights, memory, keep)
        weights = ops.cast(weights, self.compute_dtype)
        if one:
            return context[:, 0], weights[:, 0], tuple(leaf[:, 0] for leaf in state)
        return context, weights, state

    def dropout_multiplier(self, shape: Shape, dtype: str, training: bool) -> Tensor | None:
        """What dropout multiplies weights of that shape with; None where nothing is dropped."""
        if not training or not self.dropout:
            return None
        return keras.random.dropout(ops.ones(shape, dtype), self.dropout, seed=self.seed_generator)

    def _align(
        self, query: Tensor, memory: Memory, mask: Tensor | None, state: State, training: bool
    ) -> tuple[Tensor, State]:
        """Score and align: weights `(B, T, S)` of looks that know nothing of each other."""
        scores = self.score.compare(query, memory.keys)
        return self.alignment.call(scores, mask=mask, state=state, training=training)

    def _align_all(
        self, query: Tensor, memory: Memory, mask: Tensor | None, training: bool
    ) -> Tensor:
        """Weights `(B, T, S)` of T looks, one after the other where the alignment remembers."""
        state = self.initial_state(memory)
        if not self.alignment.remembers:
            return self._align(query, memory, mask, state, training)[0]
        scores = self.score.compare(query, memory.keys)
        allowed = ops.ones_like(scores, dtype="bool")
        if mask is not None:
            allowed = ops.logical_and(mask, allowed)

        def look(state: State, now: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
            weights, state = self.alignment.call(
                now[0], mask=now[1], state=state, training=training
            )
            return state, weights

        steps = (ops.swapaxes(scores, 0, 1), ops.swapaxes(allowed, 0, 1))
        _, weights = zoo_ops.scan(look, state, steps, like=scores[:, 0])
        return ops.swapaxes(weights, 0, 1)

    def _weigh(self, weights: Tensor, memory: Memory, keep: Tensor | None) -> Tensor:
        """Weighted sum of the values, in float32 at least, returned in the compute dtype."""
        if keep is not None:
            weights = weights * ops.cast(keep, weights.dtype)
        return ops.cast(
            ops.matmul(weights, ops.cast(memory.values, weights.dtype)), self.compute_dtype
        )

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
        **kwargs: Any,
    ) -> Any:
        shape = self.compute_output_shape(query.shape, value.shape)
        context = keras.KerasTensor(shape, dtype=self.compute_dtype)
        zoo_ops.pass_mask_on(context, query_mask)
        if not return_attention_scores:
            return context
        weights_shape = (*query.shape[:-1], value.shape[-2])
        return context, keras.KerasTensor(weights_shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "score": keras.saving.serialize_keras_object(self.score),
            "alignment": keras.saving.serialize_keras_object(self.alignment),
            "dropout": self.dropout,
            "seed": self.seed,
        }


def _both_masks(name: str, explicit: Tensor | None, x: Tensor | None) -> Tensor | None:
    """The explicit mask of `x` and the one that Keras carries on it, combined; `(B, L)`."""
    if x is None:
        if explicit is not None:
            raise ValueError(f"{name} was given, but the tensor that it masks was not")
        return None
    implicit = zoo_ops.implicit_mask(x)
    if explicit is None or explicit is implicit:
        explicit = None
    else:
        explicit = zoo_ops.as_boolean_mask(explicit, name, (x.shape[0], x.shape[1]))
    return zoo_ops.combine_masks(explicit, implicit)


def _refuse_symbolic(*tensors: Tensor | None) -> None:
    if any(isinstance(x, keras.KerasTensor) for x in tensors):
        raise ValueError(
            "prepare and attend work inside the call of a layer or model: on the symbolic tensors "
            "of a functional model their weights would be lost; call the layer itself instead"
        )


def _check_shapes(query: Shape, value: Shape, key: Shape) -> None:
    for name, shape in (("query", query), ("value", value), ("key", key)):
        if len(shape) != 3:
            raise ValueError(f"{name} must be (batch, steps, features), got shape {tuple(shape)}")
    if None not in (value[1], key[1]) and value[1] != key[1]:
        raise ValueError(f"value has {value[1]} steps but key has {key[1]}; they go in pairs")

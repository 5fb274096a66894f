"""Multi-head attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops, tree

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.attention.attention_shapes import check_shapes, unpack_shapes
from attention_zoo.layers.attention.steps import Memory, Noise
from attention_zoo.layers.kernels import make_matrix_initializer
from attention_zoo.layers.positions import make_positions
from attention_zoo.layers.positions.base import build_positions
from attention_zoo.typing import Shape, State, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class MultiHeadAttention(Attention):
    """Multi-head attention with any score and any alignment.

    `context_t = [head_1; ...; head_H]_t W_o + b_o`,
    `head_h = attention(query W_q,h + b_q,h, key W_k,h + b_k,h, value W_v,h + b_v,h)`

    A drop-in replacement for `keras.layers.MultiHeadAttention`: it has the same call, the same
    first arguments, and weights of the same order and shapes, so `set_weights` accepts the weights
    of Keras's layer.

    Use it to learn several relations between positions in parallel, as in Transformers.

    Args:
        num_heads: H, number of heads.
        key_dim: K, width of each head's queries and keys.
        value_dim: V, width of each head's values; K when None.
        dropout: dropout rate on the weights, in training, 0 to 1.
        use_bias: whether the four projections have a bias.
        num_key_value_heads: G, number of key and value heads, each shared by H / G consecutive
            query heads (grouped-query attention); H when None.
        score: name of a score, or a `Score` instance. All heads share its weights; its inputs have
            width K.
        alignment: name of an alignment, or an `Alignment` instance. All heads share its weights.
        positions: name of relative positions (`POSITIONS.names()`), a `RelativePositions`
            instance, or None.
        seed: random seed of the dropout, an integer or None.
        **kwargs: keywords of kernels and biases as in `keras.layers.Dense`, such as
            `kernel_regularizer`, and arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dq)` and, on request, the weights `(B, H, T, S)` before dropout.

    Weights:
        query_projection: W_q, `(Dq, H, K)`. query_bias: b_q, `(H, K)`.
        key_projection: W_k, `(Dk, G, K)`. key_bias: b_k, `(G, K)`.
        value_projection: W_v, `(Dv, G, V)`. value_bias: b_v, `(G, V)`.
        output_projection: W_o, `(H, V, Dq)`. output_bias: b_o, `(Dq,)`.
        Those of the score, the alignment and the positions.

    Masking:
        As in `Attention`. The output is 0, without the bias of the output projection, for a masked
        query and for one with nothing to attend to.

    Cost:
        O((T Dq + S (Dk + Dv) + T S) H K) time and O(H T S) memory, O(H (T + S)) when computed
        blockwise (see `Attention`). Grouped keys and values are not repeated for their heads.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MultiHeadAttention
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> query, value = np.ones((2, 3, 8), "float32"), np.ones((2, 5, 6), "float32")
        >>> context, weights = layer(query, value, return_attention_scores=True)
        >>> tuple(context.shape), tuple(weights.shape)
        ((2, 3, 8), (2, 2, 3, 5))

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2: h is H, d_k is K, d_v is V, W^Q_i is
        W_q,h. Grouped-query attention: Ainslie et al. 2023, arXiv 2305.13245, section 2.2.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        num_key_value_heads: int | None = None,
        score: Any = "scaled_dot",
        alignment: Any = "softmax",
        positions: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.heads = self.num_heads = zoo_ops.whole_number("num_heads", num_heads)
        self.key_dim = zoo_ops.whole_number("key_dim", key_dim)
        value_dim = key_dim if value_dim is None else value_dim
        self.value_dim = zoo_ops.whole_number("value_dim", value_dim)
        groups = num_heads if num_key_value_heads is None else num_key_value_heads
        self.num_key_value_heads = zoo_ops.whole_number("num_key_value_heads", groups)
        if self.num_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads must divide num_heads, got {num_key_value_heads} for "
                f"{num_heads} heads"
            )
        self._group_size = self.num_heads // self.num_key_value_heads  # query heads per key head
        self.use_bias = use_bias
        self.positions = make_positions(positions, self.dtype_policy)
        self._refuse_positions_that_do_not_fit()

    def _refuse_positions_that_do_not_fit(self) -> None:
        positions = self.positions
        if positions is None:
            return
        if positions.has_bias and self.score.is_stateful:
            raise ValueError(
                f"{positions.name} adds a position bias to the scores, which a stateful score does "
                'not support; use positions="rotary" or a stateless score'
            )
        if positions.has_offset and self.value_dim != self.key_dim:
            raise ValueError(
                f"{positions.name} adds vectors of width key_dim to values, so value_dim must be "
                f"{self.key_dim} too, got {self.value_dim}"
            )

    def build(
        self, query_shape: Any, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        query_shape, value_shape, key_shape = unpack_shapes(query_shape, value_shape, key_shape)
        self.built_shapes = check_shapes(query_shape, value_shape, key_shape)
        heads, groups, width = self.num_heads, self.num_key_value_heads, query_shape[-1]
        kernel = (width, heads, self.key_dim)
        self.query_projection, self.query_bias = self._weights("query", kernel)
        kernel = (key_shape[-1], groups, self.key_dim)
        self.key_projection, self.key_bias = self._weights("key", kernel)
        kernel = (value_shape[-1], groups, self.value_dim)
        self.value_projection, self.value_bias = self._weights("value", kernel)
        kernel = (heads, self.value_dim, width)
        self.output_projection, self.output_bias = self._weights("output", kernel, inputs=2)
        of_query = (query_shape[0], heads, query_shape[1], self.key_dim)
        of_key = (key_shape[0], heads, key_shape[1], self.key_dim)
        self.build_parts(of_query, of_key, self.value_dim)
        if self.positions is not None:
            build_positions(self.positions, of_query, of_key)

    def _weights(self, name: str, shape: tuple[int, ...], inputs: int = 1) -> tuple[Any, Any]:
        """Add a kernel, whose first `inputs` axes are the input axes, and its bias (or None)."""

        glorot = make_matrix_initializer(keras.initializers.GlorotUniform(), inputs)
        kernel = self.add_kernel(f"{name}_projection", shape, glorot, inputs)
        return kernel, self.add_bias(f"{name}_bias", shape[inputs:]) if self.use_bias else None

    def prepare(
        self,
        value: Tensor,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        num_queries: int | None = None,
        positions: Tensor | None = None,
    ) -> Memory:
        """Project keys and values once for many attention steps; arguments as in `Attention`.

        The whole memory is projected, whatever `num_queries`. `positions` are the positions of the
        keys, as in `project_query`.
        """
        values, keys, mask = self.zero_masked_memory(value, key, value_mask)  # (B, S, D)
        values = self._project(values, self.value_projection, self.value_bias)  # (B, G, S, V)
        keys = self._project(keys, self.key_projection, self.key_bias)  # (B, G, S, K)
        if self.positions is not None:
            keys = self.positions.transform(keys, positions)
        extra = ()
        if self.alignment.has_precompute:
            extra = self.alignment.prepare(self._repeat_groups(keys))
        return Memory(values, self.score.project(keys), mask, extra)

    def project_query(self, query: Tensor, positions: Tensor | None = None) -> Tensor:
        """Project the query to heads, `(B, H, T, K)`, and apply the positions.

        Args:
            positions: `(T,)` positions of the queries, or `(1,)` for one that they all share;
                0 .. T-1 when None.
        """
        query = self._project(query, self.query_projection, self.query_bias)
        return query if self.positions is None else self.positions.transform(query, positions)

    def attend(
        self,
        query: Tensor,
        memory: Memory,
        state: State = (),
        noise: Noise | None = None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, State]:
        """Compute one attention step, as in `Attention`; ValueError with relative positions."""
        if self.positions is not None:
            raise ValueError(
                f"`attend` does not know the query position, which {self.positions.name} needs; "
                "call the layer on all queries at once, or add absolute positions to the embeddings"
            )
        return super().attend(query, memory, state, noise, training)

    def compute_scores(self, query: Tensor, keys: Tensor, state: State) -> Tensor:
        states = [state] if state else []
        biased = self.positions if self.positions is not None and self.positions.has_bias else None
        if len(query.shape) == 5:  # in a window: each query (B, H, T, 1, K) has its own keys
            if biased is not None:
                raise ValueError(
                    f"{biased.name} adds a bias to the scores of all positions, but "
                    f"alignment {self.alignment.name} scores only a window; use "
                    'positions="rotary" or a global alignment'
                )
            return self.score.compute_scores(query, keys, *states)  # (B, H, T, 1, W)
        if self._group_size == 1:
            scores = self.score.compute_scores(query, keys, *states)  # (B, H, T, S)
        else:
            states = tree.map_structure(self._fold, states)
            scores = self.score.compute_scores(self._fold(query), keys, *states)  # (B, G, ., S)
            scores = self._unfold(scores)  # (B, H, T, S)
        return (
            scores if biased is None else scores + biased.bias(query, zoo_ops.axis_size(keys, -2))
        )

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        values = ops.cast(values, weights.dtype)
        if self._group_size == 1:
            context = ops.matmul(weights, values)  # (B, H, T, V)
        else:
            context = self._unfold(ops.matmul(self._fold(weights), values))  # (B, H, T, V)
        offset = None if self.positions is None else self.positions.offset(weights)
        return context if offset is None else context + offset

    def gather_window(self, x: Tensor, window: zoo_ops.Window) -> Tensor:
        if self._group_size == 1:
            return zoo_ops.gather_positions(x, window.positions, batch_dims=2)
        positions = self._fold(window.positions)  # (B, G, H / G T, W)
        return self._unfold(zoo_ops.gather_positions(x, positions, batch_dims=2))

    def project_output(self, context: Tensor, query: Tensor, row_mask: Tensor | None) -> Tensor:
        heads, width, units = self.output_projection.shape
        kernel = ops.reshape(self.output_projection, (heads * width, units))
        context = ops.transpose(context, (0, 2, 1, 3))  # (B, T, H, V)
        flat = ops.reshape(context, (-1, heads * width))
        flat = ops.matmul(flat, ops.cast(kernel, flat.dtype))
        if self.output_bias is not None:
            # Unlike `+`, `ops.add` calls `tf.nn.bias_add`, whose gradient does not broadcast.
            flat = ops.add(flat, ops.cast(self.output_bias, flat.dtype))
        outputs = zoo_ops.reshape_like(flat, context, 2, units)  # (B, T, D)
        if row_mask is None or self.output_bias is None:
            return outputs
        return zoo_ops.where_or_zero(ops.any(row_mask, axis=1), outputs)

    def weights_like(self, memory: Memory) -> Tensor:
        return self._repeat_groups(super().weights_like(memory))

    def _project(self, x: Tensor, kernel: Any, bias: Any) -> Tensor:
        """Project `(B, L, D)` to heads `(B, H, L, K)`."""
        inputs, heads, width = kernel.shape
        kernel = ops.cast(ops.reshape(kernel, (inputs, heads * width)), x.dtype)
        flat = ops.matmul(ops.reshape(x, (-1, inputs)), kernel)
        if bias is not None:
            flat = ops.add(flat, ops.cast(ops.reshape(bias, (heads * width,)), x.dtype))
        return ops.transpose(zoo_ops.reshape_like(flat, x, 2, heads, width), (0, 2, 1, 3))

    def _fold(self, x: Tensor) -> Tensor:
        """Merge the heads of each group along time: `(B, H, T, X)` to `(B, G, H / G T, X)`."""
        batch, heads, steps, *rest = ops.shape(x)
        groups = self.num_key_value_heads
        return ops.reshape(x, (batch, groups, heads // groups * steps, *rest))

    def _unfold(self, x: Tensor) -> Tensor:
        """Undo `_fold`."""
        batch, _, steps, *rest = ops.shape(x)
        return ops.reshape(x, (batch, self.num_heads, steps // self._group_size, *rest))

    def _repeat_groups(self, x: Tensor) -> Tensor:
        """Repeat each group for its heads: `(B, G, ...)` to `(B, H, ...)`."""
        return x if self._group_size == 1 else ops.repeat(x, self._group_size, axis=1)

    def get_output_width(self, query_width: int, value_width: int) -> int:
        return query_width

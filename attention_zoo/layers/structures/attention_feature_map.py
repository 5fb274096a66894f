"""Attention feature maps of a pair of sentences (ABCNN-1)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.scores import make_score
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionFeatureMap(BaseLayer):
    """Attention feature maps of a pair of sentences, for a convolution (ABCNN-1).

    `A_ij = score(x_i, y_j)`, `map_x = A W0`, `map_y = A^T W1`

    Each map has the shape of its sentence. Stack sentence and map as channels of a convolution.

    Use it for sentence pairs before a convolution: similarities become another channel.

    Args:
        max_length: largest sentence length; W0 and W1 have one row for each position.
        score: a name or a `Score`; the paper uses "euclidean", `1 / (1 + ||x - y||)`.

    Call arguments:
        first: x, `(B, S, D)`.
        second: y, `(B, T, E)`; S and T at most `max_length`.
        first_mask, second_mask: `(B, S)`, `(B, T)`, False at masked positions; combined by AND
            with the tensors' implicit Keras masks.
        return_attention_scores: whether to return A too.

    Returns:
        The maps, `(B, S, D)` and `(B, T, E)`; if requested, also A, `(B, S, T)`.

    Weights:
        first_kernel: W0, `(max_length, D)`. second_kernel: W1, `(max_length, E)`. The weights of
        the score.

    Masking:
        A is 0 where either position is masked; the content of masked positions has no effect. Each
        map is 0 at its masked positions, and 0 everywhere if the other sentence is fully masked.
        The masks are passed on with the maps. Put padding at the end of a sentence, since row i of
        W0 and W1 belongs to position i.

    Cost:
        O(S T (D + E)) time, and the memory of the score.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.layers import AttentionFeatureMap
        >>> x, y = np.ones((2, 5, 4), "float32"), np.ones((2, 7, 4), "float32")
        >>> map_x, map_y = AttentionFeatureMap(max_length=10)(x, y)
        >>> tuple(keras.ops.stack([x, map_x], axis=-1).shape), tuple(map_y.shape)
        ((2, 5, 4, 2), (2, 7, 4))

    Reference:
        Yin et al. 2015, arXiv 1512.05193, section 4, ABCNN-1: F_0,r and F_1,r are x and y
        transposed, F_0,a and F_1,a the maps transposed, W_0 and W_1 the weights transposed.
    """

    def __init__(self, max_length: int, score: Any = "euclidean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_length = zoo_ops.whole_number("max_length", max_length)
        self.score = make_pairwise_score(score, self.dtype_policy)
        self.supports_masking = True

    def build(self, first_shape: Shape, second_shape: Shape) -> None:
        self.widths = build_pairwise(self.score, first_shape, second_shape)
        self._check_lengths(first_shape, second_shape)
        rows = self.max_length
        self.first_kernel = self.add_weight(shape=(rows, first_shape[-1]), name="first_kernel")
        self.second_kernel = self.add_weight(shape=(rows, second_shape[-1]), name="second_kernel")
        self.built = True

    def call(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        check_pair(first.shape, second.shape, *self.widths)
        self._check_lengths(first.shape, second.shape)
        first_mask = zoo_ops.merge_masks("first_mask", first_mask, first)
        second_mask = zoo_ops.merge_masks("second_mask", second_mask, second)
        scores = attention_matrix(self.score, first, second, first_mask, second_mask)
        results = (
            zoo_ops.pass_mask_on(self._map(scores, self.first_kernel), first_mask),
            zoo_ops.pass_mask_on(
                self._map(ops.swapaxes(scores, 1, 2), self.second_kernel), second_mask
            ),
            ops.cast(scores, self.compute_dtype),
        )
        return results if return_attention_scores else results[:2]

    def _check_lengths(self, first_shape: Shape, second_shape: Shape) -> None:
        for name, shape in (("first", first_shape), ("second", second_shape)):
            if shape[1] is not None and shape[1] > self.max_length:
                raise ValueError(
                    f"sequence length {shape[1]} of {name} exceeds max_length={self.max_length}. "
                    "Truncate the input, or create the layer with a larger max_length."
                )

    def _map(self, scores: Tensor, kernel: Tensor) -> Tensor:
        """Multiply `(B, S, T)` by the first T rows of the kernel; return `(B, S, D)`."""
        # With dynamic shapes, `slice` raises if T exceeds max_length; `[:T]` would not.
        kernel = ops.cast(kernel, scores.dtype)
        rows = ops.slice(kernel, (0, 0), (ops.shape(scores)[2], kernel.shape[1]))
        return ops.cast(ops.matmul(scores, rows), self.compute_dtype)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the call sets the mask of each map."""
        return None

    def compute_output_spec(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        def spec(*shape: int | None) -> keras.KerasTensor:
            return keras.KerasTensor(shape, dtype=self.compute_dtype)

        results = (
            zoo_ops.pass_mask_on(spec(*first.shape), first_mask),
            zoo_ops.pass_mask_on(spec(*second.shape), second_mask),
            spec(*first.shape[:2], second.shape[1]),
        )
        return results if return_attention_scores else results[:2]


def make_pairwise_score(score: Any, dtype: Any, **options: Any) -> Any:
    """Return a stateless score; raise ValueError for a stateful one."""
    created = make_score(score, dtype, **options)
    if created.is_stateful:
        raise ValueError(
            f"{type(created).__name__} depends on previous attention steps, but this layer scores "
            "all pairs at once; use a stateless score"
        )
    return created


def check_pair(first_shape: Shape, second_shape: Shape, *widths: int | None) -> None:
    """Raise ValueError unless the shapes have rank 3 and, if given, these two `widths`."""
    first, second = widths or (None, None)
    zoo_ops.check_shape("first", first_shape, ("batch", "positions", first or "features"))
    zoo_ops.check_shape("second", second_shape, ("batch", "positions", second or "features"))


def build_pairwise(score: Any, first_shape: Shape, second_shape: Shape) -> tuple[int, int]:
    """Build the score; return the widths of the two sentences. Raise ValueError for bad shapes."""
    check_pair(first_shape, second_shape)
    if not score.built:
        try:
            score.build(tuple(first_shape), tuple(second_shape))
        except ValueError as error:
            raise ValueError(
                f"first (the query) and second (the key) do not fit: {error}"
            ) from error
    return first_shape[-1], second_shape[-1]


def attention_matrix(
    score: Any,
    first: Tensor,
    second: Tensor,
    first_mask: Tensor | None,
    second_mask: Tensor | None,
) -> Tensor:
    """Compute the scores `(B, S, T)` of all pairs of positions, 0 where either is masked."""
    first, second = zoo_ops.zero_masked(first, first_mask), zoo_ops.zero_masked(second, second_mask)
    scores = score.compute_scores(first, score.project(second))
    mask = zoo_ops.combine_masks(
        None if first_mask is None else first_mask[:, :, None],
        None if second_mask is None else second_mask[:, None, :],
    )
    return scores if mask is None else ops.where(mask, scores, ops.zeros((), scores.dtype))

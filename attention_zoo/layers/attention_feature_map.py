"""How alike two sentences are, place by place, as one more image for a convolution to read."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.scores import make_score

Tensor = Any
Shape = tuple[Any, ...]


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionFeatureMap(keras.layers.Layer):
    """From the matrix of how alike two sentences are, a feature map for each of them.

    `A_ij = score(x_i, y_j)`, `map_x = A W0`, `map_y = A^T W1`

    Each map has the shape of its sentence: stack the two as channels of what a convolution reads.

    Args:
        max_length: of the longest sentence, one row of W0 and of W1 for each place.
        score: a name or a `Score`; "euclidean", `1 / (1 + ||x - y||)`, is the paper's.

    Call arguments:
        first: x, `(B, S, D)`.
        second: y, `(B, T, E)`; S and T at most `max_length`.
        first_mask, second_mask: `(B, S)`, `(B, T)`, True where there is something; ANDed with the
            masks that Keras carries on the tensors.
        return_attention_scores: also return the matrix.

    Returns:
        The maps, `(B, S, D)` and `(B, T, E)`, and on request A, `(B, S, T)`.

    Weights:
        first_kernel: W0, `(max_length, D)`. second_kernel: W1, `(max_length, E)`. Those of the
        score.

    Masking:
        A is 0 where either place is hidden, what stands there reaches nothing, and both maps are 0
        at their own hidden places; facing an empty sentence they are 0 throughout. The masks go on
        with the maps. Rows of W0 and W1 count from a sentence's start, so pad at its end.

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
        self._refuse_too_long(first_shape, second_shape)
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
        self._refuse_too_long(first.shape, second.shape)
        first_mask = zoo_ops.merge_masks("first_mask", first_mask, first)
        second_mask = zoo_ops.merge_masks("second_mask", second_mask, second)
        alike = attention_matrix(self.score, first, second, first_mask, second_mask)
        results = (
            zoo_ops.pass_mask_on(self._map(alike, self.first_kernel), first_mask),
            zoo_ops.pass_mask_on(
                self._map(ops.swapaxes(alike, 1, 2), self.second_kernel), second_mask
            ),
            ops.cast(alike, self.compute_dtype),
        )
        return results if return_attention_scores else results[:2]

    def _refuse_too_long(self, first_shape: Shape, second_shape: Shape) -> None:
        for name, shape in (("first", first_shape), ("second", second_shape)):
            if shape[1] is not None and shape[1] > self.max_length:
                raise ValueError(
                    f"{name} has {shape[1]} places, but max_length is {self.max_length}; "
                    "make the layer with a greater max_length, or cut the sentence"
                )

    def _map(self, alike: Tensor, kernel: Tensor) -> Tensor:
        """`(B, S, T)` and the first T rows of the kernel to `(B, S, D)`."""
        # `slice` fails where a length known only when it runs is too great; `[:T]` would not.
        kernel = ops.cast(kernel, alike.dtype)
        rows = ops.slice(kernel, (0, 0), (ops.shape(alike)[2], kernel.shape[1]))
        return ops.cast(ops.matmul(alike, rows), self.compute_dtype)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """The call sets the mask of each map."""
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

    def get_config(self) -> dict[str, Any]:
        score = keras.saving.serialize_keras_object(self.score)
        return {**super().get_config(), "max_length": self.max_length, "score": score}


def make_pairwise_score(score: Any, dtype: Any, **options: Any) -> Any:
    """A score that needs no looks before it; ValueError for one that remembers."""
    made = make_score(score, dtype, **options)
    if made.is_stateful:
        raise ValueError(
            f"{type(made).__name__} depends on the looks before, and here all pairs are compared "
            "at once; take another score"
        )
    return made


def check_pair(first_shape: Shape, second_shape: Shape, *widths: int | None) -> None:
    """ValueError for shapes that are not of two sentences, or of other widths than these."""
    first, second = widths or (None, None)
    zoo_ops.check_shape("first", first_shape, ("batch", "places", first or "features"))
    zoo_ops.check_shape("second", second_shape, ("batch", "places", second or "features"))


def build_pairwise(score: Any, first_shape: Shape, second_shape: Shape) -> tuple[int, int]:
    """Builds the score of two sentences; their widths. ValueError for shapes that do not fit."""
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
    """Scores `(B, S, T)` of all pairs of places, 0 where either is hidden."""
    first, second = zoo_ops.zero_masked(first, first_mask), zoo_ops.zero_masked(second, second_mask)
    alike = score.compute_scores(first, score.project(second))
    shown = zoo_ops.combine_masks(
        None if first_mask is None else first_mask[:, :, None],
        None if second_mask is None else second_mask[:, None, :],
    )
    return alike if shown is None else ops.where(shown, alike, ops.zeros((), alike.dtype))

"""Attention feature maps of a pair of sentences (ABCNN-1)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.structures.sentence_pair import SentencePairLayer
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionFeatureMap(SentencePairLayer):
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
        super().__init__(score, **kwargs)
        self.max_length = zoo_ops.whole_number("max_length", max_length)

    def build(self, first_shape: Shape, second_shape: Shape) -> None:
        super().build(first_shape, second_shape)
        self.first_kernel, self.second_kernel = (
            self.add_kernel(name, (self.max_length, width))
            for name, width in zip(("first_kernel", "second_kernel"), self.widths, strict=True)
        )

    def check_pair(
        self, first_shape: Shape, second_shape: Shape, widths: tuple[Any, Any] = (None, None)
    ) -> None:
        """Also raise ValueError for a sentence longer than `max_length`."""
        super().check_pair(first_shape, second_shape, widths)
        for name, shape in (("first", first_shape), ("second", second_shape)):
            length = zoo_ops.static_size(shape[1])
            if length is not None and length > self.max_length:
                raise ValueError(
                    f"sequence length {length} of {name} exceeds max_length={self.max_length}. "
                    "Truncate the input, or create the layer with a larger max_length."
                )

    def transform(self, side: int, x: Tensor, mask: Tensor | None, scores: Tensor) -> Tensor:
        """Multiply the scores `(B, S, T)` by the first T rows of a kernel, to `(B, S, D)`."""
        kernel = ops.cast((self.first_kernel, self.second_kernel)[side], scores.dtype)
        rows = zoo_ops.take_first(kernel, ops.shape(scores)[2], axis=0)
        return zoo_ops.attach_mask(ops.cast(ops.matmul(scores, rows), self.compute_dtype), mask)

"""Base class of the layers of ABCNN, which compare all positions of two sentences."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.weights_hooks import run_weights_hooks
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.scores import make_score
from attention_zoo.layers.scores.base import build_score
from attention_zoo.typing import Shape, Tensor


class SentencePairLayer(KernelLayer):
    """Layer that computes the attention matrix A of two sentences, and transforms both by it.

    A subclass defines `transform`, and `transform_spec` if it changes the shape or the mask.

    Args:
        score: a name or a stateless `Score`.

    Call arguments:
        first: `(B, S, D)`.
        second: `(B, T, E)`.
        first_mask, second_mask: `(B, S)`, `(B, T)`, False at masked positions; combined by AND
            with the tensors' implicit Keras masks.
        return_attention_scores: whether to return A too.

    Returns:
        Both transformed sentences; if requested, also A, `(B, S, T)`.

    Masking:
        A is 0 where either position is masked; the content of masked positions has no effect.

    Reference:
        Yin et al. 2015, arXiv 1512.05193, section 4: A is the attention feature matrix.
    """

    runs_weights_hooks = True

    def __init__(self, score: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score = make_pairwise_score(score, **self.part_arguments)

    def build(self, first_shape: Shape, second_shape: Shape) -> None:
        self.check_pair(first_shape, second_shape)
        if not self.score.built:
            try:
                self.score.build(tuple(first_shape), tuple(second_shape))
            except ValueError as error:
                raise ValueError(
                    f"first (the query) and second (the key) do not fit: {error}"
                ) from error
        build_score(self.score, tuple(first_shape), tuple(second_shape))
        self.widths = (first_shape[-1], second_shape[-1])

    def check_pair(
        self, first_shape: Shape, second_shape: Shape, widths: tuple[Any, Any] = (None, None)
    ) -> None:
        """Raise ValueError unless the shapes have rank 3 and, if given, these widths."""
        pairs = zip(("first", "second"), (first_shape, second_shape), widths, strict=True)
        for name, shape, width in pairs:
            zoo_ops.check_shape(name, shape, ("batch", "positions", width or "features"))

    def call(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        is_width_free = not self.weights and len(set(self.widths)) == 1
        widths = (None, first.shape[-1]) if is_width_free else self.widths
        self.check_pair(first.shape, second.shape, widths)
        first_mask = zoo_ops.merge_masks("first_mask", first_mask, first)
        second_mask = zoo_ops.merge_masks("second_mask", second_mask, second)
        first = zoo_ops.zero_masked(first, first_mask)  # (B, S, D)
        second = zoo_ops.zero_masked(second, second_mask)  # (B, T, E)
        scores = self.score.compute_scores(first, self.score.project(second))  # (B, S, T)
        mask = make_pair_mask(first_mask, second_mask)
        if mask is not None:
            scores = ops.where(mask, scores, ops.zeros((), scores.dtype))
        scores = run_weights_hooks(self, scores, mask, scores)
        results = (
            self.transform(0, first, first_mask, scores),
            self.transform(1, second, second_mask, ops.swapaxes(scores, 1, 2)),
            ops.cast(scores, self.compute_dtype),
        )
        return results if return_attention_scores else results[:2]

    def transform(self, side: int, x: Tensor, mask: Tensor | None, scores: Tensor) -> Tensor:
        """Transform a sentence.

        Args:
            side: 0 for the first sentence, 1 for the second.
            x: `(B, S, D)`, 0 at masked positions.
            mask: `(B, S)` or None.
            scores: `(B, S, T)`, 0 where either position is masked.

        Returns:
            A tensor in the compute dtype, with its Keras mask.
        """
        raise TypeError(f"{type(self).__name__} must define `transform`.")

    def transform_spec(self, x: Tensor, mask: Tensor | None) -> keras.KerasTensor:
        """Return the symbolic result of `transform`."""
        return self.make_symbolic_output(x.shape, mask)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the call sets the masks."""

    def compute_output_spec(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        specs = self.transform_spec(first, first_mask), self.transform_spec(second, second_mask)
        if not return_attention_scores:
            return specs
        return *specs, self.make_symbolic_output((*first.shape[:2], second.shape[1]))


def make_pair_mask(first_mask: Tensor | None, second_mask: Tensor | None) -> Tensor | None:
    """Combine masks `(B, S)` and `(B, T)` into one of all pairs, `(B, S, T)` or None."""
    return zoo_ops.combine_masks(
        None if first_mask is None else first_mask[:, :, None],
        None if second_mask is None else second_mask[:, None, :],
    )


def make_pairwise_score(score: Any, **options: Any) -> Any:
    """Return a stateless score; raise ValueError for a stateful one."""
    created = make_score(score, **options)
    if created.is_stateful:
        raise ValueError(
            f"{type(created).__name__} depends on previous attention steps, but this layer scores "
            "all pairs at once; use a stateless score"
        )
    return created

"""Conditional random field for sequence tagging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.ops.linear_chain import FORBIDDEN
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class CRF(BaseLayer):
    """Linear-chain conditional random field (CRF): a distribution over whole tag sequences.

    `p(y | x) = exp s(y) / sum_y' exp s(y')`,
    `s(y) = b_{y_1} + sum_t x_{t, y_t} + sum_{t>1} A_{y_{t-1}, y_t} + e_{y_n}`

    The layer's output, the potentials, packs emissions, transitions and mask into one tensor.
    `losses.CRFLoss` and `metrics.CRFAccuracy` take the potentials as predictions, so a model with
    this layer trains with plain `compile` and `fit`; Keras's "accuracy" cannot read them.
    `decode`, `marginals` and `sample` also take potentials, such as the output of
    `model.predict`.

    Args:
        num_tags: K; if None, the number of `tags` or, without `tags`, the width of the inputs.
        tag_scheme: "BIO" (or "IOB2"), "IOB1", "BIOES", "BILOU" or "BMES". Sequences that it forbids
            have probability 0, in training and in inference.
        tags: names of the tags by index, such as "O" and "B-PER"; required by `tag_scheme`.
        use_boundaries: whether to learn b and e, the scores of the first and of the last tag.
        transitions_initializer: initializer of A; b and e start at 0.

    Call arguments:
        inputs: emissions x, `(B, T, K)`.
        mask: `(B, T)`, False at masked positions; combined by AND with the implicit Keras mask.
            Masked positions may be anywhere in the sequence.
        return_tags: whether to return the best tags (Viterbi) too.

    Returns:
        Potentials `(B, T + K + 2, K + 1)`: T rows `[x_t, mask_t]`, K rows `[A, 0]`, then `[b, 0]`
        and `[e, 0]`. They are at least float32 under any dtype policy and carry no mask, because
        their loss is one number per sentence. If requested, also the tags, `(B, T)` int32.

    Weights:
        transitions: A, `(K, K)`, from the row's tag to the column's.
        starts, ends: b and e, `(K,)`, with `use_boundaries`.

    Masking:
        Masked positions are skipped: the unmasked positions before and after them are adjacent in
        the chain. The content of masked positions has no effect; their tags and marginals are 0. A
        fully masked sentence has one tag sequence, the empty one, with score 0.

    Cost:
        O(T K^2) time in T sequential steps, O(T K) memory; the gradient costs as much again.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.layers import CRF
        >>> from attention_zoo.losses import CRFLoss
        >>> from attention_zoo.metrics import CRFAccuracy
        >>> words = keras.Input((None,), dtype="int32")
        >>> emissions = keras.layers.Dense(3)(keras.layers.Embedding(9, 8, mask_zero=True)(words))
        >>> crf = CRF(tag_scheme="BIO", tags=["O", "B-PER", "I-PER"])
        >>> model = keras.Model(words, crf(emissions))
        >>> model.compile("adam", CRFLoss(), metrics=[CRFAccuracy()])
        >>> x, y = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 2, 0], [0, 1, 0]])
        >>> history = model.fit(x, y, verbose=0)
        >>> tags, scores = crf.decode(model.predict(x, verbose=0))
        >>> tuple(tags.shape), tuple(scores.shape)
        ((2, 3), (2,))

    Reference:
        Lafferty et al. 2001, "Conditional random fields", section 3; Lample et al. 2016, arXiv
        1603.01360, section 2.2: P is x; the paper's A also contains b and e, as a row and a column.
        Forbidden transitions in training (masked CRF): Wei et al. 2021, arXiv 2103.10682, section
        3, with a score of -10,000; here it is -1e30, which no other score can offset.
    """

    def __init__(
        self,
        num_tags: int | None = None,
        tag_scheme: str | None = None,
        tags: Sequence[str] | None = None,
        use_boundaries: bool = True,
        transitions_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"autocast": False, **kwargs})
        if num_tags is not None:
            num_tags = zoo_ops.whole_number("num_tags", num_tags)
        if isinstance(tags, str):
            raise ValueError(f"tags must be a list of names, got {tags!r}")
        if tags is not None and num_tags not in (None, len(tags)):
            raise ValueError(
                f"num_tags must equal the length of tags, got {num_tags} and {len(tags)}"
            )
        if tag_scheme is not None and tags is None:
            raise ValueError(f"tag_scheme {tag_scheme!r} needs tags, the list of tag names")
        self.num_tags = num_tags if tags is None else len(tags)
        self.tag_scheme, self.tags = tag_scheme, None if tags is None else list(tags)
        self.constraints = None
        if tag_scheme is not None and tags is not None:
            self.constraints = zoo_ops.tag_constraints(tag_scheme, tags)
        self.use_boundaries = use_boundaries
        self.transitions_initializer = keras.initializers.get(transitions_initializer)

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "positions", self.num_tags or "tags"))
        if self.num_tags is None:
            self.num_tags = inputs_shape[-1]
        size, self.starts, self.ends = self.num_tags, None, None
        options: dict[str, Any] = {"autocast": False}
        initializer = self.transitions_initializer
        self.transitions = self.add_weight((size, size), initializer, name="transitions", **options)
        if self.use_boundaries:
            self.starts = self.add_weight((size,), "zeros", name="starts", **options)
            self.ends = self.add_weight((size,), "zeros", name="ends", **options)

    def call(self, inputs: Tensor, mask: Tensor | None = None, return_tags: bool = False) -> Any:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "positions", self.num_tags))
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        chain = zoo_ops.make_chain(inputs, *self._get_scores(), mask)
        potentials = zoo_ops.pack(chain)
        return (potentials, zoo_ops.best_path(chain)[0]) if return_tags else potentials

    def _get_scores(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the scores A, b and e, with those that the tag scheme forbids set to -1e30."""
        learned = (self.transitions, self.starts, self.ends)
        if self.constraints is None:
            return learned
        transitions, starts, ends = (
            self._forbid(scores, allowed)
            for scores, allowed in zip(learned, self.constraints, strict=True)
        )
        return transitions, starts, ends

    def _forbid(self, scores: Tensor | None, allowed: Any) -> Tensor:
        """Return the scores, 0 if None, with -1e30 where they are not allowed."""
        scores = ops.zeros((self.num_tags,)) if scores is None else ops.convert_to_tensor(scores)
        scores = zoo_ops.at_least_float32(scores)
        return ops.where(allowed, scores, ops.cast(FORBIDDEN, scores.dtype))

    def decode(self, potentials: Tensor, count: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the best tag sequence of each sentence (Viterbi), or the N best.

        Args:
            potentials: output of the layer.
            count: N; None for one sequence, without the axis N.

        Returns:
            tags: `(B, T)` int32, or `(B, N, T)` best first; 0 at masked positions.
            scores: `s(y)`, `(B,)` or `(B, N)`; if fewer than N sequences are allowed, the rest
                have score -inf and tags 0.
        """
        chain = self._chain(potentials)
        if count is None:
            return zoo_ops.best_path(chain)
        return zoo_ops.best_paths(chain, zoo_ops.whole_number("count", count))

    def marginals(self, potentials: Tensor) -> Tensor:
        """Return the marginal probabilities of the tags, `(B, T, K)`; 0 at masked positions."""
        return zoo_ops.marginals(self._chain(potentials))

    def sample(self, potentials: Tensor, count: int = 1, seed: Any = 0) -> Tensor:
        """Sample `(B, count, T)` int32 tag sequences from `p(y | x)`, reproducibly for a `seed`."""
        count = zoo_ops.whole_number("count", count)
        return zoo_ops.sample(self._chain(potentials), count, seed)

    def _chain(self, potentials: Tensor) -> Any:
        """Unpack the potentials; raise ValueError if their number of tags is not K."""
        potentials = ops.convert_to_tensor(potentials)
        width = "tags + 1" if self.num_tags is None else self.num_tags + 1
        rows = "positions + tags + 2"
        zoo_ops.check_shape("potentials", potentials.shape, ("batch", rows, width))
        return zoo_ops.unpack(potentials)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the rows of the potentials are not time steps."""

"""Tags that depend on their neighbours: a conditional random field over a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.ops.linear_chain import FORBIDDEN

Tensor = Any
Shape = tuple[Any, ...]


@keras.saving.register_keras_serializable("attention_zoo")
class CRF(keras.layers.Layer):
    """A linear-chain conditional random field: scores whole sequences of tags, not each tag alone.

    `p(y | x) = exp s(y) / sum_y' exp s(y')`,
    `s(y) = b_{y_1} + sum_t x_{t, y_t} + sum_{t>1} A_{y_{t-1}, y_t} + e_{y_n}`

    The layer's output holds energies, transitions and which places count in one tensor, the
    potentials. `losses.CRFLoss` reads them, so a model with this layer trains with plain `fit`;
    `decode`, `marginals` and `sample` read them too, also outside of the model.

    Args:
        num_tags: K; the width of the inputs, or the number of `tags`, if None.
        tag_scheme: "BIO" (IOB2), "IOB1", "BIOES" or "BMES": what it forbids has probability 0, in
            training and after it.
        tags: their names by number, which a scheme needs: "O", "B-PER" and the like.
        use_boundaries: whether b and e, of the first and of the last tag, are learned.
        transitions_initializer: of A; b and e begin at 0.

    Call arguments:
        inputs: emissions x, `(B, T, K)`.
        mask: `(B, T)`, True where a place counts, ANDed with the mask that Keras carries; pads may
            stand at the end, at the start and between.
        return_tags: also return the best tags.

    Returns:
        Potentials `(B, T + K + 2, K + 1)`: T lines `[x_t, whether the place counts]`, K lines `[A,
        0]`, then `[b, 0]` and `[e, 0]`; float32 at least, whatever the policy, and without a mask:
        a loss of them is one number a sentence. On request also the tags, `(B, T)` int32.

    Weights:
        transitions: A, `(K, K)`, from the row's tag to the column's.
        starts, ends: b and e, `(K,)`, with `use_boundaries`.

    Masking:
        Places that are hidden are skipped: the one before and the one after are neighbours, and
        what stands there reaches nothing. They are tagged 0 and have marginals 0. A sentence of
        which no place counts has one sequence, the empty one, of score 0.

    Cost:
        O(T K^2) time in T steps, O(T K) memory; the gradient as much again.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.layers import CRF
        >>> from attention_zoo.losses import CRFLoss
        >>> words = keras.Input((None,), dtype="int32")
        >>> emissions = keras.layers.Dense(3)(keras.layers.Embedding(9, 8, mask_zero=True)(words))
        >>> crf = CRF(tag_scheme="BIO", tags=["O", "B-PER", "I-PER"])
        >>> model = keras.Model(words, crf(emissions))
        >>> model.compile("adam", CRFLoss())
        >>> x, y = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 2, 0], [0, 1, 0]])
        >>> history = model.fit(x, y, verbose=0)
        >>> tags, scores = crf.decode(model.predict(x, verbose=0))
        >>> tuple(tags.shape), tuple(scores.shape)
        ((2, 3), (2,))

    Reference:
        Lafferty et al. 2001, "Conditional random fields", section 3; Lample et al. 2016, arXiv
        1603.01360, section 2.2: P is x, A is A with the rows and columns of the two ends, here b
        and e, left out of it. Forbidden tags in training: Wei et al. 2021, arXiv 2103.10682,
        section 3, with -10,000 where here it is so much less that nothing can make up for it.
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
            raise ValueError(f"num_tags is {num_tags}, but {len(tags)} tags are named")
        if tag_scheme is not None and tags is None:
            raise ValueError(f"tag_scheme {tag_scheme!r} needs tags, the list of their names")
        self.num_tags = num_tags if tags is None else len(tags)
        self.tag_scheme, self.tags = tag_scheme, None if tags is None else list(tags)
        self.constraints = None
        if tag_scheme is not None and tags is not None:
            self.constraints = zoo_ops.tag_constraints(tag_scheme, tags)
        self.use_boundaries = use_boundaries
        self.transitions_initializer = keras.initializers.get(transitions_initializer)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "places", self.num_tags or "tags"))
        if self.num_tags is None:
            self.num_tags = inputs_shape[-1]
        size, self.starts, self.ends = self.num_tags, None, None
        self.transitions = self.add_weight(
            shape=(size, size),
            initializer=self.transitions_initializer,
            autocast=False,
            name="transitions",
        )
        if self.use_boundaries:
            self.starts, self.ends = (
                self.add_weight(shape=(size,), initializer="zeros", autocast=False, name=name)
                for name in ("starts", "ends")
            )
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor | None = None, return_tags: bool = False) -> Any:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "places", self.num_tags))
        chain = zoo_ops.make_chain(
            inputs, *self._energies(), zoo_ops.merge_masks("mask", mask, inputs)
        )
        potentials = zoo_ops.pack(chain)
        return (potentials, zoo_ops.best_path(chain)[0]) if return_tags else potentials

    def _energies(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """A, b and e, with what is forbidden forbidden."""
        learned = (self.transitions, self.starts, self.ends)
        if self.constraints is None:
            return learned
        transitions, starts, ends = (
            self._forbid(energy, allowed)
            for energy, allowed in zip(learned, self.constraints, strict=True)
        )
        return transitions, starts, ends

    def _forbid(self, energy: Tensor | None, allowed: Any) -> Tensor:
        energy = ops.zeros((self.num_tags,)) if energy is None else ops.convert_to_tensor(energy)
        energy = zoo_ops.at_least_float32(energy)
        return ops.where(allowed, energy, ops.cast(FORBIDDEN, energy.dtype))

    def decode(self, potentials: Tensor, count: int | None = None) -> tuple[Tensor, Tensor]:
        """The best tags of each sentence (Viterbi), or the best few sequences.

        Args:
            potentials: what the layer returned.
            count: N, how many; one, without an axis of its own, if None.

        Returns:
            tags: `(B, T)` int32, or `(B, N, T)` best first; 0 at hidden places.
            scores: `s(y)`, `(B,)` or `(B, N)`; -inf, with tags 0, where there are no more
                sequences that are allowed.
        """
        chain = self._chain(potentials)
        if count is None:
            return zoo_ops.best_path(chain)
        return zoo_ops.best_paths(chain, zoo_ops.whole_number("count", count))

    def marginals(self, potentials: Tensor) -> Tensor:
        """How likely each tag is at each place, `(B, T, K)`; 0 at hidden places."""
        return zoo_ops.marginals(self._chain(potentials))

    def sample(self, potentials: Tensor, count: int = 1, seed: Any = 0) -> Tensor:
        """Sequences drawn by their probability, `(B, count, T)` int32; one seed, one result."""
        count = zoo_ops.whole_number("count", count)
        return zoo_ops.sample(self._chain(potentials), count, seed)

    def _chain(self, potentials: Tensor) -> Any:
        """The potentials taken apart; ValueError for those of a layer of other tags."""
        potentials = ops.convert_to_tensor(potentials)
        wanted = "tags + 1" if self.num_tags is None else self.num_tags + 1
        zoo_ops.check_shape("potentials", potentials.shape, ("batch", "places + tags + 2", wanted))
        return zoo_ops.unpack(potentials)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Potentials are of a sentence, not of places."""
        return None

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_tags": self.num_tags,
            "tag_scheme": self.tag_scheme,
            "tags": None if self.tags is None else list(self.tags),
            "use_boundaries": self.use_boundaries,
            "transitions_initializer": keras.initializers.serialize(self.transitions_initializer),
        }

"""Words to sentences, sentences to documents, and so on up, each level by attention."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops

Tensor = Any
Shape = tuple[Any, ...]
Level = tuple[Any, Any]


@keras.saving.register_keras_serializable("attention_zoo")
class HierarchicalAttention(keras.layers.Layer):
    """Encodes and pools the innermost sequences to vectors, then the sequences of these, and so on.

    `h = encoder(x)`, `x' = pooling(h)`, level by level; for words and sentences with GRUs this is
    the document vector of HAN.

    Args:
        levels: for each level, innermost first, a pair `(encoder, pooling)`: an encoder, such as
            `Bidirectional(GRU(50, return_sequences=True))`, keeps the sequence (of several outputs
            the first counts), None leaves it as it is; a pooling is an `AttentionPooling`, or any
            layer that is called like one. Layers keep the dtype that they were made with.

    Call arguments:
        inputs: `(B, L1, ..., Lk, D)` for k levels, Lk the innermost: words, Lk-1: sentences.
        mask: `(B, L1, ..., Lk)`, True where there is something; ANDed with the mask that Keras
            carries, as an Embedding of `(B, L1, ..., Lk)` tokens makes it.
        return_attention_scores: also return the weights.
        training: passed to the levels.

    Returns:
        `(B, D')`, and on request a list with the weights of each level, innermost first:
        `(B, L1, ..., Lk)`, then `(B, L1, ..., Lk-1)`, to `(B, L1)`.

    Weights:
        Those of the encoders and poolings.

    Masking:
        Every level sees its own mask: a sentence is there when any of its words is. An empty
        sentence is the vector 0 and hidden above; an empty document gives 0. What stands at hidden
        places reaches nothing. An encoder sees one place of each empty sequence all the same,
        a 0, because recurrent kernels on GPUs refuse sequences without any.

    Cost:
        That of encoder and pooling over `B L1 ... Lk` words, then over `B L1 ... Lk-1` vectors, to
        `B L1`.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.layers import AttentionPooling, HierarchicalAttention
        >>> words = keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True))
        >>> sentences = keras.layers.Bidirectional(keras.layers.GRU(3, return_sequences=True))
        >>> layer = HierarchicalAttention(
        ...     [(words, AttentionPooling()), (sentences, AttentionPooling())]
        ... )
        >>> document = np.ones((2, 3, 5, 6), "float32")
        >>> vector, weights = layer(document, return_attention_scores=True)
        >>> tuple(vector.shape), [tuple(w.shape) for w in weights]
        ((2, 6), [(2, 3, 5), (2, 3)])

    Reference:
        Yang et al. 2016, ACL N16-1174, section 2.2: x_it are the inputs, h_it and h_i what the
        encoders make, alpha_it and alpha_i the weights, s_i the result of the first level, v that
        of the second.
    """

    def __init__(self, levels: list[Level], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not levels or not all(_is_pair(level) for level in levels):
            raise ValueError(
                "levels must be a list of pairs (encoder or None, pooling), layers both, got "
                f"{levels!r}"
            )
        self.encoders = [encoder for encoder, _ in levels]
        self.poolings = [pooling for _, pooling in levels]
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        self._check_rank("inputs", inputs_shape, len(self.poolings) + 2)
        self.width = width = inputs_shape[-1]
        self.widths: list[int] = []
        for encoder, pooling, length in zip(
            self.encoders, self.poolings, reversed(inputs_shape[1:-1]), strict=True
        ):
            if encoder is not None:
                width = _built(encoder, (None, length, width), "(batch, steps, features)")
            width = _built(pooling, (None, length, width), "(batch, features)")
            self.widths.append(width)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        self._check_rank("inputs", inputs.shape, len(self.poolings) + 2)
        steps = ("steps",) * len(self.poolings)
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", *steps, self.width))
        implicit = zoo_ops.implicit_mask(inputs)
        if implicit is not None:
            self._check_rank("the mask that Keras carries", implicit.shape, len(inputs.shape) - 1)
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:-1], "bool")
        vectors, weights = inputs, []
        for number in range(len(self.poolings)):
            vectors, looked = self._level(number, vectors, mask, training)
            weights.append(looked)
            mask = ops.any(mask, axis=-1)
        return (vectors, weights) if return_attention_scores else vectors

    def _level(
        self, number: int, vectors: Tensor, mask: Tensor, training: bool | None
    ) -> tuple[Tensor, Tensor]:
        """The innermost axis pooled: `(B, ..., L, D)` to `(B, ..., D')`, and the weights."""
        *lead, length, width = ops.shape(vectors)
        rows = math.prod(lead)
        if any(isinstance(size, int) and size == 0 for size in (rows, length)):  # RNNs refuse it
            dtype = self.compute_dtype
            return ops.zeros((*lead, self.widths[number]), dtype), ops.zeros((*lead, length), dtype)
        there = ops.reshape(mask, (rows, length))
        seen = ops.reshape(zoo_ops.zero_masked(vectors, mask), (rows, length, width))
        if self.encoders[number] is not None:
            seen = self._encode(self.encoders[number], seen, there, training)
        pooled, weights = self.poolings[number](
            seen, mask=there, return_attention_scores=True, training=training
        )
        pooled = ops.reshape(pooled, (*lead, self.widths[number]))
        return pooled, ops.reshape(weights, (*lead, length))

    def _encode(self, encoder: Any, seen: Tensor, there: Tensor, training: bool | None) -> Tensor:
        """`(N, L, D)` to `(N, L, D')`, no sequence without a place that the encoder may see."""
        length = ops.shape(seen)[1]
        known = isinstance(length, int)
        places = there if known else _one_more(there)  # a length found when it runs may be 0
        nothing = ops.logical_not(ops.any(places, axis=-1, keepdims=True))
        first = ops.arange(ops.shape(places)[1], dtype="int32") == 0
        shown = ops.logical_or(places, ops.logical_and(nothing, first))
        seen = zoo_ops.pass_mask_on(seen if known else _one_more(seen), shown)
        encoded = encoder(seen, training=training)
        encoded = encoded[0] if isinstance(encoded, (list, tuple)) else encoded
        return zoo_ops.zero_masked(encoded if known else encoded[:, :length], there)

    def _check_rank(self, name: str, shape: Shape, rank: int) -> None:
        if len(shape) != rank:
            levels = len(self.poolings)
            raise ValueError(
                f"{name} must have rank {rank}, one axis for each of {levels} levels "
                f"besides, got shape {tuple(shape)}"
            )

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """The vector of a document has no steps to mask."""
        return None

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "levels": [
                [keras.saving.serialize_keras_object(layer) for layer in level]
                for level in zip(self.encoders, self.poolings, strict=True)
            ],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> HierarchicalAttention:
        levels = [
            tuple(keras.saving.deserialize_keras_object(layer) for layer in level)
            for level in config["levels"]
        ]
        return cls(**{**config, "levels": levels})


def _is_pair(level: Any) -> bool:
    """Whether it is an encoder, or None, and a pooling."""
    if not isinstance(level, (list, tuple)) or len(level) != 2:
        return False
    encoder, pooling = level
    return isinstance(pooling, keras.layers.Layer) and (
        encoder is None or isinstance(encoder, keras.layers.Layer)
    )


def _one_more(x: Tensor) -> Tensor:
    """`(N, L, ...)` with a place of zeros, a hidden one of a mask, at the end."""
    return ops.pad(x, [[0, 0], [0, 1], *([0, 0] for _ in x.shape[2:])])


def _built(layer: Any, shape: Shape, wanted: str) -> int:
    """Builds a layer on inputs of that shape; the width of the `wanted` that it makes of them."""
    if not layer.built:
        layer.build(shape)
    made = layer.compute_output_spec(keras.KerasTensor(shape, dtype=layer.compute_dtype))
    made = made[0] if isinstance(made, (list, tuple)) else made
    if len(made.shape) != wanted.count(",") + 1:
        raise ValueError(
            f"{layer.name} must make {wanted} of shape {shape}, and makes {tuple(made.shape)}; an "
            "RNN keeps the sequence with return_sequences=True"
        )
    return int(made.shape[-1])

"""Hierarchical attention: encoding and pooling of nested sequences, such as documents."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.typing import Shape, Tensor

Level = tuple[Any, Any]


@keras.saving.register_keras_serializable("attention_zoo")
class HierarchicalAttention(BaseLayer):
    """Hierarchical attention: encodes and pools nested sequences, innermost level first.

    `h = encoder(x)`, `x' = pooling(h)`, level by level. With words, sentences and GRUs this is the
    document vector of the hierarchical attention network (HAN).

    Use it for documents: words form sentences, and sentences form a text.

    Args:
        levels: list of pairs `(encoder, pooling)`, innermost level first. An encoder, such as
            `Bidirectional(GRU(50, return_sequences=True))`, returns a sequence. If it has several
            outputs, the first is used; None skips the encoding. A pooling is an
            `AttentionPooling`, or any layer with the same call. The layers keep their own dtypes.

    Call arguments:
        inputs: `(B, L1, ..., Lk, D)` for k levels; Lk is the innermost axis (words), Lk-1 the next
            one (sentences).
        mask: `(B, L1, ..., Lk)`, True at valid positions; combined by AND with the implicit Keras
            mask, such as that of an Embedding of `(B, L1, ..., Lk)` token ids.
        return_attention_scores: whether to also return the weights.
        training: passed to the levels.

    Returns:
        `(B, D')` and, on request, a list with the weights of each level, innermost first:
        `(B, L1, ..., Lk)`, then `(B, L1, ..., Lk-1)`, down to `(B, L1)`.

    Weights:
        Those of the encoders and poolings.

    Masking:
        Each level has its own mask: a sentence is valid if any of its words is. An empty sentence
        gives the vector 0 and is masked at the next level; an empty document gives 0. Values at
        masked positions do not affect the output. In an empty sequence, the encoder gets one
        unmasked position with value 0, because recurrent GPU kernels reject fully masked
        sequences.

    Cost:
        Encoder and pooling over `B L1 ... Lk` words, then over `B L1 ... Lk-1` vectors, and so on
        down to `B L1`.

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
        Yang et al. 2016, ACL N16-1174, section 2.2: x_it are the inputs, h_it and h_i the encoder
        outputs, alpha_it and alpha_i the weights, s_i the output of the first level, v that of the
        second.
    """

    def __init__(self, levels: list[Level], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not levels or not all(_is_pair(level) for level in levels):
            raise ValueError(
                "levels must be a list of pairs of layers (encoder or None, pooling), got "
                f"{levels!r}"
            )
        self.encoders = [encoder for encoder, _ in levels]
        self.poolings = [pooling for _, pooling in levels]

    def build(self, inputs_shape: Shape) -> None:
        self._check_rank("inputs", inputs_shape, len(self.poolings) + 2)
        self.width = width = inputs_shape[-1]
        self.widths: list[int] = []
        for encoder, pooling, length in zip(
            self.encoders, self.poolings, reversed(inputs_shape[1:-1]), strict=True
        ):
            if encoder is not None:
                width = _build_layer(encoder, (None, length, width), "(batch, steps, features)")
            width = _build_layer(pooling, (None, length, width), "(batch, features)")
            self.widths.append(width)

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
            self._check_rank("the Keras mask", implicit.shape, len(inputs.shape) - 1)
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:-1], "bool")
        vectors, weights = inputs, []
        for number in range(len(self.poolings)):
            vectors, context = self._pool_level(number, vectors, mask, training)
            weights.append(context)
            mask = ops.any(mask, axis=-1)
        return (vectors, weights) if return_attention_scores else vectors

    def _pool_level(
        self, number: int, vectors: Tensor, mask: Tensor, training: bool | None
    ) -> tuple[Tensor, Tensor]:
        """Encode and pool `(B, ..., L, D)` to `(B, ..., D')`; also return the weights."""
        *lead, length, width = ops.shape(vectors)
        rows = math.prod(lead)
        if 0 in vectors.shape[:-1]:  # RNNs reject it
            dtype = self.compute_dtype
            return ops.zeros((*lead, self.widths[number]), dtype), ops.zeros((*lead, length), dtype)
        flat_mask = ops.reshape(mask, (rows, length))
        x = ops.reshape(zoo_ops.zero_masked(vectors, mask), (rows, length, width))
        if self.encoders[number] is not None:
            x = self._encode(self.encoders[number], x, flat_mask, training)
        pooled, weights = self.poolings[number](
            x, mask=flat_mask, return_attention_scores=True, training=training
        )
        pooled = ops.reshape(pooled, (*lead, self.widths[number]))
        return pooled, ops.reshape(weights, (*lead, length))

    def _encode(self, encoder: Any, x: Tensor, flat_mask: Tensor, training: bool | None) -> Tensor:
        """Encode `(N, L, D)` to `(N, L, D')`.

        Fully masked sequences get one unmasked position, because the encoder needs one.
        """
        length = ops.shape(x)[1]
        is_static = isinstance(length, int)
        # A dynamic length may be 0.
        padded_mask = flat_mask if is_static else _append_position(flat_mask)
        encoder_mask = zoo_ops.unmask_empty_rows(padded_mask)
        x = zoo_ops.attach_mask(x if is_static else _append_position(x), encoder_mask)
        encoded = encoder(x, training=training)
        encoded = encoded[0] if isinstance(encoded, (list, tuple)) else encoded
        return zoo_ops.zero_masked(encoded if is_static else encoded[:, :length], flat_mask)

    def _check_rank(self, name: str, shape: Shape, rank: int) -> None:
        if len(shape) != rank:
            levels = len(self.poolings)
            raise ValueError(
                f"{name} must have rank {rank}, with one axis for each of {levels} levels, "
                f"got shape {tuple(shape)}"
            )

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the output has no time axis."""

    def get_config(self) -> dict[str, Any]:
        levels = list(zip(self.encoders, self.poolings, strict=True))
        return {**super().get_config(), "levels": keras.saving.serialize_keras_object(levels)}


def _is_pair(level: Any) -> bool:
    """Return whether `level` is a pair of an encoder (or None) and a pooling."""
    if not isinstance(level, (list, tuple)) or len(level) != 2:
        return False
    encoder, pooling = level
    return isinstance(pooling, keras.layers.Layer) and (
        encoder is None or isinstance(encoder, keras.layers.Layer)
    )


def _append_position(x: Tensor) -> Tensor:
    """Append a position to `(N, L, ...)`: zeros, or False in a mask."""
    return ops.pad(x, [[0, 0], [0, 1], *([0, 0] for _ in x.shape[2:])])


def _build_layer(layer: Any, shape: Shape, expected: str) -> int:
    """Build a layer for an input shape and return its output width.

    Args:
        expected: the expected output axes, as text; ValueError if the output has another rank.
    """
    if not layer.built:
        layer.build(shape)
    output = layer.compute_output_spec(keras.KerasTensor(shape, dtype=layer.compute_dtype))
    output = output[0] if isinstance(output, (list, tuple)) else output
    if len(output.shape) != expected.count(",") + 1:
        raise ValueError(
            f"the output of {layer.name} must be {expected}, got shape {tuple(output.shape)} for "
            f"input shape {shape}; an RNN returns the sequence with return_sequences=True"
        )
    return int(output.shape[-1])

"""Transformer with a pointer that copies source words (Vaswani et al. 2017, See et al. 2017)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.decoding import StepOutput
from attention_zoo.layers import MultiHeadAttention
from attention_zoo.models.generation import PAD, DecoderStart, mask_special_tokens
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.models.summarization.copying import CopyingMixin, DecoderOutput
from attention_zoo.models.translation.transformer import Transformer
from attention_zoo.typing import Tensor

OWN_SETTINGS = ("vocabulary_size", "copies")
"""Arguments that are not the inner Transformer's."""


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class CopyTransformer(CopyingMixin, PrebuiltModel):
    """Transformer with one vocabulary whose output layer generates or copies each word.

    `P(w) = p_gen softmax(E s)_w + (1 - p_gen) sum_{i: x_i = w} a_i`,
    `h*, a = pointer(s, memory)`, `p_gen = sigmoid(h* . w_h + s . w_s + e . w_x + b)`

    s is the decoder output, memory the encoder output, and e the embedding of the last word. The
    pointer is a single-head attention in addition to those of the layers. Only the copy mechanism
    trains it.

    Args:
        vocabulary_size: V, shared by source and target, including the 4 special tokens.
        embedding_dim: D, width of the embeddings and of all layers.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: N, of the encoder and of the decoder.
        copies: C, ids for out-of-vocabulary words of a source; with 0 nothing is copied and the
            model is a plain Transformer without a pointer.
        layer, dropout, positions: as in `Transformer`.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers below V + C; the target begins
            with 2.
        training: enables dropout.
        project: if False, return the `ops.CopyProjection` that computes the log probabilities;
            with `copies=0` the `ops.Projection` that computes the logits.

    Returns:
        Log probabilities `(B, T, V + C)` of the tokens after each target token; logits
        `(B, T, V)` with `copies=0`.

    Masking:
        Padding (0) in source or target does not affect other positions, at any depth.

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 3: d_model is D, d_ff is F, h is H; layers
        are pre-norm by default (Xiong et al. 2020, arXiv 2002.04745). See et al. 2017, arXiv
        1704.04368, equations 8 and 9: h*_t, s_t and a^t are h*, s and a; x_t is e.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 512,
        units: int = 2048,
        num_heads: int = 8,
        num_layers: int = 6,
        copies: int = 100,
        layer: Config | None = None,
        dropout: float = 0.1,
        positions: str = "sinusoidal",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        shared = {name: x for name, x in self.settings.items() if name not in OWN_SETTINGS}
        self.transformer = Transformer(
            vocabulary_size, vocabulary_size, tie="all", **shared, **common
        )
        self.settings["layer"] = self.transformer.settings["layer"]  # {} for None
        self.head = self.make_copy_head()
        self.pointer = None
        if self.head is not None:
            self.pointer = MultiHeadAttention(1, embedding_dim, use_bias=False, **common)
        self.build()

    def build_layers(self) -> None:
        shape = (None, None, self.settings["embedding_dim"])
        if self.pointer is not None and self.head is not None:
            self.pointer.build(shape, shape)
            self.head.build(shape, shape, shape)

    # computation

    def decode_teacher_forced(
        self, source: Tensor, target: Tensor, training: bool = False
    ) -> DecoderOutput:
        """Decode the target `(B, T)`, which begins with 2, with the source `(B, S)` as memory."""
        source, target = self.to_vocabulary_ids(source), self.to_vocabulary_ids(target)
        memory = self.transformer.encode(source, training)
        decoded = self.transformer.decode(
            target, memory, source, training, return_attention_scores=self.pointer is None
        )
        projection = self.transformer.projection(decoded.hidden)
        if self.pointer is None or self.head is None:
            return DecoderOutput(projection, ops.mean(decoded.weights, axis=1))
        context, weights = self.pointer(
            decoded.hidden,
            memory,
            value_mask=ops.not_equal(source, PAD),
            return_attention_scores=True,
            training=training,
        )
        gate = self.head.gate(context, decoded.hidden, self.transformer.target_embedding(target))
        return DecoderOutput(projection, weights[:, 0], gate)

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode `source (B, S)` once and return the decoder's step function and initial state."""
        vocabulary_ids = self.to_vocabulary_ids(source)
        pointer, head = self.pointer, self.head
        if pointer is None or head is None:
            return self.transformer.start_decoding(vocabulary_ids, width, max_steps)
        mask = ops.not_equal(vocabulary_ids, PAD)
        memory = self.transformer.encode(vocabulary_ids)
        start = self.transformer.start_decoding_memory(memory, mask, width, max_steps)
        pointer_memory = pointer.prepare(memory, value_mask=mask)

        def step(tokens: Tensor, state: Any) -> StepOutput:
            tokens = self.to_vocabulary_ids(tokens)
            output = start.step(tokens, state)
            context, weights, _ = pointer.attend(output.hidden, pointer_memory)
            weights = weights[..., 0, :]
            embedded = self.transformer.target_embedding(tokens)
            head_inputs = context, output.hidden, embedded, output.logits, weights, source
            logits = mask_special_tokens(head(*head_inputs))
            return output._replace(logits=logits, attention=weights)

        return start._replace(step=step)


# config

add_presets(
    CopyTransformer,
    # The sizes of Vaswani et al. 2017, table 3, "base", pre-norm, with a pointer.
    copy_transformer_base=Config(
        embedding_dim=512, units=2048, num_heads=8, num_layers=6, dropout=0.1
    ),
    # Sizes for small data and a CPU; not the paper's.
    copy_transformer_small=Config(
        embedding_dim=128, units=512, num_heads=4, num_layers=3, dropout=0.1
    ),
)

"""Attention-based summarization: a neural language model with attention (Rush et al. 2015)."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.decoding import StepOutput
from attention_zoo.layers import Attention
from attention_zoo.layers.quantization import get_float_kernel
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.generation import PAD, START, DecoderStart, mask_special_tokens
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.models.summarization.copying import CopyingMixin, DecoderOutput
from attention_zoo.ops import Projection
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class AttentionSummarizer(CopyingMixin, PrebuiltModel):
    """Feed-forward language model over the last C words, with an attention-based encoder.

    `logits_t = [h_t; enc_t] W`, `h_t = tanh(E[c_t] U)`, `enc_t = sum_i a_ti x'_i`,
    `a_t = softmax_i(F[x_i] P . G[c_t])`

    c_t are the last C target words; their embeddings are concatenated. x'_i is the mean of F[x]
    over the words at source positions i - Q to i + Q. The model has no recurrence, no positional
    encoding and no copy mechanism: each prediction depends on the last C words and on enc.

    Args:
        vocabulary_size: V, shared by source and target, including the 4 special tokens.
        embedding_dim: D, width of E and G.
        units: H, width of the hidden layer.
        source_dim: M, width of F and of enc.
        context: C, number of previous words that the model takes as input.
        window: Q, number of positions averaged on either side.
        dropout: dropout rate on embeddings and on the input of W; the paper has none.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: enables dropout.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)` of the tokens after each target token.

    Masking:
        Padding (0) at the ends of source or target does not affect other positions.

    Reference:
        Rush et al. 2015, arXiv 1509.00685, section 3: p is a, x-bar is x', [V W] is W. As there,
        start tokens pad the context before the first word. The paper divides the sum over the
        window by Q; here it is divided by the number of words in the window.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 200,
        units: int = 400,
        source_dim: int = 400,
        context: int = 5,
        window: int = 2,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.source_embedding = layers.Embedding(vocabulary_size, source_dim, **common)
        self.query_embedding = layers.Embedding(vocabulary_size, embedding_dim, **common)
        self.word_embedding = layers.Embedding(vocabulary_size, embedding_dim, **common)
        self.attention = Attention(score="general", **common)
        self.hidden = layers.Dense(units, activation="tanh", use_bias=False, **common)
        self.vocabulary = layers.Dense(vocabulary_size, use_bias=False, **common)
        self.drop = Dropout(dropout, **common)
        self.build()

    def build_layers(self) -> None:
        settings = self.settings
        for embedding in (self.source_embedding, self.query_embedding, self.word_embedding):
            embedding.build((None, None))
        query_shape = (None, None, settings["context"] * settings["embedding_dim"])
        self.attention.build(query_shape, (None, None, settings["source_dim"]))
        self.hidden.build(query_shape)
        self.vocabulary.build((None, None, settings["units"] + settings["source_dim"]))

    # computation

    def decode_teacher_forced(
        self, source: Tensor, target: Tensor, training: bool = False
    ) -> DecoderOutput:
        """Decode the target `(B, T)`, which begins with 2, with the source `(B, S)` as memory."""
        num_previous = self.settings["context"] - 1
        previous_words = ops.pad(target, ((0, 0), (num_previous, 0)), constant_values=START)
        queries = self.drop(self.query_embedding(previous_words), training=training)
        words = self.drop(self.word_embedding(previous_words), training=training)
        queries, words = (
            ops.concatenate(_make_shifts(x, num_previous), axis=-1) for x in (queries, words)
        )
        keys, values, mask = self._encode(source, training)
        enc, weights = self.attention(
            queries, values, keys, value_mask=mask, return_attention_scores=True, training=training
        )
        return DecoderOutput(self._projection(words, enc, training), weights)

    def _encode(self, source: Tensor, training: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Return F[x], its window means `(B, S, M)` and the source mask."""
        mask = ops.not_equal(source, PAD)
        x = self.drop(self.source_embedding(source), training=training)
        x = zoo_ops.zero_masked(x, mask)
        side = self.settings["window"]
        is_word = ops.cast(mask[..., None], x.dtype)
        window_sums = [
            sum(_make_shifts(ops.pad(part, ((0, 0), (side, side), (0, 0))), 2 * side))
            for part in (x, is_word)
        ]
        return x, window_sums[0] / ops.maximum(window_sums[1], 1), mask

    def _projection(self, words: Tensor, enc: Tensor, training: bool = False) -> Projection:
        """Return the output projection of the last words `(B, T, C D)` and the context enc."""
        hidden = ops.concatenate([self.hidden(words), enc], axis=-1)
        return Projection(self.drop(hidden, training=training), get_float_kernel(self.vocabulary))

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode `source (B, S)` once and return the decoder's step function and initial state.

        The state holds the last C - 1 words of each hypothesis.
        """
        keys, values, mask = self._encode(source)
        memory = self.attention.prepare(values, keys, mask)

        def step(tokens: Tensor, state: Tensor) -> StepOutput:
            previous_words = ops.concatenate([state, tokens[..., None]], axis=-1)
            flat_shape = (*ops.shape(previous_words)[:2], -1)
            queries = ops.reshape(self.query_embedding(previous_words), flat_shape)
            words = ops.reshape(self.word_embedding(previous_words), flat_shape)
            enc, weights, _ = self.attention.attend(queries, memory)
            projection = self._projection(words, enc)
            logits = mask_special_tokens(projection.logits())
            return StepOutput(logits, previous_words[..., 1:], weights, projection.hidden)

        num_previous = self.settings["context"] - 1
        return DecoderStart(step, ops.full((ops.shape(source)[0], num_previous), START, "int32"))


def _make_shifts(x: Tensor, num_shifts: int) -> list[Tensor]:
    """Return slices `(B, T, D)` of `x (B, T + num_shifts, D)`, each one position later."""
    return [x[:, start : start - num_shifts or None] for start in range(num_shifts + 1)]


# config

add_presets(
    AttentionSummarizer,
    # D, H, C and Q of section 7.
    attention_summarizer_base=Config(
        embedding_dim=200, units=400, source_dim=400, context=5, window=2
    ),
    # The sizes of the authors' NAMAS train_model.sh: bowDim 200, a pool of 5 words.
    attention_summarizer_official=Config(
        embedding_dim=64, units=64, source_dim=200, context=5, window=2
    ),
    # Sizes for small data and a CPU; not the paper's.
    attention_summarizer_small=Config(
        embedding_dim=64, units=128, source_dim=128, context=5, window=2, dropout=0.2
    ),
)

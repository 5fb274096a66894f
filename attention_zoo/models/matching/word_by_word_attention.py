"""Conditional encoding and word-by-word attention (Rocktäschel et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import AdditiveAttention, DotProductAttention, RecurrentEncoder
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.matching.matcher import Matcher, TokenIds
from attention_zoo.models.presets import Config, add_presets, collect_arguments, register_model
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

ATTENTION = ("none", "last", "word_by_word")
SCORES = ("additive", "dot")


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class WordByWordAttention(Matcher):
    """Two LSTMs, the second one started from the first text, which attends to it word by word.

    `y, c = LSTM(x P)`, `h = LSTM'(z P; c_0 = c)`,
    `alpha_t = softmax_s(w . tanh(y_s W_y + h_t W_h + r_{t-1} W_r))`,
    `r_t = sum_s alpha_ts y_s + tanh(r_{t-1} W_t)`, `h* = tanh(r_N W_p + h_N W_x)`,
    `logits = h* W + b`; x and z are the embeddings of the first and the second text, N is the last
    token of the second text

    With `score="dot"`, `alpha_t = softmax_s(y_s . (h_t + r_{t-1} W_r))` with W_r = 0 before
    training. With `share_encoder` too, equal words of both texts have large weights from the start,
    which the LSTMs and the score of the paper have to learn first.

    Args:
        vocabulary_size: V, number of tokens; id 0 is padding, id 1 the unknown token.
        classes: names of the K classes; None for one output, a number or a ranking score.
        embedding_dim: width of the embeddings.
        units: D, width of P, of both LSTMs and of the attention.
        attention: "word_by_word"; "last", one attention with the query h_N, without r_{t-1}; or
            "none" (conditional encoding): `h* = tanh(h_N W_x)`.
        score: "additive", as in the paper, or "dot".
        share_encoder: whether both texts have the same LSTM, instead of one each.
        dropout: dropout rate on the embeddings, after P, on y and h, and on h*.
        word_dropout: fraction of the tokens that the unknown token replaces in training.

    Call arguments:
        inputs: `{"first": (B, S), "second": (B, T)}`, token ids, integers; 0 is padding. In
            textual entailment the first text is the premise.
        training: enables both kinds of dropout.
        return_attention_scores: whether to return the alignment of the two texts too.

    Returns:
        Logits `(B, K)`, float32, `(B, 1)` without classes; if requested, also the weights
        `(B, S, T)`: column t holds alpha_t, the weights of the t-th token of the second text over
        the first text. With "last" all columns but that of the last token are 0; with "none" the
        weights are None.

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0. The states of an
        empty text are those after one zero vector.

    Reference:
        Rocktäschel et al. 2015, arXiv 1509.06664, sections 2.2 (conditional encoding), 2.3
        (equations 7 to 10) and 2.4 (equations 11 to 14): Y is y, the matrices are transposed, P is
        the projection of section 3. There is no delimiter between the texts.
        The dot score and the shared LSTM are options of this library.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        classes: Sequence[str] | None = None,
        embedding_dim: int = 300,
        units: int = 100,
        attention: str = "word_by_word",
        score: str = "additive",
        share_encoder: bool = False,
        dropout: float = 0.2,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("attention", attention, ATTENTION)
        check_choice("score", score, SCORES)
        self.init_settings(collect_arguments(locals()))
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.features = self.make_features()
        self.projection = layers.Dense(units, use_bias=False, **common)
        self.first_encoder = RecurrentEncoder("lstm", units, **common)
        self.second_encoder = self.first_encoder
        if not share_encoder:
            self.second_encoder = RecurrentEncoder("lstm", units, **common)
        self.drop = Dropout(dropout, **common)
        has_attention, is_recurrent = attention != "none", attention == "word_by_word"
        self.attention: Any = None
        self.feedback: Any = None  # W_r of the dot score; the additive score has its own
        if has_attention and score == "additive":
            self.attention = AdditiveAttention(units, **common)
        elif has_attention:
            self.attention = DotProductAttention(**common)
            if is_recurrent:
                zeros = {"use_bias": False, "kernel_initializer": "zeros"}
                self.feedback = layers.Dense(units, **zeros, **common)
        dense = [layers.Dense(units, use_bias=False, **common) for _ in range(3)]
        self.project_hidden = dense[0]  # W_x
        self.project_context: Any = dense[1] if has_attention else None  # W_p
        self.recurrence: Any = dense[2] if is_recurrent else None  # W_t
        self.build_head(units)

    def build_layers(self) -> None:
        units = self.settings["units"]
        self.features.build()
        self.projection.build((None, None, self.settings["embedding_dim"]))
        self.first_encoder.build((None, None, units))
        if self.second_encoder is not self.first_encoder:
            self.second_encoder.build((None, None, units))
        if self.attention is not None:
            is_joined = self.recurrence is not None and self.feedback is None
            query_width = 2 * units if is_joined else units
            self.attention.build((None, None, query_width), (None, None, units))
        for dense in (self.project_hidden, self.project_context, self.recurrence, self.feedback):
            if dense is not None:
                dense.build((None, units))

    # computation

    def compare(
        self, first: TokenIds, second: TokenIds, training: bool, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        y, (_, cell) = self._encode(self.first_encoder, first, None, training)
        states = [ops.zeros_like(cell), cell]
        h, (last, _) = self._encode(self.second_encoder, second, states, training)
        last, weights = self.drop(last, training=training), None
        features = self.project_hidden(last)
        if self.attention is not None:
            attend = self._attend_once if self.recurrence is None else self._attend_to_each
            context, weights = attend(y, first.mask, h, second.mask, last)
            features = features + self.project_context(context)
        return self.drop(ops.tanh(features), training=training), weights

    def _encode(
        self, encoder: Any, text: TokenIds, states: list[Tensor] | None, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the states `(B, S, D)`, 0 at padding, and the final states."""
        x = self.drop(self.projection(self.embed(text, training)), training=training)
        mask = zoo_ops.unmask_empty_rows(text.mask)
        memory, states = encoder(x, mask=mask, training=training, initial_state=states)
        return zoo_ops.zero_masked(self.drop(memory, training=training), text.mask), states

    def _attend_once(
        self, y: Tensor, y_mask: Tensor, h: Tensor, h_mask: Tensor, last: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attend with the last state; return the context `(B, D)` and the weights `(B, S, T)`."""
        memory = self.attention.prepare(y, value_mask=y_mask)
        context, weights, _ = self.attention.attend(last, memory)
        count = ops.sum(ops.cast(h_mask, "int32"), axis=1, keepdims=True)
        is_last = ops.equal(ops.arange(1, ops.shape(h)[1] + 1, dtype="int32")[None], count)
        return context, weights[:, :, None] * ops.cast(is_last[:, None, :], weights.dtype)

    def _attend_to_each(
        self, y: Tensor, y_mask: Tensor, h: Tensor, h_mask: Tensor, last: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attend at every token; return r_N, `(B, D)`, and the weights `(B, S, T)`."""
        memory = self.attention.prepare(y, value_mask=y_mask)

        def step(r: Tensor, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            hidden, is_token = inputs
            if self.feedback is None:
                query = ops.concatenate([hidden, r], axis=-1)
            else:
                query = hidden + self.feedback(r)
            context, weights, _ = self.attention.attend(query, memory)
            new = context + ops.tanh(self.recurrence(r))
            return ops.where(is_token, new, r), weights

        inputs = (ops.swapaxes(h, 0, 1), ops.swapaxes(h_mask, 0, 1)[..., None])
        like = ops.cast(self.attention.weights_like(memory), self.compute_dtype)
        r, weights = zoo_ops.scan(step, ops.zeros_like(last), inputs, like)
        return r, ops.transpose(weights, (1, 2, 0))


# config

add_presets(
    WordByWordAttention,
    # The sizes of Rocktäschel et al. 2015, table 1, k = 100; conditional encoding has k = 116.
    word_by_word_attention=Config(embedding_dim=300, units=100, dropout=0.2),
    last_state_attention=Config(embedding_dim=300, units=100, attention="last", dropout=0.2),
    conditional_encoding=Config(embedding_dim=300, units=116, attention="none", dropout=0.2),
    # Sizes for training on a CPU.
    word_by_word_attention_small=Config(embedding_dim=100, units=100, dropout=0.2),
)

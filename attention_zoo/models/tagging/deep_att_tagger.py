"""DeepAtt: a tagger with deep self-attention (Tan et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import (
    FeedForward,
    MultiHeadAttention,
    RecurrentEncoder,
    SinusoidalPositions,
)
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.residual import Residual
from attention_zoo.models.presets import (
    Config,
    add_presets,
    check_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.tagging.tagger import Inputs, Tagger, WeightList, self_attend
from attention_zoo.models.tagging.word_features import WordFeatures
from attention_zoo.registry import Registry
from attention_zoo.typing import Tensor

SUBLAYERS = Registry("sublayer")
"""Registry of the sublayers before each self-attention, built with `(options, dtype=...)`."""

STACK: Config = {
    "num_layers": 10,
    "sublayer": "feed_forward",
    "units": 800,
    "num_heads": 8,
    "attention_dropout": 0.1,
    "inner_dropout": 0.1,
}
"""Default options of a `stack`: the values of the paper."""


class Sublayer(layers.Layer):
    """Base class of the nonlinear sublayers."""

    def __init__(self, options: Config, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.options, self.supports_masking = options, True


@SUBLAYERS.register("recurrent")
class RecurrentSublayer(Sublayer):
    """`LSTM(x)_t + LSTM'(x)_t`, forward and backward, each as wide as x.

    Reference:
        Tan et al. 2017, arXiv 1712.01586, section "Nonlinear Sub-Layers".
    """

    def build(self, inputs_shape: Any) -> None:
        width = 2 * inputs_shape[-1]
        self.lstm = RecurrentEncoder("lstm", width, bidirectional=True, dtype=self.dtype_policy)
        self.lstm.build(inputs_shape)

    def call(self, inputs: Tensor, mask: Tensor, training: bool | None = None) -> Tensor:
        memory, _ = self.lstm(inputs, mask=zoo_ops.unmask_empty_rows(mask), training=training)
        forward, backward = ops.split(memory, 2, axis=-1)
        return forward + backward


@SUBLAYERS.register("convolutional")
class ConvolutionalSublayer(Sublayer):
    """`(x * W + b) sigmoid(x * V + c)`, where * is a convolution of width 3.

    Reference:
        Tan et al. 2017, arXiv 1712.01586, section "Nonlinear Sub-Layers"; Dauphin et al. 2016,
        arXiv 1612.08083, equation 1.
    """

    def build(self, inputs_shape: Any) -> None:
        width = inputs_shape[-1]
        self.filters = layers.Dense(2 * width, dtype=self.dtype_policy)
        self.filters.build((None, None, 3 * width))

    def call(self, inputs: Tensor, mask: Tensor, training: bool | None = None) -> Tensor:
        value, gate = ops.split(self.filters(zoo_ops.sliding_windows(inputs, 3)), 2, axis=-1)
        return value * ops.sigmoid(gate)


@SUBLAYERS.register("feed_forward")
class FeedForwardSublayer(Sublayer):
    """`ReLU(x W_1 + b_1) W_2 + b_2`.

    Reference:
        Tan et al. 2017, arXiv 1712.01586, section "Nonlinear Sub-Layers", which has no biases.
    """

    def build(self, inputs_shape: Any) -> None:
        units, rate = self.options["units"], self.options["inner_dropout"]
        self.network = FeedForward(units, dropout=rate, dtype=self.dtype_policy)
        self.network.build(inputs_shape)

    def call(self, inputs: Tensor, mask: Tensor, training: bool | None = None) -> Tensor:
        return self.network(inputs, training=training)


class DeepAttLayer(layers.Layer):
    """A sublayer and a self-attention, each with a residual connection.

    `y = norm(x + drop(sublayer(x)))`, `z = norm(y + drop(attend(y)))`

    Args:
        options: all options of `DeepAttTagger`'s `stack`.
        dropout: dropout rate on the outputs of sublayer and attention.
    """

    def __init__(self, options: Config, dropout: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        common: Config = {"dtype": self.dtype_policy}
        self.options, self.supports_masking = options, True
        self.sublayer = SUBLAYERS.get(options["sublayer"])(options, **common)
        self.sublayer_residual = Residual(norm_first=False, dropout=dropout, **common)
        self.attention_residual = Residual(norm_first=False, dropout=dropout, **common)

    def build(self, inputs_shape: Any) -> None:
        heads, rate = self.options["num_heads"], self.options["attention_dropout"]
        key_dim, common = inputs_shape[-1] // heads, {"dtype": self.dtype_policy}
        self.attention = MultiHeadAttention(heads, key_dim, dropout=rate, **common)
        self.attention.build(inputs_shape, inputs_shape)
        for layer in (self.sublayer, self.sublayer_residual, self.attention_residual):
            layer.build(inputs_shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor,
        training: bool = False,
        return_attention_scores: bool = False,
    ) -> Any:
        collected: list[Tensor] | None = [] if return_attention_scores else None
        x = zoo_ops.zero_masked(inputs, mask)
        output = self.sublayer(x, mask=mask, training=training)
        x = zoo_ops.zero_masked(self.sublayer_residual.add_output(x, output, training), mask)
        context = self_attend(self.attention, x, mask, training, collected)
        x = zoo_ops.zero_masked(self.attention_residual.add_output(x, context, training), mask)
        return (x, collected[0]) if collected else x


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class DeepAttTagger(Tagger):
    """Tagger with many self-attention layers, each after a nonlinear sublayer; softmax or CRF.

    `x_t = drop(P [sqrt(E) W_token[token_t]; characters_t; W_mark[mark_t]] + p_t)`, with embedding
    matrices W_token and W_mark, the sinusoidal position encoding p, and a projection P if the width
    of the inputs is not D; for each layer `y = norm(x + drop(sublayer(x)))`,
    `x = norm(y + drop(attend(y)))`; `emissions = x W + b`

    Args:
        vocabulary_size: V, including padding (id 0) and the unknown token (id 1).
        tags: names of the K tags, in the order of their ids.
        embedding_dim: E, width of the embeddings of tokens and of predicate indicators.
        units: D, width of all layers; inputs of another width are projected.
        stack: options of the layers; the defaults are those of the paper:
            "num_layers": number of layers.
            "sublayer": "feed_forward", "convolutional" (a gated linear unit of width 3) or
            "recurrent" (two LSTMs, summed).
            "units", "inner_dropout": hidden width and dropout rate of the feed-forward network.
            "num_heads", "attention_dropout": heads and dropout rate of the self-attention.
        head: options of the output layer:
            "kind": "softmax" (the default) or "crf".
            "tag_scheme": tag sequences that it forbids are never decoded. With "crf" they also have
            probability 0 in training.
        characters: None, or options of character features: "vocabulary_size", "kind" ("cnn", the
            default, or "lstm"), and other arguments of `layers.CharacterCNN` or
            `layers.CharacterLSTM`.
        dropout: dropout rate on the inputs and on the outputs of sublayers and attentions.
        word_dropout: rate at which tokens are replaced by the unknown token in training.
        marks: whether the inputs contain a predicate indicator per token (semantic role labeling).

    Call arguments:
        inputs: integers. `"tokens" (B, P)`, 0 is padding. `"starts" (B, W)`, the position of each
            word's first token, counted from 1, or 0 for padding; if absent, every token is a word.
            `"characters" (B, P, C)`, and `"marks" (B, P)`, 1 at the predicate and else 0, if the
            model uses them.
        training: enables all kinds of dropout.

    Returns:
        Potentials `(B, W + K + 2, K + 1)`: emissions, mask and transition scores in one tensor, see
        `ops.pack`; the input of `decode`, `marginals` and the loss of `make_loss()`.

    Masking:
        Padding may be anywhere. It does not affect other positions, is not counted by position
        indices and is not a word.

    Reference:
        Tan et al. 2017, arXiv 1712.01586, sections "Self-Attention" to "Pipeline": d is D, h_f is
        the units of the stack; p is the timing signal, added once. The paper has no characters.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        tags: Sequence[str],
        embedding_dim: int = 100,
        units: int = 200,
        stack: Config | None = None,
        head: Config | None = None,
        characters: Config | None = None,
        dropout: float = 0.2,
        word_dropout: float = 0.0,
        marks: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.init_settings(collect_arguments(locals()))
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        options = self.settings["stack"] = _complete_stack_options(stack, units)
        self.features = WordFeatures(self.settings, scale=embedding_dim**0.5, **common)
        has_model_width = self.features.width == units
        self.project = (
            layers.Identity(**common) if has_model_width else layers.Dense(units, **common)
        )
        self.positions = SinusoidalPositions(**common)
        self.drop = Dropout(dropout, **common)
        num_layers = options["num_layers"]
        self.encoder = [DeepAttLayer(options, dropout, **common) for _ in range(num_layers)]
        self.build_head(units)

    def build_layers(self) -> None:
        self.features.build()
        self.project.build((None, None, self.features.width))
        shape = (None, None, self.settings["units"])
        self.positions.build(shape)
        for layer in self.encoder:
            layer.build(shape)

    # computation

    def encode(
        self, inputs: Inputs, mask: Tensor, training: bool, attention_weights: WeightList = None
    ) -> Tensor:
        x = self.positions(self.project(self.features(inputs, training=training)))
        x = self.drop(x, training=training)
        for layer in self.encoder:
            if attention_weights is None:
                x = layer(x, mask=mask, training=training)
            else:
                x, weights = layer(x, mask=mask, training=training, return_attention_scores=True)
                attention_weights.append(weights)
        return x


def _complete_stack_options(value: Config | None, units: int) -> Config:
    """Return the stack options with defaults filled in; raise ValueError for invalid ones."""
    options = {**STACK, **check_options("stack", value, STACK)}
    SUBLAYERS.get(options["sublayer"])
    for name in ("num_layers", "units", "num_heads"):
        zoo_ops.whole_number(f"stack.{name}", options[name])
    if units % options["num_heads"]:
        raise ValueError(
            f"stack.num_heads must divide units, got stack.num_heads={options['num_heads']}, "
            f"units={units}"
        )
    return options


def _make_paper_sizes(sublayer: str) -> Config:
    # Complete, so that the presets keep the paper's sizes if the defaults of `STACK` change.
    stack = {"num_layers": 10, "sublayer": sublayer, "units": 800, "num_heads": 8}
    return Config(embedding_dim=100, units=200, stack=stack, dropout=0.2, marks=True)


# config

add_presets(
    DeepAttTagger,
    # The sizes of Tan et al. 2017: 10 layers of 200, feed-forward 800, marks; its three sublayers.
    deep_att_ffn=_make_paper_sizes("feed_forward"),
    deep_att_rnn=_make_paper_sizes("recurrent"),
    deep_att_cnn=_make_paper_sizes("convolutional"),
    # Sizes for a CPU: 4 layers of 128 with LSTMs, a character CNN, no predicate marks.
    deep_att_small=Config(
        embedding_dim=98,
        units=128,
        stack={"num_layers": 4, "sublayer": "recurrent", "num_heads": 4},
        characters={"kind": "cnn", "embedding_dim": 30, "units": 30},
        dropout=0.2,
        word_dropout=0.1,
    ),
)

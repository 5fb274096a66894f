"""Show, Attend and Tell: image captioning with visual attention (Xu et al. 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers import (
    AttentionCell,
    CellState,
    RecurrentDecoder,
    VisualAttention,
    WordDropout,
)
from attention_zoo.layers.alignments.reinforce import ReinforceAlignment
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.losses import Reinforce
from attention_zoo.models.encoder_decoder import Encoded, EncoderDecoder
from attention_zoo.models.generation import END, PAD, START, DecoderStart
from attention_zoo.models.presets import (
    Config,
    PresetMixin,
    add_presets,
    check_kind_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.vision.captioner import Captioner
from attention_zoo.models.vision.image_encoders import (
    complete_encoder_options,
    drop_initial_weights,
    encode_image,
    make_encoder,
)
from attention_zoo.ops import (
    PENALTIES,
    Projection,
    mean_penalty,
    number,
    rate,
    smoothed_cross_entropy,
)
from attention_zoo.registry import Registry
from attention_zoo.typing import Tensor

CAPTION_ATTENTIONS = Registry("attention.kind")
"""Registry of a captioner's kinds of attention."""


class CaptionAttention(layers.Layer):
    """Base class of a captioner's kinds of attention: alignment, memory and auxiliary loss."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.built = True  # without weights of its own, and never called

    def alignment(self) -> Any:
        """Return the alignment, a name or an `Alignment`."""
        return "softmax"

    def grid_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Return the height and width of the memory for an encoder grid of size `shape`."""
        return shape

    def make_memory(self, grid: Tensor) -> Tensor:
        """Return the memory for the encoder's feature grid `(B, h, w, C)`."""
        return grid

    def auxiliary_loss(
        self, weights: Tensor, mask: Tensor, state: Any, reward: Callable[[], Any]
    ) -> Any:
        """Return the auxiliary loss of the attention, a mean over the captions.

        Args:
            weights: `(B, T, L)`. mask: `(B, T)`, False at padding.
            state: attention state after the last step.
            reward: function that returns the log probability of each caption, `(B,)`.
        """
        return 0.0


@CAPTION_ATTENTIONS.register("soft")
class SoftCaptionAttention(CaptionAttention):
    """Soft attention, with the regularizer `lambda sum_i (1 - sum_t a_ti)^2`.

    Args:
        doubly_stochastic: lambda, weight of the regularizer, which makes the attention of a caption
            cover all positions equally.
    """

    def __init__(self, doubly_stochastic: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= number(doubly_stochastic) < float("inf"):
            raise ValueError(f"doubly_stochastic must be at least 0, got {doubly_stochastic!r}")
        self.rate = doubly_stochastic

    def auxiliary_loss(
        self, weights: Tensor, mask: Tensor, state: Any, reward: Callable[[], Any]
    ) -> Any:
        return self.rate * mean_penalty(PENALTIES.get("doubly_stochastic"), weights, mask)


@CAPTION_ATTENTIONS.register("hard")
class HardCaptionAttention(CaptionAttention):
    """Hard attention to one position, sampled in training and trained by REINFORCE.

    The reward is the log probability of the caption. The moving-average baseline b is a mean per
    word: the reward of a caption of n words is compared with n b, so that long captions are not
    penalized.

    Args:
        expected_rate: fraction of the captions that use soft attention in training.
        coefficient: lambda_r, weight of the REINFORCE term.
        entropy_bonus: lambda_e, weight of the entropy of the alignment.
    """

    def __init__(
        self,
        expected_rate: float = 0.5,
        coefficient: float = 0.1,
        entropy_bonus: float = 0.002,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.expected_rate = expected_rate
        self.reinforce = Reinforce(0.9, coefficient, entropy_bonus, dtype=self.dtype_policy)

    def alignment(self) -> Any:
        return ReinforceAlignment(self.expected_rate, dtype=self.dtype_policy)

    def auxiliary_loss(
        self, weights: Tensor, mask: Tensor, state: Any, reward: Callable[[], Any]
    ) -> Any:
        choice = ReinforceAlignment.choice(state)
        words = ops.sum(ops.cast(mask, "float32"), axis=1)
        reward_per_word = reward() / ops.maximum(words, 1.0)
        path_log_probs = words * ops.cast(choice.log_probability, "float32")
        nonempty = ops.any(mask, axis=1)
        return self.reinforce(
            reward_per_word, path_log_probs, choice.entropy, nonempty, training=True
        )


@CAPTION_ATTENTIONS.register("pooled")
class PooledBaseline(CaptionAttention):
    """Pooled baseline without attention: the mean of all positions at every step."""

    def grid_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        return 1, 1

    def make_memory(self, grid: Tensor) -> Tensor:
        return ops.mean(grid, axis=(1, 2), keepdims=True)


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class ShowAttendTell(Captioner, EncoderDecoder):
    """Image encoder, and an LSTM decoder that attends to the feature grid before each word.

    `z_t = beta_t sum_i a_ti v_i`, `h_t = LSTM(h_{t-1}, [E y_{t-1}; z_t])`,
    `logits_t = L_o tanh(E y_{t-1} + L_h h_t + L_z z_t)`

    Args:
        vocabulary_size: V, number of caption tokens, including the 4 special tokens.
        embedding_dim: m, width of the embedding and of the input of L_o.
        units: n, hidden units of the LSTM.
        attention_units: hidden units of the score.
        attention: kind of attention: {"kind": "soft"} with "doubly_stochastic", {"kind": "hard"}
            with "expected_rate", "coefficient" and "entropy_bonus", or {"kind": "pooled"}, the
            mean of the grid.
        encoder: image encoder: {"kind": "cnn"} with "filters", trained with the rest of the model;
            {"kind": "vit"} with the arguments of
            `models.vision.vision_transformer.VisionTransformer`; {"kind": "efficientnet_lite"} with
            those of `models.vision.efficientnet_lite.EfficientNetLite`; {"kind": "features"} with
            "width", for precomputed features; or the name of a model of `keras.applications` as
            kind, with "weights" (default "imagenet"), "trainable" and "layer", the name of the
            layer whose output is the grid.
        dropout: dropout rate on embeddings and on the input of L_o.
        word_dropout: rate at which previous words are replaced by the unknown token in training,
            so that predictions depend less on previous words and more on the image.

    Call arguments:
        inputs: `{"image": (B, H, W, 3), "target": (B, T)}`: pixels from 0 to 255, or the encoder's
            feature grids `(B, h, w, C)`, and token ids that begin with the start token, 2.
        training: enables dropout and sampling, and adds the attention's auxiliary loss.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        Padding (0) in the target does not affect other positions.

    Reference:
        Xu et al. 2015, arXiv 1502.03044, sections 3 and 4, equations 1 to 14; the symbols are the
        paper's, except that v_i is its a_i and a_ti its alpha_ti. The tanh of equation 7 is from
        the authors' code. The auxiliary loss is summed over captions and divided by the number of
        tokens in the batch, like the cross-entropy.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 512,
        units: int = 1800,
        attention_units: int = 512,
        attention: Config | None = None,
        encoder: Config | None = None,
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        attention = complete_attention_options(attention)
        encoder = complete_encoder_options(encoder)
        settings = collect_arguments(locals())
        vocabulary_size, units = settings["vocabulary_size"], settings["units"]
        embedding_dim, attention_units = settings["embedding_dim"], settings["attention_units"]
        common = {"dtype": self.dtype_policy}
        self.encoder = make_encoder(encoder, self.dtype_policy)
        self.target_embedding = layers.Embedding(vocabulary_size, embedding_dim, **common)
        kind = attention.pop("kind")
        self.attention = CAPTION_ATTENTIONS.get(kind)(**attention, **common)
        cell = AttentionCell(
            layers.LSTMCell(units, **common),
            VisualAttention(attention_units, alignment=self.attention.alignment(), **common),
            order="attend_then_step",
            **common,
        )
        self.decoder = RecurrentDecoder(cell, bridge=True, **common)
        self.state_projection = layers.Dense(embedding_dim, **common)
        self.context_projection = layers.Dense(embedding_dim, use_bias=False, **common)
        self.vocabulary = layers.Dense(vocabulary_size, use_bias=False, **common)
        self.drop = Dropout(rate("dropout", dropout), **common)
        self.word_dropout = WordDropout(word_dropout, **common)
        self.set_up({**settings, "encoder": drop_initial_weights(settings["encoder"])})

    vocabulary_settings = ("vocabulary_size",)
    free_settings = (*PresetMixin.free_settings, "attention")

    def build_layers(self) -> None:
        size = self.settings
        image = (None, None, None, self.encoder.channels)
        self.encoder.build(image)
        grid = self.encoder.compute_output_shape(image)
        width, units, channels = size["embedding_dim"], size["units"], grid[-1]
        self.target_embedding.build((None, None))
        self.decoder.build((None, None, width), grid, (None, channels))
        self.state_projection.build((None, None, units))
        self.context_projection.build((None, None, channels))
        self.vocabulary.build((None, None, width))

    # computation

    def grid_shape(self, image: Any) -> tuple[int, int]:
        return self.attention.grid_shape(super().grid_shape(image))

    readout_fields = ("hidden", "context", "weights")

    def encode(self, source: Tensor, training: bool) -> Encoded:
        grid = encode_image(self.encoder, source, training)
        return Encoded(self.attention.make_memory(grid), None, ops.mean(grid, axis=(1, 2)))

    def make_decoder_input_ids(self, target: Tensor, encoded: Encoded) -> Tensor:
        tokens = super().make_decoder_input_ids(target, encoded)
        return ops.where(target == START, tokens, self.word_dropout(tokens, training=True))

    def readout(
        self, record: dict[str, Tensor], embedded: Tensor, encoded: Encoded, training: bool
    ) -> Tensor:
        hidden = self.state_projection(record["hidden"])
        context = self.context_projection(record["context"])
        return self.drop(ops.tanh(embedded + (hidden + context)), training=training)

    def add_auxiliary_losses(
        self, record: dict[str, Any], state: CellState, target: Tensor, projection: Projection
    ) -> None:
        mask = ops.not_equal(target, PAD)

        def reward() -> Tensor:
            logits = ops.cast(ops.stop_gradient(self.vocabulary(projection.hidden)), "float32")
            losses = smoothed_cross_entropy(_labels(target), logits, 0.0)
            return -ops.sum(ops.where(mask, losses, 0.0), axis=1)

        weights, alignment_state = record["weights"][0], state.alignments[0]
        auxiliary = self.attention.auxiliary_loss(weights, mask, alignment_state, reward)
        captions = ops.sum(ops.cast(ops.any(mask, axis=1), "float32"))
        captions_per_token = captions / ops.maximum(ops.sum(ops.cast(mask, "float32")), 1.0)
        self.add_loss(ops.cast(auxiliary, "float32") * captions_per_token)

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode images once and return the decoder's step function and initial state."""
        encoded = self.encode(source, False)
        start = self.make_decoder_start(encoded, ops.shape(source)[0])
        return self.make_image_start(source, encoded.memory, start)


def _labels(target: Tensor) -> Tensor:
    """Return the label of each token of a target `(B, T)`: the next token, or the end token."""
    after = ops.concatenate([target[:, 1:], ops.zeros_like(target[:, :1])], axis=1)
    return ops.where(after != PAD, after, END)


def complete_attention_options(value: Config | None) -> Config:
    """Return the attention options with defaults filled in; raise ValueError for unknown ones."""
    options, defaults = check_kind_options("attention", value, "soft", CAPTION_ATTENTIONS.get)
    return {**defaults, **options}


# config

add_presets(
    ShowAttendTell,
    # The authors' COCO sizes: m 512, n 1800, a VGG grid of 14 x 14 (224 pixels).
    show_attend_tell_base=Config(
        embedding_dim=512,
        units=1800,
        attention_units=512,
        encoder={"kind": "VGG19", "layer": "block5_conv4"},
        dropout=0.5,
    ),
    # Sizes for small images and a CPU, trained from scratch; not the paper's.
    show_attend_tell_small=Config(embedding_dim=128, units=256, attention_units=128, dropout=0.3),
)

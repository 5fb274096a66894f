"""Show, attend and tell: captions from attention over an image (Xu et al. 2015)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers import (
    AttentionCell,
    CellState,
    RecurrentDecoder,
    ReinforceAlignment,
    VisualAttention,
    WordDropout,
)
from attention_zoo.losses import Reinforce
from attention_zoo.models.captioner import Captioner
from attention_zoo.models.encoder_decoder import Encoded, EncoderDecoder, Tensor
from attention_zoo.models.generation import END, PAD, START, DecoderStart
from attention_zoo.models.image_encoders import encoder_options, make_encoder, saved_options
from attention_zoo.models.presets import Config, model, options_of, plain, preset
from attention_zoo.ops import (
    PENALTIES,
    Projection,
    mean_penalty,
    number,
    rate,
    smoothed_cross_entropy,
    whole_number,
)
from attention_zoo.registry import Registry, did_you_mean

LOOKS = Registry("look")
"""How a captioner looks at an image."""


class Look(layers.Layer):
    """Which places there are to look at, how they are chosen, and what is learnt of the choice."""

    def alignment(self) -> Any:
        """From scores to weights."""
        return "softmax"

    def grid_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Height and width of what is looked at of a grid of that height and width."""
        return shape

    def places(self, grid: Tensor) -> Tensor:
        """What is looked at of an encoder's grid `(B, h, w, C)`."""
        return grid

    def amiss(self, weights: Tensor, live: Tensor, state: Any, reward: Callable[[], Any]) -> Any:
        """What a caption's looks add to its loss, a mean over the captions.

        Args:
            weights: `(B, T, L)`. live: `(B, T)`, which steps there are.
            state: of the attention after all looks.
            reward: gives `(B,)`, the log probability of each caption.
        """
        return 0.0


@LOOKS.register("soft")
class SoftLook(Look):
    """At all places at once, `lambda sum_i (1 - sum_t a_ti)^2` being amiss with it.

    Args:
        doubly_stochastic: lambda; each place is to be looked at as often as any other.
    """

    def __init__(self, doubly_stochastic: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= number(doubly_stochastic) < float("inf"):
            raise ValueError(f"doubly_stochastic must be at least 0, got {doubly_stochastic!r}")
        self.rate = doubly_stochastic

    def amiss(self, weights: Tensor, live: Tensor, state: Any, reward: Callable[[], Any]) -> Any:
        return self.rate * mean_penalty(PENALTIES.get("doubly_stochastic"), weights, live)


@LOOKS.register("hard")
class HardLook(Look):
    """At one place, drawn in training; the draws learn by how well the caption was told.

    The moving baseline is of a word, so that long captions are not held to be badly told: of a
    caption of n words, the reward is measured against n b.

    Args:
        expected_rate: the share of looks that are soft in training.
        coefficient: lambda_r, weight of what the reward teaches.
        entropy_bonus: lambda_e, of choices that are spread out.
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
        self.reinforce = Reinforce(
            coefficient=coefficient, entropy_bonus=entropy_bonus, dtype=self.dtype_policy
        )

    def alignment(self) -> Any:
        return ReinforceAlignment(self.expected_rate, dtype=self.dtype_policy)

    def amiss(self, weights: Tensor, live: Tensor, state: Any, reward: Callable[[], Any]) -> Any:
        chosen = ReinforceAlignment.choice(state)
        words = ops.sum(ops.cast(live, "float32"), axis=1)
        of_a_word = reward() / ops.maximum(words, 1.0)
        paths = words * ops.cast(chosen.log_probability, "float32")
        told = ops.any(live, axis=1)
        return self.reinforce(of_a_word, paths, chosen.entropy, told, training=True)


@LOOKS.register("pooled")
class PooledLook(Look):
    """At no place: at the mean of all of them, at every step; what attention is measured by."""

    def grid_shape(self, shape: tuple[int, int]) -> tuple[int, int]:
        return 1, 1

    def places(self, grid: Tensor) -> Tensor:
        return ops.mean(grid, axis=(1, 2), keepdims=True)


@model
@keras.saving.register_keras_serializable("attention_zoo")
class ShowAttendTell(Captioner, EncoderDecoder):
    """An image to a grid of annotations, and an LSTM that looks at some of it before each word.

    `z_t = beta_t sum_i a_ti v_i`, `h_t = LSTM(h_{t-1}, [E y_{t-1}; z_t])`,
    `logits_t = L_o tanh(E y_{t-1} + L_h h_t + L_z z_t)`

    Args:
        vocabulary_size: V, tokens of captions, the 4 special ones included.
        embedding_dim: m, width of the embedding and of what the logits are of.
        units: n, of the LSTM.
        attention_units: hidden width of the score.
        look: how it looks: {"kind": "soft"} with "doubly_stochastic", {"kind": "hard"} with
            "expected_rate", "coefficient" and "entropy_bonus", or {"kind": "pooled"}: one vector.
        encoder: what makes the grid: {"kind": "cnn"} with "filters", learnt with the rest;
            {"kind": "features"} with their "width", computed before; or a model of
            `keras.applications` by its name as kind, with "weights" ("imagenet" unless told
            otherwise), "trainable" and "layer", the name of the one that gives the grid.
        dropout: rate on embeddings and on what the logits are of, in training.
        word_dropout: rate at which the words before become unknown, in training: what is said is
            then learnt less from what was said, and more from the image.

    Call arguments:
        inputs: `{"image": (B, H, W, 3), "target": (B, T)}`: pixels from 0 to 255 (of "features"
            the grid `(B, h, w, C)`), and integers that begin with 2.
        training: switches dropout and draws on, and adds what is amiss with the looks to the loss.
        project: False for the `ops.Projection` that the logits are of, in place of them.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        Padding (0) in the target changes nothing at the other positions.

    Reference:
        Xu et al. 2015, arXiv 1502.03044, sections 3 and 4, equations 1 to 14; the letters are the
        paper's, but v_i for its a_i and a_ti for its alpha_ti. The tanh of equation 7 is the
        authors' code's. What is amiss is divided by the tokens of a caption, as the loss is.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 512,
        units: int = 1800,
        attention_units: int = 512,
        look: Config | None = None,
        encoder: Config | None = None,
        dropout: float = 0.5,
        word_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        look, encoder = look_options(look), encoder_options(encoder)
        sizes = {
            "vocabulary_size": whole_number("vocabulary_size", vocabulary_size),
            "embedding_dim": whole_number("embedding_dim", embedding_dim),
            "units": whole_number("units", units),
            "attention_units": whole_number("attention_units", attention_units),
        }
        vocabulary_size, embedding_dim, units, attention_units = sizes.values()
        own = {"dtype": self.dtype_policy}
        self.encoder = make_encoder(encoder, self.dtype_policy)
        self.target_embedding = layers.Embedding(vocabulary_size, embedding_dim, **own)
        self.look = LOOKS.get(look["kind"])(**{k: look[k] for k in look if k != "kind"}, **own)
        cell = AttentionCell(
            layers.LSTMCell(units, **own),
            VisualAttention(attention_units, alignment=self.look.alignment(), **own),
            order="attend_then_step",
            **own,
        )
        self.decoder = RecurrentDecoder(cell, bridge=True, **own)
        self.of_state = layers.Dense(embedding_dim, **own)
        self.of_context = layers.Dense(embedding_dim, use_bias=False, **own)
        self.vocabulary = layers.Dense(vocabulary_size, use_bias=False, **own)
        self.drop = layers.Dropout(rate("dropout", dropout), **own)
        self.word_dropout = WordDropout(word_dropout, **own)
        options = {"look": look, "encoder": saved_options(encoder)}
        rates = {"dropout": dropout, "word_dropout": word_dropout}
        self.finish(plain({**sizes, **options, **rates}))

    vocabularies = ("vocabulary_size",)

    def build(self, input_shape: Any = None) -> None:
        size = self.settings
        image = (None, None, None, self.encoder.channels)
        self.encoder.build(image)
        grid = self.encoder.compute_output_shape(image)
        width, units, channels = size["embedding_dim"], size["units"], grid[-1]
        self.target_embedding.build(None)
        self.decoder.build((None, None, width), grid, (None, channels))
        self.of_state.build((None, None, units))
        self.of_context.build((None, None, channels))
        self.vocabulary.build((None, None, width))
        self.built = True

    # computation

    def grid_shape(self, image: Any) -> tuple[int, int]:
        return self.look.grid_shape(super().grid_shape(image))

    reads = ("hidden", "context", "weights")

    def encode(self, source: Tensor, training: bool) -> Encoded:
        grid = self.encoder(source, training=training)
        return Encoded(self.look.places(grid), None, ops.mean(grid, axis=(1, 2)))

    def make_decoder_input_ids(self, target: Tensor, encoded: Encoded) -> Tensor:
        tokens = super().make_decoder_input_ids(target, encoded)
        return ops.where(target == START, tokens, self.word_dropout(tokens, training=True))

    def readout(
        self, record: dict[str, Tensor], embedded: Tensor, encoded: Encoded, training: bool
    ) -> Tensor:
        seen = self.of_state(record["hidden"]) + self.of_context(record["context"])
        return self.drop(ops.tanh(embedded + seen), training=training)

    def add_auxiliary_losses(
        self, record: dict[str, Any], state: CellState, target: Tensor, said: Projection
    ) -> None:
        live = ops.not_equal(target, PAD)

        def reward() -> Tensor:
            logits = ops.cast(ops.stop_gradient(self.vocabulary(said.hidden)), "float32")
            losses = smoothed_cross_entropy(_labels(target), logits, 0.0)
            return -ops.sum(ops.where(live, losses, 0.0), axis=1)

        amiss = self.look.amiss(record["weights"][0], live, state.alignments[0], reward)
        captions = ops.sum(ops.cast(ops.any(live, axis=1), "float32"))
        share = captions / ops.maximum(ops.sum(ops.cast(live, "float32")), 1.0)
        self.add_loss(ops.cast(amiss, "float32") * share)

    def decoder_step(self, source: Tensor, width: int, room: Any) -> DecoderStart:
        """What a search needs to write captions of images: each seen once."""
        encoded = self.encode(source, False)
        step, state = self.writing(encoded, ops.shape(source)[0])[:2]
        return self.reading(source, encoded.memory, step, state)


def _labels(target: Tensor) -> Tensor:
    """What follows each token of a target `(B, T)`: the next one, or the end."""
    after = ops.concatenate([target[:, 1:], ops.zeros_like(target[:, :1])], axis=1)
    return ops.where(after != PAD, after, END)


def look_options(given: Config | None) -> Config:
    """The options of a look, all said; ValueError for an unknown kind or option."""
    options = {"kind": "soft", **options_of("look", given)}
    taken = {
        name: one.default
        for name, one in inspect.signature(LOOKS.get(options["kind"])).parameters.items()
        if one.kind is one.POSITIONAL_OR_KEYWORD
    }
    for name in options:
        if name != "kind" and name not in taken:
            hint = did_you_mean(name, taken)
            raise ValueError(f"look {options['kind']} has no option {name!r}{hint}")
    return {**taken, **options}


# config


@preset(ShowAttendTell, "show_attend_tell_base")
def show_attend_tell_base() -> Config:
    """The authors' script for COCO: m 512, n 1800, 14 x 14 annotations of 224 pixels by VGG."""
    return {
        "embedding_dim": 512,
        "units": 1800,
        "attention_units": 512,
        "encoder": {"kind": "VGG19", "layer": "block5_conv4"},
        "dropout": 0.5,
    }


@preset(ShowAttendTell, "show_attend_tell_small")
def show_attend_tell_small() -> Config:
    """Sizes for small images and a CPU, all learnt from scratch; not the paper's."""
    return {"embedding_dim": 128, "units": 256, "attention_units": 128, "dropout": 0.3}

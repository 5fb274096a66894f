"""A model that looks at an image piece by piece and decides where to look (Mnih et al. 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers import GlimpseSensor
from attention_zoo.layers.alignments.gumbel import noise_generator
from attention_zoo.losses import GlimpseLoss
from attention_zoo.models.presets import Config, PresetMixin, model, plain, preset
from attention_zoo.ops.random import uniform

Tensor = Any

WHITE = 255.0
AXES = ("height", "width", "channels")


class GlimpsePath(NamedTuple):
    """Where a model looked, what it saw there and what it thought of it after each of G glimpses.

    locations: `(B, G, 2)`, downwards and to the right, from -1 to 1. seen: `(B, G, scales, g, g,
    C)`, from 0 to 1. logits: `(B, G, K)`; the last ones are the answer.
    """

    locations: Tensor
    seen: Tensor
    logits: Tensor


class _Walk(NamedTuple):
    """All that a walk over an image leaves, each `(B, G, ...)`."""

    states: Tensor
    means: Tensor
    drawn: Tensor
    locations: Tensor
    seen: Tensor


@model
@keras.saving.register_keras_serializable("attention_zoo")
class RecurrentAttentionModel(PresetMixin, keras.Model):
    """A few glimpses of an image, each where the ones before suggest, and then a class.

    `mean_t = tanh(h_{t-1} W_l + b_l)`, `l_t ~ N(mean_t, std^2)`,
    `g_t = relu([relu(seen(l_t) W + b); relu(l_t W + b)] W_g + b_g)`,
    `h_t = relu([h_{t-1}; g_t] W_h + b_h)`, `logits = h_G W_a + b_a`

    Train it by `losses.GlimpseLoss` (`make_loss()`), with `compile` and `fit` or by the training
    loop. The answer trains glimpses, core and classifier; where to look learns from nothing but
    whether the answer was right (REINFORCE), against a baseline that each step foretells from its
    state. Nothing is drawn at inference: each location is the mean. `look` gives the path, `vote`
    the answer of several paths together.

    Args:
        image_shape: (height, width, channels).
        classes: K.
        glimpse_size: g, side of what is seen in pixels.
        glimpse_scales: how many patches a glimpse has, each twice as wide as the one before.
        glimpses: G, how many.
        glimpse_units: width of the two layers that read what is seen and where.
        units: D, width of the glimpse and of the state.
        location_std: std, of the locations in training; 1 is half an image.
        seed: of the draws, an integer or None.

    Call arguments:
        images: `(B, height, width, channels)`, uint8, or floats from 0 to 255.
        training: draw the locations.

    Returns:
        Logits `(B, K)`. In training `{"logits": (B, K), "log_probabilities": (B, G), "baselines":
        (B, G)}`: what was drawn and how likely a right answer seemed before it, for the loss.

    Masking:
        None: an image is all there.

    Reference:
        Mnih et al. 2014, arXiv 1406.6247, section 3 and figure 1; section 4 for the sizes. The
        first location is the one of the empty state h_0 = 0, so it is learned; a location that is
        drawn outside of the image is looked at on its edge. The mean goes through tanh.
    """

    # layers

    def __init__(
        self,
        image_shape: Sequence[int],
        classes: int,
        glimpse_size: int = 8,
        glimpse_scales: int = 1,
        glimpses: int = 6,
        glimpse_units: int = 128,
        units: int = 256,
        location_std: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        settings: Config = {
            "image_shape": _sizes(image_shape),
            "classes": zoo_ops.whole_number("classes", classes),
            "glimpse_size": zoo_ops.whole_number("glimpse_size", glimpse_size),
            "glimpse_scales": zoo_ops.whole_number("glimpse_scales", glimpse_scales),
            "glimpses": zoo_ops.whole_number("glimpses", glimpses),
            "glimpse_units": zoo_ops.whole_number("glimpse_units", glimpse_units),
            "units": zoo_ops.whole_number("units", units),
            "location_std": location_std,
            "seed": seed,
        }
        if not 0 < zoo_ops.number(location_std) < math.inf:
            raise ValueError(f"location_std must be above 0, got {location_std!r}")
        self.settings = size = plain(settings)
        own: Config = {"dtype": self.dtype_policy}
        self.seed_generator = noise_generator(seed)
        self.sensor = GlimpseSensor(size["glimpse_size"], size["glimpse_scales"], **own)
        reads = size["glimpse_units"]
        self.what, self.where = (layers.Dense(reads, "relu", **own) for _ in range(2))
        self.glimpse, self.core = (layers.Dense(size["units"], "relu", **own) for _ in range(2))
        # It begins near the middle: far apart places, before any is of use, are slow to unlearn.
        narrow = keras.initializers.TruncatedNormal(stddev=0.01)
        self.locator = layers.Dense(2, "tanh", kernel_initializer=narrow, **own)
        self.classifier = layers.Dense(size["classes"], **own)
        self.baseline = layers.Dense(size["glimpses"], **own)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        size = self.settings
        pixels = size["glimpse_scales"] * size["glimpse_size"] ** 2 * size["image_shape"][-1]
        self.sensor.build((None, *size["image_shape"]), (None, 2))
        self.what.build((None, pixels))
        self.where.build((None, 2))
        self.glimpse.build((None, 2 * size["glimpse_units"]))
        self.core.build((None, 2 * size["units"]))
        for head in (self.locator, self.classifier, self.baseline):
            head.build((None, size["units"]))
        self.built = True

    # computation

    def call(self, images: Tensor, training: bool | None = None) -> Any:
        walk = self._walk(images, self._drawn_noise(images) if training else None)
        logits = self.classifier(walk.states[:, -1])
        if not training:
            return logits
        return {
            "logits": logits,
            "log_probabilities": self._log_probabilities(walk),
            "baselines": self._baselines(walk),
        }

    def look(self, images: Tensor) -> GlimpsePath:
        """Where the model looks at images `(B, height, width, channels)`, and what it thinks."""
        walk = self._walk(ops.convert_to_tensor(images), None)
        return GlimpsePath(walk.locations, walk.seen, self.classifier(walk.states[:, 1:]))

    def vote(self, images: Tensor, paths: int = 10) -> Tensor:
        """Log probabilities `(B, K)`: the mean over several paths that stray as in training.

        It is right more often than one path of means, for so many times the work. How the paths
        stray is the same for all images, in every call.

        Args:
            images: `(B, height, width, channels)`.
            paths: how many.
        """
        images, shares = ops.convert_to_tensor(images), []
        for noise in self._fixed_noise(zoo_ops.whole_number("paths", paths)):
            logits = self.classifier(self._walk(images, noise[None]).states[:, -1])
            shares.append(ops.log_softmax(zoo_ops.at_least_float32(logits), axis=-1))
        return ops.logsumexp(ops.stack(shares), axis=0) - math.log(paths)

    def _walk(self, images: Tensor, noise: Tensor | None) -> _Walk:
        """The glimpses, one after the other; states are h_0 to h_G, of the rest there are G.

        Args:
            images: as in the call.
            noise: what is added to the means of locations, `(B, G, 2)` or `(1, G, 2)`, or None.
        """
        zoo_ops.check_shape("images", images.shape, ("batch", *self.settings["image_shape"]))
        images = ops.cast(images, self.compute_dtype) / WHITE
        batch, count = ops.shape(images)[0], self.settings["glimpses"]
        state = ops.zeros((batch, self.settings["units"]), self.compute_dtype)
        states, steps = [state], []
        for t in range(count):
            # The policy is told by rewards alone: it is deaf to what reads its state, and its
            # draws are data to what looks.
            mean = zoo_ops.at_least_float32(self.locator(ops.stop_gradient(state)))
            drawn = mean if noise is None else mean + ops.cast(noise[:, t], mean.dtype)
            drawn = ops.stop_gradient(drawn)
            location = ops.clip(drawn, -1.0, 1.0)
            seen = self.sensor(images, location)
            state = self.core(ops.concatenate([state, self._read(seen, location)], axis=-1))
            states.append(state)
            steps.append((mean, drawn, location, seen))
        return _Walk(ops.stack(states, 1), *(ops.stack(x, 1) for x in zip(*steps, strict=True)))

    def _drawn_noise(self, images: Tensor) -> Tensor:
        """How far locations of training are from their means, `(B, G, 2)` float32."""
        shape = (ops.shape(images)[0], self.settings["glimpses"], 2)
        std = self.settings["location_std"]
        return keras.random.normal(shape, stddev=std, dtype="float32", seed=self.seed_generator)

    def _fixed_noise(self, paths: int) -> list[Tensor]:
        """The same, always the same, for each path `(G, 2)` (Box and Muller's normal numbers)."""
        keys = ops.arange(paths, dtype="int32")
        drawn = uniform((), keys, (self.settings["glimpses"], 2))
        far = self.settings["location_std"] * ops.sqrt(-2 * ops.log(drawn[..., 0]))
        turn = 2 * math.pi * drawn[..., 1]
        noise = ops.stack([far * ops.cos(turn), far * ops.sin(turn)], axis=-1)
        return [noise[path] for path in range(paths)]

    def _read(self, seen: Tensor, location: Tensor) -> Tensor:
        """g_t `(B, D)`, of what is seen and where."""
        flat = ops.reshape(seen, (-1, math.prod(seen.shape[1:])))
        where = ops.cast(location, self.compute_dtype)
        return self.glimpse(ops.concatenate([self.what(flat), self.where(where)], axis=-1))

    def _log_probabilities(self, walk: _Walk) -> Tensor:
        """`log p(l_t)` `(B, G)`, float32 at least, with a gradient by the means."""
        std = self.settings["location_std"]
        squares = ops.sum(ops.square((walk.drawn - walk.means) / std), axis=-1)
        return -0.5 * squares - math.log(2 * math.pi * std**2)

    def _baselines(self, walk: _Walk) -> Tensor:
        """b_t `(B, G)`, each from the state before the glimpse by a head of its own."""
        heads = self.baseline(ops.stop_gradient(walk.states[:, :-1]))
        own = ops.eye(self.settings["glimpses"], dtype=heads.dtype)
        return ops.sum(heads * own, axis=-1)

    # training

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """What it trains by: classes `(B,)`."""
        return GlimpseLoss(label_smoothing)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """The loss of `compile`, which reads all that the call gives in training.

        Raises:
            ValueError: it is no `losses.GlimpseLoss`.
        """
        if not isinstance(y_pred, dict):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        if not isinstance(self.loss, GlimpseLoss):
            raise ValueError(
                f"a RecurrentAttentionModel cannot learn where to look by {self.loss!r}; compile "
                "it with loss=model.make_loss()"
            )
        return self.loss(y, y_pred, sample_weight) + sum(map(ops.sum, self.losses))

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The metrics of `compile`, of the logits."""
        logits = y_pred["logits"] if isinstance(y_pred, dict) else y_pred
        return super().compute_metrics(x, y, logits, sample_weight)


def _sizes(image_shape: Any) -> list[int]:
    """The sizes of an image; ValueError unless there are three of them."""
    if not isinstance(image_shape, (tuple, list)) or len(image_shape) != len(AXES):
        raise ValueError(f"image_shape must be ({', '.join(AXES)}), got {image_shape!r}")
    named = zip(AXES, image_shape, strict=True)
    return [zoo_ops.whole_number(f"image_shape's {name}", size) for name, size in named]


# config


@preset(RecurrentAttentionModel, "ram_mnist")
def ram_mnist() -> Config:
    """28x28 digits, 6 glimpses of 8x8 (1.12 % wrong in the NIPS table, 1.29 % in arXiv v1)."""
    return {"glimpse_size": 8, "glimpse_scales": 1, "glimpses": 6}


@preset(RecurrentAttentionModel, "ram_translated")
def ram_translated() -> Config:
    """60x60 with a digit anywhere, 8 glimpses of 12x12, 3 scales (1.20 % in the NIPS table)."""
    return {"glimpse_size": 12, "glimpse_scales": 3, "glimpses": 8}


@preset(RecurrentAttentionModel, "ram_cluttered")
def ram_cluttered() -> Config:
    """100x100 with clutter, 6 glimpses of 12x12, 4 scales (11.58 % in arXiv v1)."""
    return {"glimpse_size": 12, "glimpse_scales": 4, "glimpses": 6}

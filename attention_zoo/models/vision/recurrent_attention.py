"""Recurrent attention model: image classification by glimpses (Mnih et al. 2014)."""

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
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import (
    Config,
    add_presets,
    collect_arguments,
    register_model,
)
from attention_zoo.ops.random import sample_normal, uniform
from attention_zoo.typing import Tensor

WHITE = 255.0
AXES = ("height", "width", "channels")


class GlimpsePath(NamedTuple):
    """Glimpse locations, patches and logits of G glimpses.

    locations: `(B, G, 2)`, down and to the right, from -1 to 1. patches: extracted patches `(B, G,
    scales, g, g, C)`, from 0 to 1. logits: `(B, G, K)` after each glimpse; the last ones are the
    prediction.
    """

    locations: Tensor
    patches: Tensor
    logits: Tensor


class _Glimpses(NamedTuple):
    """Results of all glimpses: states `(B, G + 1, D)`, all others `(B, G, ...)`."""

    states: Tensor
    means: Tensor
    samples: Tensor
    locations: Tensor
    patches: Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class RecurrentAttentionModel(PrebuiltModel):
    """Image classifier that takes a sequence of glimpses and learns their locations.

    `mean_t = tanh(h_{t-1} W_l + b_l)`, `l_t ~ N(mean_t, std^2)`,
    `g_t = relu([relu(patches(l_t) W + b); relu(l_t W + b)] W_g + b_g)`,
    `h_t = relu([h_{t-1}; g_t] W_h + b_h)`, `logits = h_G W_a + b_a`

    Train with `losses.GlimpseLoss` (`make_loss()`), through `compile` and `fit` or the training
    loop. Cross entropy trains the glimpse network, the core and the classifier. The locations are
    trained by REINFORCE only: the reward is whether the prediction is correct, and the baseline of
    each step is predicted from its state. At inference nothing is sampled: each location is the
    mean. `glimpse_path` returns the glimpse path, `vote` averages the predictions of several paths.

    Args:
        image_shape: (height, width, channels).
        classes: K.
        glimpse_size: g, side of the patches in pixels.
        glimpse_scales: patches per glimpse, each covering twice the width of the one before.
        glimpses: G, number of glimpses.
        glimpse_units: width of the two layers that encode patches and location.
        units: D, width of the glimpse and of the state.
        location_std: std, of the locations in training; 1 is half an image.
        seed: random seed of the sampling, an integer or None.

    Call arguments:
        images: `(B, height, width, channels)`, uint8, or floats from 0 to 255.
        training: samples the locations.

    Returns:
        Logits `(B, K)`. In training `{"logits": (B, K), "log_probabilities": (B, G), "baselines":
        (B, G)}`: log probabilities of the sampled locations and predicted rewards, for the loss.

    Masking:
        None: images have no padding.

    Reference:
        Mnih et al. 2014, arXiv 1406.6247, section 3 and figure 1; section 4 for the sizes. The
        first location depends on the initial state h_0 = 0, so it is learned. Locations sampled
        outside the image are clipped to its edge. The mean goes through tanh.
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
        image_shape = _check_image_shape(image_shape)
        self.settings = size = collect_arguments(locals())
        if not 0 < zoo_ops.number(location_std) < math.inf:
            raise ValueError(f"location_std must be above 0, got {location_std!r}")
        common: Config = {"dtype": self.dtype_policy}
        self.seed_generator = noise_generator(seed)
        self.sensor = GlimpseSensor(size["glimpse_size"], size["glimpse_scales"], **common)
        width = size["glimpse_units"]
        self.patch_encoder = layers.Dense(width, "relu", **common)
        self.location_encoder = layers.Dense(width, "relu", **common)
        self.glimpse, self.core = (layers.Dense(size["units"], "relu", **common) for _ in range(2))
        # First locations are near the centre: scattered ones are slow to unlearn.
        initializer = keras.initializers.TruncatedNormal(stddev=0.01)
        self.locator = layers.Dense(2, "tanh", kernel_initializer=initializer, **common)
        self.classifier = layers.Dense(size["classes"], **common)
        self.baseline = layers.Dense(size["glimpses"], **common)
        self.build()

    def build_layers(self) -> None:
        size = self.settings
        pixels = size["glimpse_scales"] * size["glimpse_size"] ** 2 * size["image_shape"][-1]
        self.sensor.build((None, *size["image_shape"]), (None, 2))
        self.patch_encoder.build((None, pixels))
        self.location_encoder.build((None, 2))
        self.glimpse.build((None, 2 * size["glimpse_units"]))
        self.core.build((None, 2 * size["units"]))
        for head in (self.locator, self.classifier, self.baseline):
            head.build((None, size["units"]))

    @property
    def input_specs(self) -> keras.InputSpec:
        shape = (None, *self.settings["image_shape"])
        return keras.InputSpec("uint8", shape=shape, name="images")

    # computation

    def call(self, images: Tensor, training: bool | None = None) -> Any:
        glimpses = self._take_glimpses(images, self._sample_noise(images) if training else None)
        logits = self.classifier(glimpses.states[:, -1])
        if not training:
            return logits
        return {
            "logits": logits,
            "log_probabilities": self._log_probabilities(glimpses),
            "baselines": self._baselines(glimpses),
        }

    def glimpse_path(self, images: Tensor) -> GlimpsePath:
        """Return the glimpse path for images `(B, height, width, channels)`."""
        glimpses = self._take_glimpses(ops.convert_to_tensor(images), None)
        logits = self.classifier(glimpses.states[:, 1:])
        return GlimpsePath(glimpses.locations, glimpses.patches, logits)

    def vote(self, images: Tensor, paths: int = 10) -> Tensor:
        """Return the log of the mean class probabilities over several noisy paths, `(B, K)`.

        It costs `paths` times as much as one path of means. The noise has the standard deviation of
        training, but is the same for all images, in every call.

        Args:
            images: `(B, height, width, channels)`.
            paths: number of paths.
        """
        images, log_probs = ops.convert_to_tensor(images), []
        for noise in self._make_fixed_noise(zoo_ops.whole_number("paths", paths)):
            logits = self.classifier(self._take_glimpses(images, noise[None]).states[:, -1])
            log_probs.append(ops.log_softmax(zoo_ops.at_least_float32(logits), axis=-1))
        return ops.logsumexp(ops.stack(log_probs), axis=0) - math.log(paths)

    def _take_glimpses(self, images: Tensor, noise: Tensor | None) -> _Glimpses:
        """Take all glimpses in turn; `states` are h_0 to h_G, the other fields have G steps.

        Args:
            images: as in the call.
            noise: added to the means of the locations, `(B, G, 2)` or `(1, G, 2)`, or None.
        """
        zoo_ops.check_shape("images", images.shape, ("batch", *self.settings["image_shape"]))
        images = ops.cast(images, self.compute_dtype) / WHITE
        batch, count = ops.shape(images)[0], self.settings["glimpses"]
        state = ops.zeros((batch, self.settings["units"]), self.compute_dtype)
        states, steps = [state], []
        for t in range(count):
            # Rewards alone train the policy: its gradient does not reach the state, and the loss
            # of the prediction does not reach the sampled location.
            mean = zoo_ops.at_least_float32(self.locator(ops.stop_gradient(state)))
            samples = mean if noise is None else mean + ops.cast(noise[:, t], mean.dtype)
            samples = ops.stop_gradient(samples)
            location = ops.clip(samples, -1.0, 1.0)
            patches = self.sensor(images, location)
            glimpse = self._encode_glimpse(patches, location)
            state = self.core(ops.concatenate([state, glimpse], axis=-1))
            states.append(state)
            steps.append((mean, samples, location, patches))
        return _Glimpses(ops.stack(states, 1), *(ops.stack(x, 1) for x in zip(*steps, strict=True)))

    def _sample_noise(self, images: Tensor) -> Tensor:
        """Sample the locations' noise in training, `(B, G, 2)` float32."""
        shape = (ops.shape(images)[0], self.settings["glimpses"], 2)
        std = self.settings["location_std"]
        return std * sample_normal(self.seed_generator.next(), shape)

    def _make_fixed_noise(self, paths: int) -> list[Tensor]:
        """Return constant noise `(G, 2)` for each path (Box-Muller transform)."""
        keys = ops.arange(paths, dtype="int32")
        samples = uniform((), keys, (self.settings["glimpses"], 2))
        radius = self.settings["location_std"] * ops.sqrt(-2 * ops.log(samples[..., 0]))
        angle = 2 * math.pi * samples[..., 1]
        noise = ops.stack([radius * ops.cos(angle), radius * ops.sin(angle)], axis=-1)
        return [noise[path] for path in range(paths)]

    def _encode_glimpse(self, patches: Tensor, location: Tensor) -> Tensor:
        """Return g_t `(B, D)` for patches and location."""
        what = self.patch_encoder(ops.reshape(patches, (-1, math.prod(patches.shape[1:]))))
        where = self.location_encoder(ops.cast(location, self.compute_dtype))
        return self.glimpse(ops.concatenate([what, where], axis=-1))

    def _log_probabilities(self, glimpses: _Glimpses) -> Tensor:
        """Return `log p(l_t)` `(B, G)`, float32 at least, with a gradient to the means."""
        std = self.settings["location_std"]
        squares = ops.sum(ops.square((glimpses.samples - glimpses.means) / std), axis=-1)
        return -0.5 * squares - math.log(2 * math.pi * std**2)

    def _baselines(self, glimpses: _Glimpses) -> Tensor:
        """Return b_t `(B, G)`, from the state before the glimpse by a separate head per step."""
        all_baselines = self.baseline(ops.stop_gradient(glimpses.states[:, :-1]))
        diagonal = ops.eye(self.settings["glimpses"], dtype=all_baselines.dtype)
        return ops.sum(all_baselines * diagonal, axis=-1)

    # training

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the training loss; its labels are classes `(B,)`."""
        return GlimpseLoss(label_smoothing)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """Compute the loss of `compile` from all training outputs of the call.

        Raises:
            ValueError: the loss is not a `losses.GlimpseLoss`.
        """
        if not isinstance(y_pred, dict):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        if not isinstance(self.loss, GlimpseLoss):
            raise ValueError(
                f"loss must be a losses.GlimpseLoss, got {self.loss!r}; compile the model with "
                "loss=model.make_loss()"
            )
        return self.loss(y, y_pred, sample_weight) + sum(map(ops.sum, self.losses))

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Compute the metrics of `compile` on the logits."""
        logits = y_pred["logits"] if isinstance(y_pred, dict) else y_pred
        return super().compute_metrics(x, y, logits, sample_weight)


def _check_image_shape(image_shape: Any) -> list[int]:
    """Return the image's sizes as a list; raise ValueError unless there are three."""
    if not isinstance(image_shape, (tuple, list)) or len(image_shape) != len(AXES):
        raise ValueError(f"image_shape must be ({', '.join(AXES)}), got {image_shape!r}")
    sizes = zip(AXES, image_shape, strict=True)
    return [zoo_ops.whole_number(f"image_shape's {name}", size) for name, size in sizes]


# config

add_presets(
    RecurrentAttentionModel,
    # 28x28 digits: 6 glimpses of 8x8. The paper's error is 1.12 % in the NIPS table, 1.29 % in
    # arXiv v1.
    ram_mnist=Config(glimpse_size=8, glimpse_scales=1, glimpses=6),
    # 60x60 images with a digit anywhere: 8 glimpses of 12x12, 3 scales. The paper's error is 1.20 %
    # in the NIPS table.
    ram_translated=Config(glimpse_size=12, glimpse_scales=3, glimpses=8),
    # 100x100 images with clutter: 6 glimpses of 12x12, 4 scales. The paper's error is 11.58 % in
    # arXiv v1.
    ram_cluttered=Config(glimpse_size=12, glimpse_scales=4, glimpses=6),
)

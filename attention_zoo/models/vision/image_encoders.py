"""Image encoders, by name: images to feature grids that a decoder attends to."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.checkpoints.folder import find_task_folder
from attention_zoo.hub import resolve_folder
from attention_zoo.models.limited_building import build_part
from attention_zoo.models.precision import use_dtype_policy
from attention_zoo.models.presets import Config, check_kind_options, from_preset
from attention_zoo.ops import check_shape, pad_empty_batch, whole_number
from attention_zoo.registry import Registry, did_you_mean
from attention_zoo.typing import Shape, Tensor

IMAGE_ENCODERS = Registry("image encoder")


@IMAGE_ENCODERS.register("cnn")
class ConvolutionalEncoder(layers.Layer):
    """CNN trained with the rest of the model; each stage halves height and width.

    A stage is a 4 x 4 convolution of stride 2; the last of several stages is 2 x 2. Stages between
    the first and the last add a 3 x 3 convolution of stride 1. A 1 x 1 convolution ends the
    encoder. The last kernels are small so that a grid cell describes its own area, not its
    surroundings. Kernels of stride 2 have even sides: odd ones are off by half a pixel, which is
    half a grid cell after three stages.

    Each convolution is followed by group normalization, in up to 8 groups for 32 or more features,
    and ReLU. The statistics cover the whole image, so that an empty background stays weaker than
    the objects. The first and the last convolution also take pixel coordinates, from -1 to 1 down
    and across, because captions often name positions.

    Args:
        filters: width of each stage; C is that of the last one.
        weights: initial weights: a run, an entry of the zoo, the folder of a model or its address
            `hf://owner/name`, whose encoder has the same kind and filters. None for random ones.

    Call arguments:
        image: `(B, H, W, 3)`, 0 to 255.

    Returns:
        `(B, h, w, C)`, where n stages give `h = ceil(H / 2^n)` and w accordingly.

    Reference:
        Liu et al. 2018, arXiv 1807.03247 (pixel coordinates); Wu and He 2018, arXiv 1803.08494
        (group normalization).
    """

    channels = 3

    def __init__(
        self, filters: Sequence[int] = (32, 64, 128), weights: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(filters, list | tuple):
            raise ValueError(f"filters must be a list, a width for each stage, got {filters!r}")
        self.filters = [whole_number("filters", width) for width in filters]
        if not self.filters:
            raise ValueError("filters is empty; give a width for each stage")
        self.structure = {"filters": self.filters}
        last = len(self.filters) - 1
        shapes = []  # filters, kernel size, stride
        for stage, width in enumerate(self.filters):
            shapes += [(width, 4 if stage < max(last, 1) else 2, 2)]
            shapes += [(width, 3, 1)] * (0 < stage < last)
        shapes.append((self.filters[-1], 1, 1))
        common = {"dtype": self.dtype_policy}
        self.convolutions = [
            layers.Conv2D(*shape, padding="same", use_bias=False, **common) for shape in shapes
        ]
        self.norms = [layers.GroupNormalization(_groups(width), **common) for width, *_ in shapes]
        self.initial_weights = weights

    def build(self, image_shape: Shape) -> None:
        width = image_shape[-1]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            has_coordinates = convolution in (self.convolutions[0], self.convolutions[-1])
            convolution.build((None, None, None, width + 2 * has_coordinates))
            width = convolution.filters
            norm.build((None, None, None, width))
        if self.initial_weights is not None:
            copy_weights(load_encoder(self.initial_weights, self, "cnn"), self)
        self.built = True

    def call(self, image: Tensor, training: bool = False) -> Tensor:
        grid = ops.cast(pad_empty_batch(image), self.compute_dtype) / 127.5 - 1
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            if convolution in (self.convolutions[0], self.convolutions[-1]):
                grid = ops.concatenate([grid, _make_coordinates(grid)], axis=-1)
            grid = ops.relu(norm(convolution(grid)))
        return grid[: ops.shape(image)[0]]

    def compute_output_shape(self, image_shape: Shape) -> Shape:
        sides = list(image_shape[1:3])
        for _ in self.filters:
            sides = [None if side is None else -(-side // 2) for side in sides]
        return (image_shape[0], *sides, self.filters[-1])


@IMAGE_ENCODERS.register("features")
class PrecomputedFeatures(layers.Layer):
    """Precomputed feature grids, passed through.

    Args:
        width: C, number of features.

    Call arguments:
        image: `(B, h, w, C)`.
    """

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.channels = whole_number("width", width)

    def call(self, image: Tensor, training: bool = False) -> Tensor:
        return ops.cast(image, self.compute_dtype)

    def compute_output_shape(self, image_shape: Shape) -> Shape:
        return tuple(image_shape)


class KerasApplication(layers.Layer):
    """A model of `keras.applications` without its classifier.

    Args:
        kind: its name: "VGG16", "MobileNetV2".
        weights: "imagenet" (downloaded once), a file, or None for random ones, which stay random
            unless `trainable`.
        trainable: whether to train it with the rest of the model.
        layer: name of the layer whose output is the grid; the last one if None.

    Call arguments:
        image: `(B, H, W, 3)`, 0 to 255.
        training: with `trainable`, runs dropout and batch normalization in training mode.
    """

    channels = 3

    def __init__(
        self,
        kind: str,
        weights: str | None = "imagenet",
        trainable: bool = False,
        layer: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        module = _list_applications()[kind]
        self.kind, self.preprocess = kind, module.preprocess_input

        def build() -> keras.Model:
            with use_dtype_policy(self.dtype_policy):
                model = _build_application(getattr(module, kind), weights)
            if layer is None:
                return model
            names = [x.name for x in model.layers]
            if layer not in names:
                raise ValueError(f"{kind} has no layer {layer!r}{did_you_mean(layer, names)}")
            return keras.Model(model.input, model.get_layer(layer).output)

        self.model = build_part(build)
        self.model.trainable = trainable

    def call(self, image: Tensor, training: bool = False) -> Tensor:
        self.compute_output_shape(image.shape)
        pixels = self.preprocess(ops.cast(pad_empty_batch(image), "float32"))
        grid = self.model(pixels, training=training and self.trainable)
        return grid[: ops.shape(image)[0]]

    def compute_output_shape(self, image_shape: Shape) -> Shape:
        """Return the grid's shape; raise ValueError if the images are too small."""
        try:
            return self.model.compute_output_shape(tuple(image_shape))
        except ValueError:
            height, width = image_shape[1:3]
            raise ValueError(
                f"images of {height} x {width} pixels are too small for {self.kind}; give larger"
                " ones (data.image_size) or an earlier layer"
            ) from None


def complete_encoder_options(value: Config | None) -> Config:
    """Return the options of an image encoder, `{"kind": "cnn"}` for None.

    Raises:
        ValueError: an unknown kind, an unknown option, or a missing one.
    """
    return check_kind_options("encoder", value, "cnn", _get_constructor)[0]


def drop_initial_weights(options: Config) -> Config:
    """Return the options without initial weights, for an encoder whose weights are saved."""
    saved = {name: value for name, value in options.items() if name != "weights"}
    return saved if options["kind"] in IMAGE_ENCODERS else {**saved, "weights": None}


def make_encoder(options: Config, dtype: Any) -> Any:
    """Build the encoder layer, with an attribute `channels`, from complete options."""
    options = dict(options)
    kind = options.pop("kind")
    return _get_constructor(kind)(**options, dtype=dtype)


def check_image(image: Tensor, encoder: Any) -> None:
    """Raise ValueError unless `image` is a batch of images or of the encoder's feature grids.

    Height and width must not be 0.
    """
    if not is_feature_grid(image, encoder):
        check_shape("image", image.shape, ("batch", "height", "width", encoder.channels))
    if 0 in image.shape[1:]:
        raise ValueError(f"image has shape {tuple(image.shape)}: height or width is 0")


def is_feature_grid(image: Tensor, encoder: Any) -> bool:
    """Return whether `image` is a feature grid of the encoder, a tensor of floating-point numbers.

    If the encoder has as many features as its images have channels, `image` is an image.
    """
    is_float = "float" in keras.backend.standardize_dtype(image.dtype)
    if not is_float or len(image.shape) != 4 or image.shape[-1] == encoder.channels:
        return False
    return bool(image.shape[-1] == count_features(encoder))


def count_features(encoder: Any) -> int:
    """Return the number of features of an encoder's grid."""
    width: int = encoder.compute_output_shape((None, None, None, encoder.channels))[-1]
    return width


def encode_image(encoder: Any, image: Tensor, training: bool) -> Tensor:
    """Return the feature grid `(B, h, w, C)` of images; feature grids are returned unchanged."""
    if is_feature_grid(image, encoder):
        return ops.cast(image, encoder.compute_dtype)
    return encoder(image, training=training)


def make_image_spec(encoder: Any) -> keras.InputSpec:
    """Return the spec of an encoder's images: pixels, or precomputed features."""
    dtype = "float32" if isinstance(encoder, PrecomputedFeatures) else "uint8"
    side = getattr(encoder, "image_size", None)
    return keras.InputSpec(dtype, shape=(None, side, side, encoder.channels), name="image")


def compute_grid_shape(encoder: Any, image: Any) -> tuple[int, int]:
    """Return height and width of the grid of images or feature grids, or of such a shape."""
    shape = tuple(getattr(image, "shape", image))
    if not (hasattr(image, "shape") and is_feature_grid(image, encoder)):
        shape = encoder.compute_output_shape(shape)
    height, width = shape[1:3]
    return height, width


def _get_constructor(kind: str) -> Any:
    """Return the constructor of a kind of encoder; raise ValueError for an unknown one."""
    applications = _list_applications()
    known = [*IMAGE_ENCODERS.names(), *applications]
    if kind not in known:
        raise ValueError(
            f"encoder.kind {kind!r} is unknown; it is one of"
            f" {', '.join(IMAGE_ENCODERS.names())}, or a model of keras.applications"
            f"{did_you_mean(kind, known)}"
        )
    return partial(KerasApplication, kind) if kind in applications else IMAGE_ENCODERS.get(kind)


def _list_applications() -> dict[str, ModuleType]:
    """Return the modules of the models of `keras.applications`, by model name."""
    return {
        name: sys.modules[constructor.__module__]
        for name, constructor in vars(keras.applications).items()
        if inspect.isfunction(constructor) and name[0].isupper()
    }


def load_encoder(source: str, like: Any, kind: str) -> Any:
    """Load the encoder of a saved model, or a public checkpoint of an encoder.

    Args:
        source: the run, entry, folder or address.
        like: an encoder of the same class; its `structure` must be equal.
        kind: its name.

    Raises:
        ValueError: there is no model, or its encoder has another kind or structure.
    """
    if not isinstance(source, str | Path):
        raise ValueError(f"encoder.weights: expected a run or a model's folder, got {source!r}")
    try:
        folder = resolve_folder(source)
        if not (folder / "config.json").is_file():
            folder = find_task_folder(folder) / "model"
        model = from_preset(folder)
    except (OSError, ValueError) as error:
        raise ValueError(f"encoder.weights: {error}") from None
    encoder = model if isinstance(model, type(like)) else getattr(model, "encoder", None)
    if not isinstance(encoder, type(like)):
        raise ValueError(f"encoder.weights: {source}: its model has no encoder of kind {kind}")
    for name, value in like.structure.items():
        if encoder.structure[name] != value:
            raise ValueError(
                f"encoder.weights: {source}: has {name} {encoder.structure[name]}, but"
                f" encoder.{name} is {value}; use the same"
            )
    return encoder


def copy_weights(source: Any, target: Any) -> None:
    """Assign the weights of a layer to another one of the same structure."""
    for weight, initial in zip(target.weights, source.weights, strict=True):
        weight.assign(initial)


def _build_application(constructor: Any, weights: str | None) -> Any:
    """Build a model of `keras.applications`; raise ValueError if its weights cannot be loaded."""
    try:
        model = constructor(include_top=False, weights=weights)
    except Exception as error:  # loading raises many types
        if weights is None:
            raise
        reason = " ".join(str(error).split())[:200]
        name = constructor.__name__
        raise ValueError(f"encoder {name}: no weights from {weights!r}: {reason}") from None
    scales = [layer.scale for layer in model.layers if isinstance(layer, layers.Rescaling)]
    return _fold_second_rescaling(constructor, model, scales[1]) if len(scales) > 1 else model


def _fold_second_rescaling(constructor: Any, model: Any, scale: Any) -> Any:
    """Return the model with its second rescaling folded into the variances before it.

    Only an EfficientNet built with ImageNet weights has a second rescaling layer; one built to
    load saved weights has none.
    """
    unscaled = constructor(include_top=False, weights=None)
    unscaled.set_weights(model.get_weights())
    (norm,) = [layer for layer in unscaled.layers if isinstance(layer, layers.Normalization)]
    norm.adapt_variance.assign(norm.adapt_variance / ops.square(ops.convert_to_tensor(scale)))
    norm.finalize_state()
    return unscaled


def _groups(width: int) -> int:
    """Return the number of normalization groups for `width` features."""
    return math.gcd(width, 8) if width >= 32 else 1


def _make_coordinates(grid: Tensor) -> Tensor:
    """Return the coordinates of each pixel, `(B, H, W, 2)`, from -1 to 1 down and across."""
    batch, height, width = ops.shape(grid)[:3]
    rows, columns = (
        2 * (ops.arange(size, dtype="float32") + 0.5) / ops.cast(size, "float32") - 1
        for size in (height, width)
    )
    both = ops.stack(ops.meshgrid(rows, columns, indexing="ij"), axis=-1)
    return ops.cast(ops.broadcast_to(both, (batch, height, width, 2)), grid.dtype)

"""Vision Transformer (Dosovitskiy et al. 2021), an image encoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers import TransformerEncoderLayer
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.layers.transformer.encoder_layer import LAYER_OPTIONS
from attention_zoo.layers.transformer.residual import make_final_norm
from attention_zoo.models.presets import Config, check_options
from attention_zoo.models.transformer_options import check_num_heads, make_self_attention
from attention_zoo.models.vision.image_encoders import IMAGE_ENCODERS, copy_weights, load_encoder
from attention_zoo.ops import finite_number, rate, whole_number
from attention_zoo.typing import Shape, Tensor

SIZES = ("image_size", "patch_size", "embedding_dim", "units", "num_heads", "num_layers")


@IMAGE_ENCODERS.register("vit")
class VisionTransformer(layers.Layer):
    """Vision Transformer (ViT): a Transformer encoder over image patches and a class token.

    `v = norm(layers([c; x_1 W + b; ...; x_N W + b] + P))`, where x_i are the pixels of patch i

    Args:
        image_size: side of the images in pixels; they are squares.
        patch_size: side of a patch in pixels; it divides `image_size`.
        embedding_dim: D, width of all layers.
        units: width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: number of layers.
        layer: arguments of `layers.TransformerEncoderLayer` for every layer: any of "activation"
            (default "gelu"), "norm", "norm_first" (default True, as in the paper), "epsilon"
            (default 1e-6) and "stochastic_depth".
        dropout: dropout rate on embeddings and sublayers.
        normalization: dict of "mean" and "std", by default 0.5 and 0.5, with which pixels are
            normalized after division by 255: numbers, or one for each channel.
        weights: initial weights: a public ViT checkpoint, or a run, an entry of the zoo or the
            folder of a model with such an encoder, or the address `hf://owner/name` of one of
            these. All other options but `dropout` must be equal. None for random ones.

    Call arguments:
        image: `(B, image_size, image_size, 3)`, 0 to 255.
        training: enables dropout.

    Returns:
        `(B, h, w, D)`, the output at the patches; h and w are `image_size / patch_size`. `encode`
        returns the output at the class token too.

    Raises:
        ValueError: sizes that do not fit together, or images of another size.

    Reference:
        Dosovitskiy et al. 2021, arXiv 2010.11929, section 3.1: E is W, E_pos is P, x_class is c;
        the paper's P is `patch_size`.
    """

    channels = 3

    def __init__(
        self,
        image_size: int = 224,
        patch_size: int = 16,
        embedding_dim: int = 768,
        units: int = 3072,
        num_heads: int = 12,
        num_layers: int = 12,
        layer: Config | None = None,
        dropout: float = 0.0,
        normalization: Config | None = None,
        weights: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        values = image_size, patch_size, embedding_dim, units, num_heads, num_layers
        sizes = {name: whole_number(name, value) for name, value in zip(SIZES, values, strict=True)}
        check_num_heads(sizes)
        if image_size % patch_size:
            raise ValueError(
                f"patch_size must divide image_size, got patch_size={patch_size},"
                f" image_size={image_size}"
            )
        self.image_size, self.patch_size, self.width = image_size, patch_size, embedding_dim
        self.grid_size = image_size // patch_size
        normalization = check_options("normalization", normalization, ("mean", "std"))
        self.mean, self.std = (
            _read_channel_values(f"normalization.{name}", normalization.get(name, 0.5), above)
            for name, above in (("mean", -math.inf), ("std", 0.0))
        )
        self.initial_weights = weights
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        options: dict[str, Any] = {"activation": "gelu", "epsilon": 1e-6}
        options |= check_options("layer", layer, LAYER_OPTIONS)
        means = {"mean": self.mean, "std": self.std}
        self.structure = {**sizes, "normalization": means, "layer": dict(options)}
        options |= common
        self.patch_projection = layers.Dense(embedding_dim, **common)
        self.drop = Dropout(rate("dropout", dropout), **common)
        self.encoder = [
            TransformerEncoderLayer(
                units,
                num_heads,
                make_self_attention(None, num_heads, embedding_dim, **common),
                dropout=dropout,
                **options,
            )
            for _ in range(num_layers)
        ]
        self.norm = make_final_norm(**options)

    def build(self, image_shape: Shape) -> None:
        num_positions = self.grid_size**2 + 1
        normal = keras.initializers.RandomNormal(stddev=0.02)
        self.class_token = self.add_weight(
            shape=(1, 1, self.width), initializer="zeros", name="class_token"
        )
        self.positions = self.add_weight(
            shape=(1, num_positions, self.width), initializer=normal, name="positions"
        )
        self.patch_projection.build((None, None, self.channels * self.patch_size**2))
        for layer in (*self.encoder, self.norm):
            layer.build((None, num_positions, self.width))
        if self.initial_weights is not None:
            copy_weights(load_encoder(self.initial_weights, self, "vit"), self)
        self.built = True

    def call(self, image: Tensor, training: bool = False) -> Tensor:
        patches = self.encode(image, training)[:, 1:]
        return ops.reshape(patches, (-1, self.grid_size, self.grid_size, self.width))

    def encode(self, image: Tensor, training: bool = False) -> Tensor:
        """Return the output at the class token and the patches, `(B, 1 + h w, D)`."""
        self.compute_output_shape(image.shape)
        patches = self.patch_projection(self._split_into_patches(image))
        token = ops.cast(self.class_token, patches.dtype)
        token = ops.broadcast_to(token, (ops.shape(image)[0], 1, self.width))
        x = ops.concatenate([token, patches], axis=1) + ops.cast(self.positions, patches.dtype)
        x = self.drop(x, training=training)
        for layer in self.encoder:
            x = layer(x, training=training)
        return self.norm(x)

    def _split_into_patches(self, image: Tensor) -> Tensor:
        """Return the normalized pixels of each patch, `(B, h w, patch_size^2 * 3)`, row by row."""
        dtype, batch = self.compute_dtype, ops.shape(image)[0]
        side, size = self.grid_size, self.patch_size
        pixels = ops.cast(image, "float32") / 255
        pixels = (pixels - ops.convert_to_tensor(self.mean)) / ops.convert_to_tensor(self.std)
        grid = ops.reshape(pixels, (batch, side, size, side, size, self.channels))
        grid = ops.transpose(grid, (0, 1, 3, 2, 4, 5))
        return ops.cast(ops.reshape(grid, (batch, side**2, size**2 * self.channels)), dtype)

    def compute_output_shape(self, image_shape: Shape) -> Shape:
        """Return the grid's shape; raise ValueError for images of another size."""
        if any(size not in (None, self.image_size) for size in image_shape[1:3]):
            height, width = image_shape[1:3]
            raise ValueError(
                f"image must have {self.image_size} x {self.image_size} pixels, the image_size of"
                f" the encoder, got {height} x {width}; set data.image_size={self.image_size}"
            )
        return (image_shape[0], self.grid_size, self.grid_size, self.width)


def _read_channel_values(name: str, value: float | Sequence[float], above: float) -> list[float]:
    """Return three numbers above a bound; one is repeated for each channel."""
    values = list(value) if isinstance(value, Sequence) else [value] * 3
    if len(values) != 3:
        raise ValueError(f"{name} must be a number or three numbers, got {value}")
    return [float(finite_number(name, number, above)) for number in values]

"""Transformer captioner: its source is a grid of image features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.decoding import StepOutput
from attention_zoo.models.generation import DecoderStart, check_vocabulary_size
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import (
    Config,
    add_presets,
    check_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.translation.transformer import Transformer
from attention_zoo.models.vision.captioner import Captioner
from attention_zoo.models.vision.image_encoders import (
    complete_encoder_options,
    drop_initial_weights,
    encode_image,
    is_feature_grid,
    make_encoder,
)
from attention_zoo.models.vision.vision_transformer import VisionTransformer
from attention_zoo.ops import angles, rate, sinusoids
from attention_zoo.typing import Tensor

TRANSFORMER_SETTINGS = (
    "embedding_dim",
    "units",
    "num_heads",
    "num_layers",
    "layer",
    "dropout",
    "positions",
)


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class CaptionTransformer(Captioner, PrebuiltModel):
    """Image encoder, followed by a Transformer from its feature grid to words.

    `memory = encode(v W + b + p)`, `logits = decode(sqrt(D) E[y] + p', memory) E' + c`

    v are the features at the grid positions. p is their sinusoidal encoding: one half encodes the
    row, the other half the column. With `num_layers=[0, N]`, there are no encoder layers and no p:
    the memory is `v W + b`, or v if it has D features. The features of a Vision Transformer then
    include its class token, as first position.

    Args:
        vocabulary_size: V, caption tokens, including the 4 special ones.
        embedding_dim: D, width of the embeddings and of all layers; a multiple of 4.
        units: F, width of the feed-forward networks.
        num_heads: H; D / H is the width of a head.
        num_layers: N, of the encoder and of the decoder; or two numbers, one for each.
        layer: as in `Transformer`.
        encoder: options of the image encoder, as in `ShowAttendTell`.
        dropout: dropout rate on embeddings and sublayers.
        positions: positional encoding of the caption tokens, p', as in `Transformer`; relative
            positions also apply to the flattened grid in the encoder layers.
        use_output_bias: whether the bias c is added to the logits.

    Call arguments:
        inputs: `{"image": (B, H, W, 3), "target": (B, T)}`: pixels from 0 to 255, or the encoder's
            feature grids `(B, h, w, C)`, and token ids that begin with the start token, 2. Feature
            grids are not accepted if the memory has a class token.
        training: enables dropout.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        Padding (0) in the target does not affect other positions.

    `search` returns the attention weights over the grid positions. Their sum is less than 1 where
    the memory begins with a class token.

    Reference:
        Vaswani et al. 2017, arXiv 1706.03762, section 3, pre-norm; image regions as the source as
        in Herdade et al. 2019, arXiv 1906.05963, without their geometric relations of boxes.
    """

    # layers

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 512,
        units: int = 2048,
        num_heads: int = 8,
        num_layers: int | Sequence[int] = 6,
        layer: Config | None = None,
        encoder: Config | None = None,
        dropout: float = 0.1,
        positions: str | Config = "sinusoidal",
        use_output_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        encoder = complete_encoder_options(encoder)
        layer = check_options("layer", layer)
        settings = collect_arguments(locals())
        check_vocabulary_size("vocabulary_size", vocabulary_size)
        if embedding_dim % 4:
            raise ValueError(f"embedding_dim must be a multiple of 4, got {embedding_dim}")
        rate("dropout", dropout)
        self.settings = {**settings, "encoder": drop_initial_weights(settings["encoder"])}
        layer_settings = {name: settings[name] for name in TRANSFORMER_SETTINGS}
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        self.encoder = make_encoder(encoder, self.dtype_policy)
        num_layers, width = settings["num_layers"], settings["embedding_dim"]
        self.has_encoder_layers = not (isinstance(num_layers, list) and num_layers[:1] == [0])
        features = self.encoder.compute_output_shape((None, None, None, self.encoder.channels))[-1]
        is_projected = self.has_encoder_layers or features != width
        projection = layers.Dense(width, **common) if is_projected else None
        self.input_projection: Any = projection
        words, tie = settings["vocabulary_size"], {"kind": "all", "bias": use_output_bias}
        self.transformer = Transformer(words, words, tie=tie, **layer_settings, **common)
        if self.has_encoder_layers and self.transformer.max_length is not None:
            raise ValueError(
                f"positions: learned positions require num_layers=[0, N], got {num_layers}: encoder"
                " layers use the positions in the grid"
            )
        is_vit = isinstance(self.encoder, VisionTransformer)
        self.has_class_token = is_vit and not self.has_encoder_layers
        self.build()

    def build_layers(self) -> None:
        image = (None, None, None, self.encoder.channels)
        self.encoder.build(image)
        if self.input_projection is not None:
            self.input_projection.build(self.encoder.compute_output_shape(image))

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        target = ops.cast(inputs["target"], "int32")
        memory = self.encode(self.convert_source(inputs["image"]), bool(training))
        decoded = self.transformer.decode(target, memory, _make_full_mask(memory), training)
        projection = self.transformer.projection(decoded.hidden)
        return projection.logits() if project else projection

    def encode(self, image: Tensor, training: bool = False) -> Tensor:
        """Return the memory `(B, S, D)` of images: S is h w, or 1 + h w with a class token."""
        if not self.has_encoder_layers:
            return self._encode_features(image, training)
        grid = self.input_projection(encode_image(self.encoder, image, training))
        batch, height, width, size = ops.shape(grid)
        grid = grid + _encode_grid_positions(height, width, size, grid.dtype)
        flat_grid = ops.reshape(grid, (batch, height * width, size))
        return self.transformer.encode_embedded(flat_grid, _make_full_mask(flat_grid), training)

    def _encode_features(self, image: Tensor, training: bool) -> Tensor:
        """Return the features of the images as memory, projected if their width is not D."""
        if self.has_class_token:
            if is_feature_grid(image, self.encoder):
                raise ValueError(
                    "image must have pixels, got a feature grid, which lacks the class token that"
                    " the decoder attends to"
                )
            features = self.encoder.encode(image, training)
        else:
            grid = encode_image(self.encoder, image, training)
            batch, height, width, size = ops.shape(grid)
            features = ops.reshape(grid, (batch, height * width, size))
        return features if self.input_projection is None else self.input_projection(features)

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode images once and return the decoder's step function and initial state."""
        memory = self.encode(source)
        mask = _make_full_mask(memory)
        start = self.transformer.start_decoding_memory(memory, mask, width, max_steps)
        start = start.mask_special_tokens()
        if self.has_class_token:
            memory, start = memory[:, 1:], start._replace(step=_drop_first_weight(start.step))
        return self.make_image_start(source, memory, start)

    @property
    def max_target_length(self) -> int | None:
        """Number of learned positions; None for other positions."""
        return self.transformer.max_length

    def get_max_target_lengths(self, source_lengths: Tensor) -> Tensor | None:
        """Return the number of learned positions, `(B,)`; None for other positions."""
        return self.transformer.get_max_target_lengths(source_lengths)


def _drop_first_weight(step: Callable[..., StepOutput]) -> Callable[..., StepOutput]:
    """Return the step function with attention weights over all memory positions but the first."""

    def step_on_grid(tokens: Tensor, state: dict[str, Any]) -> StepOutput:
        output = step(tokens, state)
        return output._replace(attention=output.attention[..., 1:])

    return step_on_grid


def _encode_grid_positions(height: Tensor, width: Tensor, size: int, dtype: str) -> Tensor:
    """Return a grid's positional encoding `(height, width, size)`: half rows, half columns."""
    down, across = (
        sinusoids(angles(ops.arange(sides), size // 2, 1000.0, dtype), size // 2)
        for sides in (height, width)
    )
    shape = (height, width, size // 2)
    encodings = [ops.broadcast_to(x, shape) for x in (down[:, None], across[None])]
    return ops.concatenate(encodings, axis=-1)


def _make_full_mask(memory: Tensor) -> Tensor:
    """Return an all-True mask `(B, S)`: no grid position is masked."""
    return ops.ones(ops.shape(memory)[:2], "bool")


# config

add_presets(
    CaptionTransformer,
    # Sizes for small images and a CPU, trained from scratch; not the paper's.
    caption_transformer_small=Config(
        embedding_dim=128, units=256, num_heads=4, num_layers=2, dropout=0.2
    ),
)

"""Loaders of Vision Transformers, and of captioners with a ViT encoder and a GPT-2 decoder.

As in `models.public.gpt2`, four special tokens come first. Row 2 of the embeddings is that of
`decoder_start_token_id`, row 3 that of `eos_token_id` (often both `<|endoftext|>`); tokens 0, 1 and
2 have probability 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attention_zoo.models.generation import START
from attention_zoo.models.presets import Config, merge
from attention_zoo.models.public.encoders import PADDING_LOGIT
from attention_zoo.models.public.gpt2 import (
    IGNORED,
    NUM_SPECIAL,
    map_gpt2_attention,
    map_gpt2_layer,
    prepend_special_tokens,
    read_gpt2_settings,
)
from attention_zoo.models.public.image_processor import read_image_processor
from attention_zoo.models.public.initialization import set_value, skip_initialization
from attention_zoo.models.public.loading import FAMILIES, Checkpoint
from attention_zoo.models.public.weight_mapping import (
    Array,
    WeightMapping,
    assign_weights,
    map_dense,
    map_kernel,
    map_norm,
    map_table,
    map_vector,
)
from attention_zoo.models.transformer_options import LEARNED
from attention_zoo.models.vision.caption_transformer import CaptionTransformer
from attention_zoo.models.vision.vision_transformer import VisionTransformer

NAMES = {
    "embedding_dim": "hidden_size",
    "num_heads": "num_attention_heads",
    "num_layers": "num_hidden_layers",
    "units": "intermediate_size",
    "image_size": "image_size",
    "patch_size": "patch_size",
}
VIT_IGNORED = (r"pooler\..*", r"classifier\..*", r"embeddings\.mask_token")
"""Tensors that do not encode images: heads, and the embedding of masked patches."""


@FAMILIES.register("vit")
def build_vit(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a `VisionTransformer` with the weights of a ViT checkpoint."""
    if cls not in (None, VisionTransformer):
        raise ValueError(f"{checkpoint.folder}: is a VisionTransformer, not a {cls.__name__}")
    settings = _read_vit_settings(checkpoint)
    check_overrides(checkpoint, overrides)
    with skip_initialization():
        encoder = VisionTransformer(**merge(VisionTransformer, settings, overrides))
        encoder.build((None, None, None, encoder.channels))
    tensors = checkpoint.tensors.renamed(lambda name: name.removeprefix("vit."))
    assign_weights(map_vit("", encoder), tensors, checkpoint.folder, VIT_IGNORED)
    return encoder


@FAMILIES.register("vision-encoder-decoder")
def build_captioner(checkpoint: Checkpoint, cls: type | None, overrides: Config) -> Any:
    """Build a `CaptionTransformer` with the weights of a ViT encoder and a GPT-2 decoder."""
    if cls not in (None, CaptionTransformer):
        raise ValueError(f"{checkpoint.folder}: is a CaptionTransformer, not a {cls.__name__}")
    settings = _read_settings(checkpoint)
    check_overrides(checkpoint, overrides)
    with skip_initialization():
        model = CaptionTransformer(**merge(CaptionTransformer, settings, overrides))
    start, _ = get_start_and_end(checkpoint)
    ignored = [f"encoder\\.{name}" for name in VIT_IGNORED]
    ignored += [f"decoder\\.(transformer\\.)?{name}" for name in IGNORED]
    assign_weights(map_captioner(model, start), checkpoint.tensors, checkpoint.folder, ignored)
    biases = np.zeros(model.target_vocabulary_size, "float32")
    biases[: START + 1] = PADDING_LOGIT
    set_value(model.transformer.output_bias, biases)
    return model


def check_overrides(
    checkpoint: Checkpoint, overrides: Config, rates: Sequence[str] = ("dropout", "encoder.dropout")
) -> None:
    """Raise ValueError for an override that changes more than `rates` and the precision."""
    names = {*overrides}
    if isinstance(overrides.get("encoder"), dict):
        names |= {f"encoder.{name}" for name in overrides["encoder"]}
        names.remove("encoder")
    for name in sorted(names - {*rates, "dtype", "name", "trainable"}):
        free = "dropout and dtype" if rates else "dtype"
        raise ValueError(
            f"{checkpoint.folder}: {name} of the checkpoint cannot be changed, only {free};"
            " remove it"
        )


def get_start_and_end(checkpoint: Checkpoint) -> tuple[int, int]:
    """Return the ids of the start and end tokens; the decoder's apply where the config has none.

    Raises:
        ValueError: one is missing or not a token id, or the end token is not the last one.
    """
    config, names = checkpoint.config, ("decoder_start_token_id", "eos_token_id")
    ids = {name: config[name] for name in (*names, "bos_token_id") if config.get(name) is not None}
    merged = {**config["decoder"], **ids}
    if merged.get(names[0]) is None and "bos_token_id" in merged:
        merged[names[0]] = merged["bos_token_id"]
    checkpoint = checkpoint._replace(config=merged)
    checkpoint.get_token_ids("vocab_size")
    start, end = checkpoint.get_token_ids(*names)
    size = checkpoint.config["vocab_size"]
    checkpoint.check_setting("eos_token_id", expected=size - 1)
    if start >= size:
        raise ValueError(
            f"{checkpoint.folder / 'config.json'}: decoder_start_token_id={start} is not in the"
            f" vocabulary of {size} tokens"
        )
    return start, end


def _read_settings(checkpoint: Checkpoint) -> Config:
    """Return the constructor arguments that a captioner's config defines."""
    parts = {}
    for name, family in (("encoder", "vit"), ("decoder", "gpt2")):
        part: Any = checkpoint.config.get(name)
        found = part.get("model_type") if isinstance(part, dict) else None
        if found != family:
            raise ValueError(
                f"{checkpoint.folder / 'config.json'}: {name}.model_type={found!r} is not"
                f" supported, only {family!r}"
            )
        parts[name] = checkpoint._replace(config=part)
    _, end = get_start_and_end(checkpoint)
    part = parts["decoder"]
    part = part._replace(config={**part.config, "eos_token_id": end})
    part.check_setting("cross_attention_hidden_size", expected=None)
    decoder = read_gpt2_settings(part, cross_attention=True)
    max_length = decoder.pop("max_length")
    return {
        **decoder,
        "num_layers": [0, decoder["num_layers"]],
        "positions": {"kind": LEARNED, "max_length": max_length, "scale": 1.0},
        "use_output_bias": True,
        "encoder": {"kind": "vit", **_read_vit_settings(parts["encoder"])},
    }


def _read_vit_settings(checkpoint: Checkpoint) -> Config:
    """Return the arguments of the encoder that its config and the image processor define."""
    checkpoint.check_setting("num_channels", expected=VisionTransformer.channels)
    checkpoint.check_setting("qkv_bias", expected=True)
    config = checkpoint.config
    numbers = checkpoint.get_numbers(NAMES)
    activation = checkpoint.get_activation("hidden_act", "gelu")
    return {
        **numbers,
        "normalization": read_image_processor(checkpoint.folder, numbers["image_size"]),
        "dropout": config.get("hidden_dropout_prob", 0.0),
        "layer": {"activation": activation, "epsilon": config.get("layer_norm_eps", 1e-12)},
    }


def map_vit(prefix: str, encoder: VisionTransformer) -> Iterator[WeightMapping]:
    """Yield the mappings of a ViT's tensors, whose names begin with `prefix`."""
    width, size = encoder.width, encoder.patch_size
    dense, kernel_shape = encoder.patch_projection, (width, encoder.channels, size, size)

    def transpose(kernel: Array) -> list[Array]:
        return [kernel.transpose(2, 3, 1, 0)]  # (height, width, channels, outputs)

    embeddings = f"{prefix}embeddings"
    yield map_table(f"{embeddings}.cls_token", encoder.class_token)
    yield map_table(f"{embeddings}.position_embeddings", encoder.positions)
    projection, shape = f"{embeddings}.patch_embeddings.projection", kernel_shape
    yield WeightMapping(f"{projection}.weight", shape, [dense.kernel], transpose)
    yield map_vector(f"{projection}.bias", dense.bias)
    for number, layer in enumerate(encoder.encoder):
        layer_prefix, heads = f"{prefix}encoder.layer.{number}", layer.attention
        for name in ("query", "key", "value"):
            part = f"{layer_prefix}.attention.attention.{name}"
            yield map_kernel(f"{part}.weight", getattr(heads, f"{name}_projection"))
            yield map_vector(f"{part}.bias", getattr(heads, f"{name}_bias"))
        output = f"{layer_prefix}.attention.output.dense"
        yield map_kernel(f"{output}.weight", heads.output_projection, inputs=2)
        yield map_vector(f"{output}.bias", heads.output_bias)
        yield from map_norm(f"{layer_prefix}.layernorm_before", layer.attention_residual.norm)
        yield from map_dense(f"{layer_prefix}.intermediate.dense", layer.feed_forward.first)
        yield from map_dense(f"{layer_prefix}.output.dense", layer.feed_forward.second)
        yield from map_norm(f"{layer_prefix}.layernorm_after", layer.feed_forward_residual.norm)
    yield from map_norm(f"{prefix}layernorm", encoder.norm)


def map_captioner(model: CaptionTransformer, start: int) -> Iterator[WeightMapping]:
    """Yield the mappings of a captioner's tensors; `start` is the start token."""
    yield from map_vit("encoder.", model.encoder)
    if model.input_projection is not None:
        yield from map_dense("enc_to_dec_proj", model.input_projection)
    prefix, decoder = "decoder.transformer", model.transformer
    table = decoder.target_embedding.embeddings
    size, width = table.shape
    yield WeightMapping(
        f"{prefix}.wte.weight",
        (size - NUM_SPECIAL + 1, width),
        [table],
        lambda rows: prepend_special_tokens(rows, start),
    )
    yield map_table(f"{prefix}.wpe.weight", decoder.positions.table)
    for number, layer in enumerate(decoder.decoder):
        layer_prefix, heads = f"{prefix}.h.{number}", layer.memory_attention
        yield from map_gpt2_layer(layer_prefix, layer)
        projections = {"q_attn": ["query"], "c_attn": ["key", "value"]}
        yield from map_gpt2_attention(f"{layer_prefix}.crossattention", heads, projections)
        yield from map_norm(f"{layer_prefix}.ln_cross_attn", layer.memory_residual.norm)
    yield from map_norm(f"{prefix}.ln_f", decoder.norms[1])

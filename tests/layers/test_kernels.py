"""Keras's keywords for kernels and biases, and LoRA."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo import layers
from attention_zoo.layers import (
    AdditiveAttention,
    AdditiveScore,
    Attention,
    MultiHeadAttention,
    TransformerEncoderLayer,
    WindowedAttention,
)
from tests.layers.running import array, close, normal, same
from tests.tiers import mark_full

X, Y = normal((2, 3, 6), (2, 4, 6))
CHARACTERS = np.array([[[1, 2, 3], [4, 0, 0]]])
PAIR, ONE, WORDS = (X, Y), (X,), (CHARACTERS,)
KEYWORDS = {
    "kernel_initializer": keras.initializers.Constant(0.25),
    "bias_initializer": keras.initializers.Constant(0.5),
    "kernel_regularizer": "l2",
    "bias_regularizer": "l1",
    "kernel_constraint": "non_neg",
    "bias_constraint": "unit_norm",
}

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

CASES: dict[str, Case] = {
    "attention": (lambda **k: Attention("bilinear", "local_predictive", **k), PAIR),
    "additive": (lambda **k: AdditiveAttention(5, True, **k), PAIR),
    "multiplicative": (layers.MultiplicativeAttention, PAIR),
    "concat": (lambda **k: Attention("concat", **k), PAIR),
    "trilinear": (lambda **k: Attention("trilinear", **k), PAIR),
    "coverage": (layers.CoverageAttention, PAIR),
    "location_sensitive": (layers.LocationSensitiveAttention, PAIR),
    "location": (lambda **k: layers.LocationScore(7, **k), PAIR),
    "local": (layers.LocalAttention, PAIR),
    "hard": (layers.HardAttention, PAIR),
    "monotonic": (layers.MonotonicAttention, PAIR),
    "mocha": (layers.MonotonicChunkwiseAttention, PAIR),
    "mixture": (layers.MixtureWindowAttention, PAIR),
    "visual": (layers.VisualAttention, PAIR),
    "heads": (lambda **k: MultiHeadAttention(2, 4, score="additive", **k), PAIR),
    "self": (lambda **k: layers.SelfAttention(True, **k), ONE),
    "windowed": (lambda **k: WindowedAttention(2, 4, 1, **k), ONE),
    "structured": (lambda **k: layers.StructuredSelfAttention(4, 2, **k), ONE),
    "pooling": (layers.AttentionPooling, ONE),
    "co_attention": (layers.CoAttention, PAIR),
    "feature_map": (lambda **k: layers.AttentionFeatureMap(5, **k), PAIR),
    "weighted_pooling": (
        lambda **k: layers.AttentionWeightedPooling(2, "general", **k),
        PAIR,
    ),
    "encoder_layer": (lambda **k: TransformerEncoderLayer(8, 2, **k), ONE),
    "decoder_layer": (lambda **k: layers.TransformerDecoderLayer(8, 2, **k), PAIR),
    "feed_forward": (lambda **k: layers.FeedForward(5, "swiglu", **k), ONE),
    "maxout": (lambda **k: layers.Maxout(4, **k), ONE),
    "recurrent_encoder": (lambda **k: layers.RecurrentEncoder("gru", 4, **k), ONE),
    "character_cnn": (lambda **k: layers.CharacterCNN(9, **k), WORDS),
}

WITHOUT_BIAS = {
    *("multiplicative", "concat", "trilinear", "local", "hard", "self", "structured", "pooling"),
    *("co_attention", "feature_map", "weighted_pooling"),
}
BIAS_KEYWORDS = [name for name in KEYWORDS if name.startswith("bias")]
KERNEL_KEYWORDS = {name: x for name, x in KEYWORDS.items() if name not in BIAS_KEYWORDS}


def is_kernel(name: str) -> bool:
    if name == "recurrent_kernel":
        return False
    return name in ("v", "position_v", "queries") or name.endswith(
        ("kernel", "projection", "filters")
    )


def is_bias(name: str) -> bool:
    return name.endswith("bias") and name != "score_bias"


def check_keywords(layer: Any, tensors: tuple[np.ndarray, ...]) -> None:
    """Check that the built layer's kernels and biases have the keywords, and nothing else."""
    layer(*tensors)
    kernels = [x for x in layer.weights if is_kernel(x.name)]
    biases = [x for x in layer.weights if is_bias(x.name)]
    assert kernels
    for weights, value, regularizer, constraint in (
        (kernels, 0.25, keras.regularizers.L2, keras.constraints.NonNeg),
        (biases, 0.5, keras.regularizers.L1, keras.constraints.UnitNorm),
    ):
        for weight in weights:
            assert isinstance(weight.regularizer, regularizer), weight.path
            assert isinstance(weight.constraint, constraint), weight.path
            np.testing.assert_array_equal(array(weight), value, weight.path)
    given = {id(x) for x in (*kernels, *biases)}
    assert not [x.path for x in layer.weights if id(x) not in given and x.regularizer]


@pytest.mark.parametrize("name", CASES)
def test_keywords_apply_to_every_kernel_and_are_in_the_config(name: str) -> None:
    make, tensors = CASES[name]
    given = KERNEL_KEYWORDS if name in WITHOUT_BIAS else KEYWORDS
    layer = make(**given)
    check_keywords(layer, tensors)
    config = json.loads(json.dumps(layer.get_config()))
    rebuilt = type(layer).from_config(config)
    check_keywords(rebuilt, tensors)
    assert not set(KEYWORDS) & set(make().get_config()), "only given keywords are in the config"


def test_recurrent_layers_with_kernels() -> None:
    cell = layers.AttentionCell(
        keras.layers.GRUCell(4), AdditiveAttention(3), attention_layer_size=5, **KERNEL_KEYWORDS
    )
    decoder = layers.RecurrentDecoder(cell, bridge=True, **KEYWORDS)
    decoder(X, Y, initial_state=X[:, 0])
    given = {x.name for x in decoder.weights if isinstance(x.regularizer, keras.regularizers.L2)}
    assert given == {"attention_kernel", "bridge_kernel_0"}
    words = layers.CharacterLSTM(9, units=4, kernel_regularizer="l2")
    words(CHARACTERS)
    assert [x.name for x in words.weights if x.regularizer] == ["kernel"] * 2
    head = layers.CopyHead(1, **KEYWORDS)
    head(X, X, X, X, np.ones((2, 3, 4), "float32") / 4, np.ones((2, 4), "int32"))
    assert all(x.regularizer is not None for x in head.weights)


def make_decoder(cell: Any = None, **keywords: Any) -> layers.RecurrentDecoder:
    """Return a decoder whose cell and decoder create no kernels."""
    cell = layers.AttentionCell(keras.layers.GRUCell(4), AdditiveAttention(3), **(cell or {}))
    return layers.RecurrentDecoder(cell, **keywords)


WITHOUT_KERNEL: dict[str, Case] = {
    "attention": (lambda **k: Attention("dot", **k), PAIR),
    "dot": (layers.DotProductAttention, PAIR),
    "self": (layers.SelfAttention, ONE),
    "pooling": (lambda **k: layers.AttentionPooling("dot", **k), ONE),
    "co_attention": (lambda **k: layers.CoAttention("dot", **k), PAIR),
    "weighted_pooling": (lambda **k: layers.AttentionWeightedPooling(2, **k), PAIR),
    # The kernels are those of a part that is passed as an instance.
    "instance": (lambda **k: Attention(AdditiveScore(4), **k), PAIR),
    "pooling_instance": (lambda **k: layers.AttentionPooling(AdditiveScore(4), **k), ONE),
    "decoder": (make_decoder, PAIR),
    "cell": (lambda **k: make_decoder(cell=k), PAIR),
}


@pytest.mark.parametrize("keyword", ["kernel_initializer", "kernel_regularizer"])
@pytest.mark.parametrize("name", WITHOUT_KERNEL)
def test_keywords_without_effect_are_rejected(name: str, keyword: str) -> None:
    make, tensors = WITHOUT_KERNEL[name]
    with pytest.raises(ValueError, match=rf"{keyword} has no effect: .* has no kernel of its own"):
        make(**{keyword: KEYWORDS[keyword]})(*tensors)


@pytest.mark.parametrize("name", [*sorted(WITHOUT_BIAS), "additive_plain", "heads_plain"])
def test_bias_keywords_of_layers_without_biases_are_rejected(name: str) -> None:
    plain: dict[str, Case] = {
        "additive_plain": (lambda **k: AdditiveAttention(5, **k), PAIR),
        "heads_plain": (lambda **k: MultiHeadAttention(2, 4, use_bias=False, **k), PAIR),
    }
    make, tensors = (CASES | plain)[name]
    for keyword in BIAS_KEYWORDS:
        with pytest.raises(ValueError, match=f"{keyword} has no effect: .* has no bias of its own"):
            make(**{keyword: KEYWORDS[keyword]})(*tensors)


def test_keywords_of_a_loaded_layer_apply_to_its_parts() -> None:
    """A loaded part is an instance with keywords of its own; random initializers are copies."""
    layer = Attention("additive", kernel_initializer="he_normal", kernel_regularizer="l2")
    layer(*PAIR)
    rebuilt = Attention.from_config(json.loads(json.dumps(layer.get_config())))
    rebuilt(*PAIR)
    assert len(rebuilt.losses) == len(layer.losses) == 3


def test_layers_without_kernels_do_not_take_the_keywords() -> None:
    with pytest.raises(ValueError, match="kernel_regularizer"):
        layers.WordDropout(0.5, kernel_regularizer="l2")


def test_instances_keep_their_keywords() -> None:
    score = AdditiveScore(4, kernel_regularizer="l1")
    layer = MultiHeadAttention(2, 4, score=score, kernel_regularizer="l2")
    layer(X, Y)
    assert isinstance(score.query_kernel.regularizer, keras.regularizers.L1)
    assert isinstance(layer.query_projection.regularizer, keras.regularizers.L2)


@pytest.mark.parametrize("seed", [None, 3])
def test_initializers_get_matrix_shapes(seed: int | None) -> None:
    """Kernels of several heads are matrices, and random kernels of one shape differ."""
    orthogonal = keras.initializers.Orthogonal(seed=seed)
    layer = MultiHeadAttention(2, 3, score="additive", kernel_initializer=orthogonal)
    layer(X, X)
    matrix = array(layer.query_projection).reshape(6, 6)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(6), atol=1e-5)
    if seed is None:
        assert np.abs(array(layer.query_projection) - array(layer.key_projection)).max() > 1e-3


# LoRA

LORA_CASES = {name: CASES[name] for name in ("additive", "windowed", "encoder_layer", "maxout")}
LORA_CASES["heads"] = (lambda **k: MultiHeadAttention(2, 4, num_key_value_heads=1, **k), PAIR)


def make_model(case: Case, **options: Any) -> tuple[Any, keras.Model, list[np.ndarray]]:
    make, tensors = case
    layer = make(**options)
    inputs = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in tensors]
    return layer, keras.Model(inputs, layer(*inputs)), list(tensors)


def train(model: keras.Model, tensors: list[np.ndarray]) -> None:
    """Run an eager training step; it changes every trainable weight that has a gradient."""
    model.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
    target = normal(tuple(model(tensors).shape), seed=5)[0]
    model.train_on_batch(tensors, target)


@pytest.mark.parametrize("name", [mark_full(x) if x == "encoder_layer" else x for x in LORA_CASES])
def test_lora_trains_low_rank_updates(name: str, tmp_path: Path) -> None:
    layer, model, tensors = make_model(LORA_CASES[name])
    before, plain = array(model(tensors)), [array(x) for x in layer.weights]
    layer.enable_lora(1, lora_alpha=2)
    close(model(tensors), before, 1e-6)
    frozen = [x for x in layer.weights if not x.trainable]
    assert frozen
    assert {x.name.endswith(("kernel", "projection")) for x in frozen} == {True}
    assert len([x for x in layer.weights if "lora" in x.name]) == 2 * len(frozen)
    values = [array(x) for x in frozen]
    train(model, tensors)
    same(frozen, [ops.convert_to_tensor(x.astype("float32")) for x in values])
    after = array(model(tensors))
    assert np.abs(after - before).max() > 1e-4

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    close(loaded(tensors), after, 1e-6)
    assert [x.name for x in loaded.trainable_weights] == [x.name for x in model.trainable_weights]
    train(loaded, tensors)
    assert np.abs(array(loaded(tensors)) - after).max() > 1e-4, "training continues"

    model.save_weights(tmp_path / "merged.weights.h5")
    plain_layer, plain_model, _ = make_model(LORA_CASES[name])
    plain_model.load_weights(tmp_path / "merged.weights.h5")
    close(plain_model(tensors), after, 1e-6)
    for old, new in zip(plain, plain_layer.weights, strict=True):
        if new.name.endswith("_projection"):
            inputs = 2 if new.name.startswith("output") else 1
            change = (array(new) - old).reshape(np.prod(old.shape[:inputs]), -1)
            assert np.linalg.matrix_rank(change, tol=1e-5) <= 1


def test_lora_from_the_constructor() -> None:
    layer = MultiHeadAttention(2, 4, lora_rank=3, kernel_regularizer="l2")
    layer(X, Y)
    assert layer.query_projection_lora_a.shape == (6, 3)
    assert layer.output_projection_lora_b.shape == (3, 6)
    assert len(layer.losses) == 8, "the updates have the kernels' regularizer"
    assert layer.get_config()["lora_rank"] == 3


def test_lora_is_rejected() -> None:
    layer = MultiHeadAttention(2, 4)
    with pytest.raises(ValueError, match="not built; call it once before enable_lora"):
        layer.enable_lora(2)
    layer(X, Y)
    layer.enable_lora(2)
    with pytest.raises(ValueError, match="already enabled"):
        layer.enable_lora(2)
    constrained = MultiHeadAttention(2, 4, kernel_constraint="non_neg")
    constrained(X, Y)
    with pytest.raises(ValueError, match="does not support constrained or int8 kernels"):
        constrained.enable_lora(2)
    dot = Attention("dot")
    dot(X, Y)
    with pytest.raises(ValueError, match="has no kernel matrix for LoRA"):
        dot.enable_lora(2)


@pytest.mark.parametrize("rank", [0, 1.5])
def test_ranks_that_are_no_positive_integer_are_rejected(rank: float) -> None:
    with pytest.raises(ValueError, match=rf"lora_rank must be .*{rank}"):
        MultiHeadAttention(2, 4, lora_rank=rank)
    layer = MultiHeadAttention(2, 4)
    layer(*PAIR)
    with pytest.raises(ValueError, match=rf"rank must be .*{rank}"):
        layer.enable_lora(rank)

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from attention_zoo.layers import POSITIONS
from attention_zoo.models import BERT, MaskedLM, from_preset
from attention_zoo.models.presets import PRESETS
from tests.layers.running import JAX, any_batch, array, close
from tests.models.encoder_conformance import TOKENS, EncoderConformance, fill
from tests.models.generation_conformance import OTHER_STACK, STACK
from tests.models.model_conformance import count_parameters
from tests.refusals import refuses
from tests.variants import numerics_only

TINY = {
    **STACK,
    "vocabulary_size": 13,
    "max_length": 60,
    "layer": {"norm_first": False, "activation": "gelu", "epsilon": 1e-12},
}


class TestBERT(EncoderConformance):
    covers = BERT
    options = TINY
    small = {"num_layers": 1}
    changed = {
        **OTHER_STACK,
        "vocabulary_size": 14,
        "max_length": 20,
        "num_segments": 3,
        "layer": {"activation": "swiglu", "norm": "rms", "epsilon": 1e-5},
        "use_pooler": False,
    }


@numerics_only
class TestBERTByDistances(EncoderConformance):
    covers = BERT
    options = TINY | {"layer": {"positions": "rotary"}}
    changed = TestBERT.changed


SIZES = {
    "bert_tiny": 4.4e6,
    "bert_mini": 11.3e6,
    "bert_small": 29.1e6,
    "bert_medium": 41.7e6,
    "bert_base": 110e6,
    "bert_large": 340e6,
}


@pytest.mark.parametrize("name", SIZES)
def test_parameter_counts_follow_the_papers(name: str) -> None:
    """With the vocabulary of the release."""
    _, settings = PRESETS.get(name)()
    assert settings["num_heads"] == settings["embedding_dim"] // 64
    total = count_parameters(BERT, settings, vocabulary_size=30522)
    assert total == pytest.approx(SIZES[name], rel=0.03)


def test_sizes_of_the_released_base_model() -> None:
    """109,482,240, as `transformers` counts `bert-base-uncased` without a head."""
    sizes = {"embedding_dim": 768, "units": 3072, "num_heads": 12, "num_layers": 12}
    settings = {**sizes, "layer": {"norm_first": False}}
    assert count_parameters(BERT, settings, vocabulary_size=30522) == 109_482_240


def test_released_layers_are_post_norm_with_the_exact_gelu() -> None:
    model = from_preset("bert_tiny", vocabulary_size=5, embedding_dim=8, units=8)
    assert model.settings["layer"] == {"norm_first": False, "activation": "gelu", "epsilon": 1e-12}
    activation = model.encoder[0].feed_forward.first.activation
    assert float(activation(np.float32(1.0))) == pytest.approx(0.8413447, abs=2e-7)  # tanh: .841192


def test_segments_affect_outputs() -> None:
    model = BERT(**TINY)
    plain = model({"tokens": TOKENS})
    first, second = (
        model({"tokens": TOKENS, "segments": np.full_like(TOKENS, n)}) for n in range(2)
    )
    np.testing.assert_array_equal(array(first["hidden"]), array(plain["hidden"]))
    assert np.abs(array(second["hidden"]) - array(plain["hidden"])).max() > 1e-3


@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_and_words_without_tokens_are_zero(norm_first: bool) -> None:
    model = BERT(**TINY | {"layer": {"norm_first": norm_first}})
    tokens = np.concatenate([TOKENS, np.zeros_like(TOKENS[:1])])
    result = model({"tokens": tokens})
    assert not array(result["hidden"])[tokens == 0].any()
    assert not array(result["pooled"])[-1].any()
    assert array(result["pooled"])[:-1].any(axis=1).all()
    np.testing.assert_array_equal(array(result["hidden"]._keras_mask), tokens != 0)


def test_without_pooler() -> None:
    model = BERT(**TINY, use_pooler=False)
    assert set(model({"tokens": TOKENS})) == {"hidden"}
    assert BERT(**TINY).count_params() - model.count_params() == 8 * 8 + 8


def test_dropout_acts_in_training_only() -> None:
    model = BERT(**TINY | {"dropout": 0.5})
    still, repeated = (array(model({"tokens": TOKENS})["hidden"]) for _ in range(2))
    np.testing.assert_array_equal(still, repeated)
    assert model.encoder[0].attention.dropout == 0.5
    dropped = array(model({"tokens": TOKENS}, training=True)["hidden"])
    assert np.abs(dropped - still).max() > 1e-3


POSITION_NAMES = ("none", *POSITIONS.names())


def make_with_positions(positions: str, **options: object) -> BERT:
    model = BERT(**TINY | {"layer": {"positions": positions}} | options)
    fill(model)
    return model


@pytest.mark.every_backend
@pytest.mark.parametrize("positions", POSITION_NAMES)
@pytest.mark.parametrize("where", ["left", "right", "between"])
def test_distances_count_tokens_only(where: str, positions: str) -> None:
    model, segments = (
        make_with_positions(positions),
        np.arange(TOKENS.size).reshape(TOKENS.shape) % 2,
    )
    expected = model({"tokens": TOKENS, "segments": segments})
    for row, length in enumerate((TOKENS != 0).sum(1)):
        at = {
            "left": np.arange(11 - length, 11),
            "right": np.arange(length),
            "between": np.arange(0, 2 * length, 2),
        }[where]
        tokens, sides = np.zeros((2, 1, 13), "int32")
        tokens[0, at], sides[0, at] = TOKENS[row, :length], segments[row, :length]
        result = model({"tokens": tokens, "segments": sides})
        close(array(result["hidden"])[0, at], array(expected["hidden"])[row, :length], 1e-5)
        close(array(result["pooled"])[0], array(expected["pooled"])[row], 1e-5)
        assert not array(result["hidden"])[tokens == 0].any()


@pytest.mark.parametrize("positions", POSITION_NAMES)
def test_order_matters_with_positions(positions: str) -> None:
    """Reversing the first four tokens changes the other outputs, unless there are no positions."""
    model, reordered = make_with_positions(positions), TOKENS[:1, [3, 2, 1, 0, 4, 5]]
    assert model.positions is None
    one, other = (array(model({"tokens": x})["hidden"])[0, 4:] for x in (TOKENS[:1], reordered))
    difference = np.abs(one - other).max()  # at least 1e-2 with positions, for 12 seeds
    assert difference < 1e-5 if positions == "none" else difference > 1e-3


@pytest.mark.full
@pytest.mark.parametrize("positions", POSITION_NAMES)
def test_positions_are_saved_and_keep_half_precision(positions: str, tmp_path: Path) -> None:
    model = make_with_positions(positions, dtype="mixed_float16")
    model.save(tmp_path / "model.keras")
    repeated = keras.models.load_model(tmp_path / "model.keras")
    expected = array(model({"tokens": TOKENS})["hidden"])
    np.testing.assert_array_equal(array(repeated({"tokens": TOKENS})["hidden"]), expected)
    assert np.isfinite(expected).all()
    run = any_batch(lambda tokens: model({"tokens": tokens})["hidden"])
    for sizes in ((0, 4), (1, 1), (2, 3)):
        assert run(np.full(sizes, 4, "int32")).shape == (*sizes, 8)
    nobody = model({"tokens": np.zeros((2, 3), "int32")})
    assert not any(array(output).any() for output in nobody.values())


def test_positional_encoding_overrides_a_preset() -> None:
    sizes = {"vocabulary_size": 5, "embedding_dim": 8, "units": 8}
    model = from_preset("bert_tiny", **sizes, layer={"positions": "t5"})
    assert model.settings["layer"]["positions"] == "t5"
    assert model.settings["layer"]["activation"] == "gelu"
    inside = MaskedLM({**TINY, "layer": {"positions": "rotary"}})
    assert inside.bert.positions is None
    with pytest.raises(ValueError, match=r"unknown positions 'rotari'; did you mean 'rotary'"):
        BERT(**TINY | {"layer": {"positions": "rotari"}})
    with pytest.raises(ValueError, match=r"layer has no option 'position'; did.* 'positions'"):
        BERT(**TINY | {"layer": {"position": "rotary"}})


def test_too_many_tokens_are_rejected() -> None:
    model = BERT(**TINY | {"max_length": 4})
    with pytest.raises(ValueError, match=r"tokens exceeds max_length=4\. Truncate"):
        model({"tokens": TOKENS})


@pytest.mark.skipif(JAX, reason="JAX compiles for shapes that it knows")
def test_too_many_tokens_give_nan_with_dynamic_shapes() -> None:
    import tensorflow as tf

    model = BERT(**TINY | {"max_length": 4, "num_layers": 1})
    run = tf.function(
        lambda t: model({"tokens": t})["hidden"],
        input_signature=[tf.TensorSpec((None, None), "int32")],
        autograph=False,
    )
    result = array(run(TOKENS))
    assert np.isnan(result[0]).any()
    assert np.isfinite(result[1:]).all()


@refuses(
    ({"num_heads": 3}, "num_heads must divide embedding_dim, got num_heads=3, embedding_dim=8"),
    ({"layer": {"nrm": "rms"}}, "layer has no option 'nrm'; did you mean 'norm'"),
    ({"max_length": 0}, "max_length"),
    ({"vocabulary_size": 2.5}, "vocabulary_size"),
)
def test_invalid_sizes_are_rejected(options: dict) -> None:
    BERT(**TINY | options)

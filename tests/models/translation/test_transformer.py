from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import POSITIONS, RotaryPositions
from attention_zoo.layers.attention import blockwise, steps
from attention_zoo.layers.transformer import kv_cache
from attention_zoo.models import Transformer
from attention_zoo.models.presets import PRESETS
from attention_zoo.models.translation.transformer import SINUSOIDAL
from tests.layers.running import array, close
from tests.models.encoder_conformance import fill
from tests.models.generation_conformance import (
    OTHER_STACK,
    SOURCE,
    STACK,
    TARGET,
    VOCABULARY,
    GenerationConformance,
    check_hypotheses,
    forward,
)
from tests.models.model_conformance import count_parameters
from tests.refusals import refuses


class TestTransformer(GenerationConformance):
    covers = Transformer
    options = STACK
    small = {"num_layers": 1}
    changed = {
        **OTHER_STACK,
        "source_vocabulary_size": 14,
        "target_vocabulary_size": 14,
        "tie": {"kind": "none", "bias": True},
        "positions": "rotary",
    }
    rate = 0.01
    fill = staticmethod(fill)


SIZES = {("transformer_base", 37000): 65e6, ("transformer_big", 37000): 213e6}


@pytest.mark.full
@pytest.mark.parametrize(("name", "vocabulary"), SIZES)
def test_parameter_counts_follow_the_paper(name: str, vocabulary: int) -> None:
    """Table 3."""
    both = {"source_vocabulary_size": vocabulary, "target_vocabulary_size": vocabulary}
    total = count_parameters(Transformer, {**PRESETS.get(name)()[1], "tie": "all"}, **both)
    assert total == pytest.approx(SIZES[name, vocabulary], rel=0.03)


@pytest.mark.parametrize("tie", ["none", "target", "embeddings", "all"])
def test_ties(tie: str) -> None:
    words = {"source_vocabulary_size": 12, "target_vocabulary_size": 12}
    model = Transformer(**words, **STACK | {"num_layers": 1}, tie=tie)
    tables = [v for v in model.trainable_variables if 12 in v.shape]
    assert len(tables) == {"none": 3, "target": 2, "embeddings": 2, "all": 1}[tie]
    is_shared = model.source_embedding is model.target_embedding
    assert is_shared is (tie in ("embeddings", "all"))
    model.target_embedding.embeddings.assign(np.zeros((12, 8)))
    is_untied = tie in ("none", "embeddings")
    assert forward(model, SOURCE, TARGET).any() == is_untied, "the vocabulary is that table"


@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_output_bias_is_added_to_the_logits(tie: str) -> None:
    words = {"source_vocabulary_size": 12, "target_vocabulary_size": 12}
    model = Transformer(**words, **STACK | {"num_layers": 1}, tie={"kind": tie, "bias": True})
    before = forward(model, SOURCE, TARGET)
    bias = np.arange(12, dtype="float32")
    model.output_bias.assign(bias)
    np.testing.assert_allclose(forward(model, SOURCE, TARGET), before + bias, atol=1e-5)
    model.output_bias.assign(100 * (bias == 7))
    assert (array(model.search(SOURCE, max_length=3).tokens) == 7).all()


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "t5"])
def test_long_sequences_are_computed_blockwise(
    positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blockwise if attention weights are not requested."""
    model = make_with_positions(positions)
    expected, gathered = forward(model, SOURCE, TARGET), []
    real = blockwise.attend_blockwise
    monkeypatch.setattr(
        blockwise, "attend_blockwise", lambda *inputs: [gathered.append(1), real(*inputs)][1]
    )
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 1)
    close(forward(model, SOURCE, TARGET)[TARGET != 0], expected[TARGET != 0], 1e-5)
    assert len(gathered) == 6, "each attention of two layers on either side"
    source = ops.convert_to_tensor(SOURCE)
    inputs = ops.convert_to_tensor(TARGET), model.encode(source), source
    _, weights = model.decode(*inputs, return_attention_scores=True)
    assert tuple(weights.shape) == (3, 2, 5, 6)


RELATIVE_NAMES = POSITIONS.names()
CONFORMANCE_TESTS = (
    GenerationConformance.test_padding_does_not_affect_outputs,
    GenerationConformance.test_batch_members_do_not_affect_each_other,
    GenerationConformance.test_steps_equal_the_call,
    GenerationConformance.test_later_tokens_do_not_affect_outputs,
    pytest.param(
        GenerationConformance.test_beam_search_returns_attention_of_each_hypothesis,
        marks=pytest.mark.soak,
    ),
)


@functools.cache
def make_with_positions(positions: str) -> Transformer:
    """Return a model in which positions have a large effect and no prediction is certain."""
    sizes = {"embedding_dim": 16, "units": 16, "num_heads": 2, "num_layers": 2}
    model = Transformer(**VOCABULARY, **sizes, positions=positions)
    fill(model)
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        if variable.path.endswith(("_table", "bucket_bias")):
            variable.assign(rng.normal(size=tuple(variable.shape)))
        if "embedding" in variable.path:
            variable.assign(0.3 * variable)
    return model


STRUCTURES: dict[str, dict[str, Any]] = {
    "bart": {
        "num_layers": [1, 2],
        "layer": {"norm_first": False, "activation": "gelu"},
        "positions": {"kind": "learned", "max_length": 120, "scale": 1.0, "norm": True},
    },
    "t5": {
        "num_layers": [2, 1],
        "layer": {
            "norm": "rms",
            "attention": {"key_dim": 5, "use_bias": False},
            "activation": {"activation": "geglu_tanh", "use_bias": False},
        },
        "positions": {"kind": "t5", "shared": True, "num_buckets": 8, "max_distance": 20},
    },
}


@functools.cache
def make_structure(name: str) -> Transformer:
    """Return a model with the layers and positions of a BART or T5."""
    sizes = {"embedding_dim": 16, "units": 16, "num_heads": 2}
    model = Transformer(**VOCABULARY, **sizes, **STRUCTURES[name])
    fill(model)
    return model


@pytest.mark.parametrize("test", CONFORMANCE_TESTS, ids=lambda test: test.__name__)
@pytest.mark.parametrize("name", STRUCTURES)
def test_conformance_of_other_structures(
    name: str, test: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TestTransformer()
    monkeypatch.setattr(case, "make_preset", make_structure)
    test(case, name)


def test_parts_of_other_structures() -> None:
    t5, bart = make_structure("t5"), make_structure("bart")
    assert [len(t5.encoder), len(t5.decoder)] == [2, 1]
    assert [len(bart.encoder), len(bart.decoder)] == [1, 2]
    assert len({id(layer.attention.positions) for layer in t5.encoder}) == 1
    layer = t5.decoder[0]
    for heads in (layer.attention, layer.memory_attention):
        assert (heads.key_dim, heads.value_dim, heads.query_bias) == (5, 5, None)
    assert layer.feed_forward.second.bias is None
    assert not {one.name for one in t5.weights if "bias" in one.name} - {"bucket_bias"}
    tables = bart.source_positions.table, bart.positions.table
    assert [tuple(table.shape) for table in tables] == [(120, 16)] * 2
    assert tables[0] is not tables[1]


def test_embeddings_are_scaled_and_normalized() -> None:
    scaled = make_structure("bart")
    config = {**scaled.get_config(), "positions": {**STRUCTURES["bart"]["positions"], "scale": 2.0}}
    other = Transformer.from_config(config)
    for weight, value in zip(other.weights, scaled.weights, strict=True):
        weight.assign(value / 2 if value is scaled.target_embedding.embeddings else value)
    other.source_embedding.embeddings.assign(scaled.source_embedding.embeddings / 2)
    source = ops.convert_to_tensor(SOURCE)
    close(other.encode(source), array(scaled.encode(source)), 1e-5)
    norm = scaled.embedding_norms[0]
    before = array(scaled.encode(source))
    norm.gamma.assign(norm.gamma * 3)
    assert np.abs(array(scaled.encode(source)) - before).max() > 1e-2
    norm.gamma.assign(norm.gamma / 3)


@pytest.mark.parametrize("test", CONFORMANCE_TESTS, ids=lambda test: test.__name__)
@pytest.mark.parametrize("positions", ["none", *RELATIVE_NAMES])
def test_conformance_with_every_positional_encoding(
    positions: str, test: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = TestTransformer()
    monkeypatch.setattr(case, "make_preset", make_with_positions)
    test(case, positions)


def make_param(positions: str, jit: bool) -> Any:
    """Compiling with XLA is slow: by default only for one kind of positions."""
    return pytest.param(positions, jit, marks=[pytest.mark.soak] * (jit and positions != "t5"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("positions", "jit"),
    [make_param(name, jit) for name in RELATIVE_NAMES for jit in (False, True)],
)
def test_cache_buckets_keep_relative_distances(
    positions: str, jit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_cache.call_in_bucket, "__defaults__", ((2, 4),))
    model = make_with_positions(positions)
    model.__dict__.pop("_compiled", None)
    options = {"beam_width": 3, "n_best": 2, "min_length": 7, "max_length": 9, "jit": jit}
    result = model.compiled_search(SOURCE, **options)
    model.__dict__.pop("_compiled")
    for rank in range(2):
        check_hypotheses(model, result, rank)


@pytest.mark.parametrize("positions", RELATIVE_NAMES)
def test_left_padding_of_a_source_shifts_positions(positions: str) -> None:
    model = make_with_positions(positions)
    left = np.array([np.concatenate([row[row == 0], row[row != 0]]) for row in SOURCE])
    shifted = np.concatenate([np.zeros((3, 9), "int32"), left], 1)
    expected = forward(model, SOURCE, TARGET)[TARGET != 0]
    close(forward(model, shifted, TARGET)[TARGET != 0], expected, 1e-5)


@pytest.mark.parametrize("positions", RELATIVE_NAMES)
def test_positions_go_on_at_any_length(positions: str) -> None:
    model, rng = make_with_positions(positions), np.random.default_rng(0)
    source, target = (rng.integers(4, 11, (2, length)).astype("int32") for length in (70, 60))
    full = forward(model, source, target)
    assert np.isfinite(full).all()
    close(forward(model, source, target[:, :5]), full[:, :5], 1e-5)


def test_layers_do_not_share_position_weights() -> None:
    t5 = [
        layer.attention.positions
        for stack in ("encoder", "decoder")
        for layer in getattr(make_with_positions("t5"), stack)
    ]
    assert len({id(one) for one in t5}) == 4
    assert [one.bidirectional for one in t5] == [True, True, False, False]
    for stack in (make_with_positions("rotary").encoder, make_with_positions("rotary").decoder):
        assert all(isinstance(layer.attention.positions, RotaryPositions) for layer in stack)
    assert all(
        layer.memory_attention.positions is None for layer in make_with_positions("t5").decoder
    )
    assert Transformer(**VOCABULARY, **TestTransformer.options).settings["positions"] == SINUSOIDAL


def test_encoder_without_positions_ignores_order() -> None:
    swapped = SOURCE[:1, [1, 0, 2, 3, 4, 5]]
    for positions in ("none", *RELATIVE_NAMES):
        memory = make_with_positions(positions).encode(ops.convert_to_tensor(SOURCE[:1]))
        other = make_with_positions(positions).encode(ops.convert_to_tensor(swapped))
        gap = np.abs(array(memory)[:, 2:] - array(other)[:, 2:]).max()
        assert gap < 1e-5 if positions == "none" else gap > 1e-3, positions


@refuses(
    ({"positions": "rotery"}, "unknown positions 'rotery'; did you mean 'rotary'"),
    ({"positions": "sinusoid"}, "unknown positions 'sinusoid'; did you mean 'sinusoidal'"),
    ({"positions": None}, "unknown positions None"),
    ({"positions": "rotary", "embedding_dim": 6}, "key_dim must be even, got 3"),
    ({"num_heads": 3}, "num_heads must divide embedding_dim, got num_heads=3, embedding_dim=8"),
    ({"layer": {"nrm": "rms"}}, "layer has no option 'nrm'; did you mean 'norm'"),
    ({"layer": {"attention": {"bias": 1}}}, "layer.attention has no option 'bias'"),
    ({"layer": {"activation": {"bias": 1}}}, "activation has no option 'bias'"),
    ({"num_layers": [2]}, "num_layers must be a number or two numbers, got"),
    ({"num_layers": [2, 0]}, "num_layers must be at least 1, got 0"),
    ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
    ({"num_layers": "two"}, "num_layers must be an integer of at least 1, got 'two'"),
    ({"positions": "learned"}, "positions of kind 'learned' require max_length"),
    ({"positions": {"kind": "learned", "max_length": 0}}, "max_length must be at least 1, got 0"),
    ({"positions": {"kind": "t5", "max_length": 9}}, "positions of kind 't5' have no option 'max"),
    ({"positions": {"kind": "sinusoidal", "shared": True}}, "of kind 'sinusoidal' have no option"),
    ({"positions": {"scale": 2.0}}, "positions has no kind, got {'scale': 2.0}; write"),
    ({"positions": {"kind": "none", "norm": "yes"}}, "norm must be true or false, got 'yes'"),
    ({"positions": {"kind": "none", "scale": 0}}, "scale must be a finite number above 0, got 0"),
    ({"positions": {"kind": "t5", "num_buckets": 3}}, "num_buckets must be even and at least 4"),
    ({"tie": "both"}, "tie must be one of none, target, embeddings, all, got 'both'"),
    ({"tie": {"kind": "both"}}, "tie must be one of none, target, embeddings, all, got 'both'"),
    ({"tie": "embeddings"}, "tie='embeddings' requires one vocabulary, got 11 source and 12"),
    ({"tie": {"bais": True}}, "tie has no option 'bais'; did you mean 'bias'"),
    ({"tie": "all"}, "tie='all' requires one vocabulary, got 11 source and 12 target tokens"),
)
def test_invalid_sizes_are_rejected(options: dict) -> None:
    Transformer(**VOCABULARY, **STACK | options)

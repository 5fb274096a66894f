"""Search of a model: equal results on every path, tracing, and sampling per source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import attention_zoo as az
from attention_zoo.decoding import AllowedTokens, Rule, SearchOptions
from attention_zoo.layers.attention import blockwise, steps
from attention_zoo.layers.attention.expected_lengths import expects_long_sequences
from attention_zoo.models.generation import hash_sources
from tests.layers.running import JAX, array, close, randomise
from tests.models.generation_conformance import END, SOURCE, VOCABULARY

on_tensorflow = pytest.mark.skipif(JAX, reason="speaks of TensorFlow's graphs")


def translator() -> Any:
    model = az.models.from_preset("rnnsearch_small", **VOCABULARY, units=6, embedding_dim=5)
    randomise(model)
    return model


def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[Any]]:
    """Return a translator and a list of the source shapes for which its decoder step is traced."""
    model, traced = translator(), []
    step = model.start_decoding

    def counting(source: Any, *rest: Any) -> Any:
        traced.append(source.shape)
        return step(source, *rest)

    monkeypatch.setattr(model, "start_decoding", counting)
    return model, traced


CASES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"beam_width": 3, "n_best": 2, "length_penalty": "gnmt", "coverage_penalty": 0.3},
    "samples": {"method": "sampling", "beam_width": 3, "n_best": 3, "top_p": 0.9},
    "diverse": {"method": "diverse_beam", "beam_width": 4, "groups": 2, "n_best": 2},
    "contrast": {"method": "contrastive", "candidates": 3},
    "both limits": {"max_length": 5, "max_length_ratio": 1.5},
    "rules": {"beam_width": 2, "min_length": 3, "no_repeat_ngram": 2, "banned_tokens": (5,)},
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_search_paths_return_the_same_results(name: str) -> None:
    model = translator()
    expected = model.compiled_search(SOURCE, jit=True, **CASES[name])
    result = [model.compiled_search(SOURCE, **CASES[name])]
    if not JAX:
        result.append(model.search(SOURCE, **CASES[name]))
    for other in result:
        steps = other.tokens.shape[2]  # under XLA, padded to the limit
        np.testing.assert_array_equal(array(other.tokens), array(expected.tokens)[:, :, :steps])
        assert not array(expected.tokens)[:, :, steps:].any()
        close(array(other.scores), array(expected.scores), 1e-5)
        close(array(other.attention), array(expected.attention)[:, :, :steps], 1e-5)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_results_do_not_depend_on_the_batch(name: str) -> None:
    model = translator()
    together = model.compiled_search(SOURCE, **CASES[name])
    for row in range(len(SOURCE)):
        valid = SOURCE[row : row + 1, SOURCE[row] != 0]
        single = model.compiled_search(valid, **CASES[name])
        steps = single.tokens.shape[-1]
        np.testing.assert_array_equal(single.tokens[0], together.tokens[row, :, :steps])
        assert not array(together.tokens)[row, :, steps:].any()


@pytest.mark.full
def test_without_max_length_limits_depend_on_the_source() -> None:
    result = translator().compiled_search(SOURCE, banned_tokens=(END,))
    lengths = (SOURCE != 0).sum(1)
    assert array(result.lengths)[:, 0].tolist() == (2 * lengths + 10).tolist()
    assert not array(result.finished).any()


@pytest.mark.full
@pytest.mark.parametrize("options", [{"min_length": 40}, {"forced_tokens": {39: 5}}], ids=str)
def test_minimum_length_and_forced_tokens_raise_the_limits_of_sources(options: Any) -> None:
    for limit in ({}, {"max_length_ratio": 1.5}):
        result = translator().compiled_search(SOURCE, banned_tokens=(END,), **limit, **options)
        assert array(result.lengths).tolist() == [[40]] * len(SOURCE)


@pytest.mark.full
def test_target_prefix() -> None:
    model = translator()
    prefix = np.array([[7, 8, 9], [5, 0, 0], [0, 0, 0]], "int32")
    result = model.compiled_search(SOURCE, prefix=prefix, beam_width=3, max_length=6)
    assert result.tokens[0, 0, :3].tolist() == [7, 8, 9]
    assert result.tokens[1, 0, 0] == 5
    free = model.compiled_search(SOURCE, beam_width=3, max_length=6)
    width = min(result.tokens.shape[2], free.tokens.shape[2])
    np.testing.assert_array_equal(result.tokens[2, :, :width], free.tokens[2, :, :width])
    np.testing.assert_array_equal(result.lengths[2], free.lengths[2])


@pytest.mark.full
def test_custom_rules() -> None:
    model = translator()
    allowed = np.zeros((len(SOURCE), VOCABULARY["target_vocabulary_size"]), bool)
    for row in range(len(SOURCE)):
        allowed[row, [END, 6 + row]] = True
    options = {"rules": [AllowedTokens(allowed)], "min_length": 4, "max_length": 5}
    for search in (model.search, model.compiled_search):
        result = search(SOURCE, **options)
        for row, tokens in enumerate(array(result.tokens)[:, 0]):
            assert set(tokens[:3]) == {6 + row}


@pytest.mark.full
@pytest.mark.parametrize("jit", [False, True])
def test_traces_at_most_two_shapes(jit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, traced = counted(monkeypatch)
    shapes = [(3, 6)] * 3 if JAX else [(3, 6), (2, 5), (1, 4), (3, 2), (2, 6)]
    for batch, width in shapes:
        model.compiled_search(SOURCE[:batch, :width], jit=jit, beam_width=2, max_length=4)
    assert len(traced) <= 2


@pytest.mark.full
@on_tensorflow
@pytest.mark.parametrize("jit", [False, True])
def test_other_seeds_and_limits_compile_nothing(jit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, traced = counted(monkeypatch)
    options = {"method": "sampling", "beam_width": 2, "jit": jit}
    cases = [(1, 4, 64), (2, 4, 64), (3, 4, 8)] + [(2**32 - 1, 9, 64)] * (not jit)
    for seed, limit, size in cases:
        inputs = options | {"seed": seed, "max_length": limit, "batch_size": size}
        result = model.compiled_search(SOURCE, **inputs)
        expected = array(translator().search(SOURCE, **inputs).tokens)
        steps = expected.shape[2]
        np.testing.assert_array_equal(array(result.tokens)[:, :, :steps], expected)
        assert not array(result.tokens)[:, :, steps:].any()
    assert len(traced) == 1


@pytest.mark.full
@on_tensorflow
@pytest.mark.parametrize("name", ["transformer_tiny", "copy_transformer_small"])
def test_long_sources_are_attended_blockwise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In graphs for any length, which is what the second length of a source leads to."""
    blocks, real = [], blockwise.attend_blockwise
    monkeypatch.setattr(blockwise, "attend_blockwise", lambda *x: blocks.append(1) or real(*x))
    small = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1}
    words = VOCABULARY if name == "transformer_tiny" else {"vocabulary_size": 12, "copies": 2}
    model = az.models.from_preset(name, **words, **small)
    randomise(model)
    searches = {width: model.search(SOURCE[:2, :width], max_length=3) for width in range(3, 7)}
    counts: list[bool] = []

    def run(function: Any, *inputs: Any) -> Any:
        before = len(blocks)
        result = function(*inputs)
        counts.append(len(blocks) > before)
        return result

    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 5**2)
    for width in (3, 4, 5, 6, 4):
        source, expected = SOURCE[:2, :width], searches[width]
        result = run(lambda x: model.compiled_search(x, max_length=3), source)
        np.testing.assert_array_equal(array(result.tokens), array(expected.tokens))
        close(array(result.scores), array(expected.scores), 1e-5)
    assert counts == [False, False, True, True, False]
    if name != "copy_transformer_small":
        return
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 10**9)
    traces = {w: model.trace(SOURCE[:2, :w], searches[w].tokens[:, 0]) for w in searches}
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 5**2)
    counts.clear()
    for width in (3, 4, 5, 6, 4):
        trace = run(model.compiled_trace, SOURCE[:2, :width], searches[width].tokens[:, 0])
        for one, other in zip(trace, traces[width], strict=True):
            close(array(one), array(other), 1e-5)
    assert counts == [False, False, True, True, False]


@on_tensorflow
def test_only_searches_of_long_sources_expect_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model, expected = translator(), []
    start = model.start_decoding
    record = expected.append
    monkeypatch.setattr(
        model, "start_decoding", lambda *x: record(expects_long_sequences()) or start(*x)
    )
    monkeypatch.setattr(steps, "BLOCKWISE_MIN_SCORES", 5**2)
    for width in (4, 5):
        model.compiled_search(SOURCE[:1, :width], max_length=1)
    assert expected == [False, True]


NUMBERS: dict[str, dict[str, list[Any]]] = {
    "sampling": {"temperature": [0.5, 1.0, 2.0], "top_p": [0.5, 0.9], "min_p": [0.1, 0.01]},
    "beam": {
        "length_penalty_weight": [0.5, 1.0],
        "coverage_penalty": [0.1, 0.4],
        "repetition_penalty": [1.2, 2.0],
        "min_length": [2, 5],
        "max_length": [None, 6, 9],
        "max_length_ratio": [0.29, 0.5, 1.5],
    },
    "diverse_beam": {"diversity_penalty": [0.5, 3.0]},
    "contrastive": {"degeneration_penalty": [0.6, 0.9]},
}


@pytest.mark.full
@on_tensorflow
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("method", NUMBERS)
def test_other_numbers_compile_nothing(
    method: str, jit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results are those of a search with Python numbers."""
    model, traced = counted(monkeypatch)
    numbers = {name: values[-1] for name, values in NUMBERS[method].items()}
    options = {"method": method, "jit": jit, "max_length": 6} | numbers
    options |= {"beam": {"length_penalty": "gnmt"}, "sampling": {"seed": 3}}.get(method, {})
    options |= {} if method == "contrastive" else {"beam_width": 4}
    options |= {"groups": 2} if method == "diverse_beam" else {}
    for name, values in NUMBERS[method].items():
        if jit and name.startswith(("min_length", "max_length")):
            continue  # shapes depend on it
        for value in values:
            changed = options | {name: value}
            result = array(model.compiled_search(SOURCE, **changed).tokens)
            expected = array(translator().search(SOURCE, **changed).tokens)
            steps = expected.shape[2]
            np.testing.assert_array_equal(result[:, :, :steps], expected)
    assert len(traced) == 1


@pytest.mark.full
def test_least_recently_used_searches_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attention_zoo.models.generation.MAX_COMPILED_SEARCHES", 2)
    model = translator()
    for token in (4, 5, 4, 6):
        result = model.compiled_search(SOURCE[:1, :2], max_length=1, prefix_tokens=[token])
        assert result.tokens.tolist() == [[[token]]]
    refused: list[tuple[dict[str, Any], str]] = [
        ({"banned_tokens": [99]}, "banned_tokens must be ids from 0 to 11, got 99$"),
        ({"rules": [AllowedTokens(np.ones(3, bool))]}, "must be the vocabulary size 12, got shape"),
    ]
    for wrong, message in refused:
        with pytest.raises(ValueError, match=message):
            model.compiled_search(SOURCE[:1, :2], **wrong)
    keys = [key[0] for key in model._compiled.searches]
    assert ["prefix_tokens=(4,)" in key for key in keys] == [True, False]


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_results_do_not_depend_on_the_global_policy(dtype: str) -> None:
    model = az.models.from_preset(
        "rnnsearch_small", **VOCABULARY, units=6, embedding_dim=5, dtype=dtype
    )
    randomise(model)
    expected = model.compiled_search(SOURCE, max_length=5)
    model.__dict__.pop("_compiled")
    other = "mixed_bfloat16" if dtype == "float32" else "float32"
    keras.config.set_dtype_policy(other)
    result = model.compiled_search(SOURCE, max_length=5)
    np.testing.assert_array_equal(array(result.scores), array(expected.scores))


@pytest.mark.full
def test_rules_without_a_hash_are_distinguished() -> None:
    @dataclass
    class Only(Rule):
        token: int

        def compute_allowed_mask(self, shape: Any, state: Any, step: Any) -> Any:
            return (ops.arange(shape[-1]) == self.token)[None, None]

    model = translator()
    for token in (5, 6, 5):
        result = model.compiled_search(SOURCE, max_length=2, rules=iter([Only(token)]))
        assert (array(result.tokens) == token).all()


def test_errors_pass_through_unchanged() -> None:
    for search in (translator().search, translator().compiled_search):
        for options, message in REFUSED:
            with pytest.raises(ValueError) as caught:
                search(**{"source": SOURCE} | options)
            assert str(caught.value) == message


OUTSIDE = "source token ids must be at least 0 and less than the vocabulary size"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"banned_tokens": [99]}, "banned_tokens must be ids from 0 to 11, got 99"),
    (
        {"prefix": np.array([[1], [2], [12]])},
        "prefix of source 2 must be ids from 0 to 11, got 12",
    ),
    (
        {"prefix_tokens": [END], "min_length": 4},
        "prefix_tokens forces the end token at position 0 but min_length is 4: lower min_length",
    ),
    ({"source": SOURCE + 9}, f"{OUTSIDE} 11, got 18"),
    ({"source": SOURCE - 1}, f"{OUTSIDE} 11, got -1"),
    ({"source": SOURCE[0]}, "source must be integer token ids (B, S), got int32 of shape (6,)"),
    (
        {"rules": [AllowedTokens(np.ones((2, 12), bool))]},
        "mask must have 3 rows, one for each source, got shape (2, 12)",
    ),
]


def test_source_hashes_depend_on_tokens_and_order_but_not_padding() -> None:
    rows = np.array([[4, 5, 6, 0], [5, 4, 6, 0], [4, 5, 0, 0], [0, 0, 0, 0]], "int32")
    result = array(hash_sources(rows)).tolist()
    assert len(set(result)) == 4
    for unpadded in (rows[:1, :3], np.roll(rows[:1], 1, axis=1)):
        assert array(hash_sources(unpadded)).tolist() == result[:1]


def test_unknown_search_options_are_rejected() -> None:
    with pytest.raises(ValueError, match="option 'beam_with'; did you mean 'beam_width'"):
        translator().search(SOURCE, beam_with=3)
    with pytest.raises(ValueError, match="n_best must be at most beam_width, got n_best=3"):
        translator().compiled_search(SOURCE, SearchOptions(beam_width=2), n_best=3)
    with pytest.raises(ValueError, match="banned_tokens must be ids"):
        translator().search(SOURCE, banned_tokens=(99,))

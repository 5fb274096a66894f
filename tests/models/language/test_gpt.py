"""GPT: continuation of prompts of any length in one batch, by every search method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.layers import POSITIONS
from attention_zoo.layers.transformer import kv_cache
from attention_zoo.models import GPT
from attention_zoo.models.presets import PRESETS
from tests.layers.running import JAX, any_batch, array, close
from tests.models.encoder_conformance import fill
from tests.models.generation_conformance import (
    END,
    OTHER_STACK,
    SOURCE,
    STACK,
    START,
    GenerationConformance,
    check_hypotheses,
    make_text,
)
from tests.models.model_conformance import count_parameters
from tests.models.translation import test_transformer
from tests.refusals import refuses
from tests.tiers import mark_others_full


class TestGPT(GenerationConformance):
    covers = GPT
    vocabulary = {"vocabulary_size": 12}
    options = {**STACK, "max_length": 256}
    small = {"num_layers": 1}
    changed = {**OTHER_STACK, "vocabulary_size": 14, "max_length": 9, "positions": "rotary"}
    rate = 0.01
    fill = staticmethod(fill)

    def inputs(self, source: np.ndarray = SOURCE, target: np.ndarray | None = None) -> Any:
        target = np.full((len(source), 1), START, "int32") if target is None else target
        return {"tokens": make_text(source, target)}

    def training_data(self, source: np.ndarray, target: np.ndarray, labels: np.ndarray) -> Any:
        nothing = np.zeros((len(source), source.shape[1] - 1), "int32")
        return self.inputs(source, target), np.concatenate([nothing, labels], axis=1)


def tiny(**options: Any) -> GPT:
    return TestGPT().make_random(**options)


def logits_of(model: GPT, tokens: np.ndarray) -> np.ndarray:
    return array(model({"tokens": np.asarray(tokens, "int32")}))


SIZES = {
    ("gpt_base", 40478): 117e6,
    ("gpt2_small", 50257): 124e6,
    ("gpt2_medium", 50257): 355e6,
    ("gpt2_large", 50257): 774e6,
    ("gpt2_xl", 50257): 1558e6,
}


@pytest.mark.parametrize("case", mark_others_full(SIZES), ids=lambda case: case[0])
def test_parameter_counts_equal_the_released_models(case: tuple[str, int]) -> None:
    name, vocabulary = case
    total = count_parameters(GPT, PRESETS.get(name)()[1], vocabulary_size=vocabulary)
    assert total == pytest.approx(SIZES[case], rel=0.01)


def test_embeddings_and_layers_are_initialized_as_released() -> None:
    model = GPT(vocabulary_size=500, embedding_dim=64, units=16, num_heads=2, num_layers=1)
    for table in (model.token_embedding.embeddings, model.positions.table):
        assert array(table).std() == pytest.approx(0.02, rel=0.05)
    layer = model.decoder[0].get_config()
    assert (layer["activation"], layer["epsilon"], layer["norm_first"]) == ("gelu_tanh", 1e-5, True)
    assert not [v for v in model.variables if 500 in v.shape][1:], "the vocabulary is tied"


TEXT = np.array([[2, 5, 6, 7, 8, 9], [2, 9, 8, 5, 0, 0], [2, 4, 0, 0, 0, 0]], "int32")


POSITION_NAMES = ["learned", "none", *POSITIONS.names()]


@pytest.mark.parametrize("positions", POSITION_NAMES)
@pytest.mark.parametrize("length", [1, 5])
def test_later_tokens_do_not_affect_logits(length: int, positions: str) -> None:
    """Bit by bit, for other later tokens or none."""
    model, text = (
        tiny(positions=positions),
        np.random.default_rng(1).integers(4, 12, size=(3, 9)).astype("int32"),
    )
    before = logits_of(model, text)
    for later in (np.roll(text, 1, axis=0), np.full_like(text, END), np.zeros_like(text)):
        changed = np.concatenate([text[:, :length], later[:, length:]], axis=1)
        np.testing.assert_array_equal(logits_of(model, changed)[:, :length], before[:, :length])


@pytest.mark.every_backend
@pytest.mark.parametrize("positions", POSITION_NAMES)
@pytest.mark.parametrize("where", ["left", "right", "between"])
def test_padding_at_any_position_does_not_affect_outputs(where: str, positions: str) -> None:
    model, valid = tiny(positions=positions), TEXT != 0
    expected = logits_of(model, TEXT)
    for row, length in enumerate(valid.sum(1)):
        locations = {
            "left": np.arange(11 - length, 11),
            "right": np.arange(length),
            "between": np.arange(0, 2 * length, 2),
        }[where]
        spread = np.zeros((1, 11 + 2), "int32")
        spread[0, locations] = TEXT[row, :length]
        close(logits_of(model, spread)[0, locations], expected[row, :length], 1e-5)


def test_too_many_tokens_are_rejected() -> None:
    model = tiny(max_length=5)
    assert np.isfinite(logits_of(model, TEXT[:, :5])).all()
    with pytest.raises(ValueError, match=r"tokens exceeds max_length=5\. Truncate"):
        logits_of(model, TEXT)


@pytest.mark.parametrize("positions", POSITIONS.names())
def test_order_matters_with_relative_positions(positions: str) -> None:
    """With one layer, in which the causal mask alone gives the last token no order."""
    first, reordered = np.array([[4, 5, 6]], "int32"), np.array([[5, 4, 6]], "int32")
    model = tiny(num_layers=1, positions=positions)
    difference = np.abs(logits_of(model, first)[0, -1] - logits_of(model, reordered)[0, -1]).max()
    assert difference > 1e-3
    assert model.positions is None
    blind = tiny(num_layers=1, positions="none")
    close(logits_of(blind, first)[0, -1], logits_of(blind, reordered)[0, -1], 1e-6)


@pytest.mark.full
@pytest.mark.every_backend
@pytest.mark.parametrize("positions", POSITION_NAMES[1:])
def test_positions_in_half_precision_and_small_sizes(positions: str) -> None:
    model = tiny(positions=positions, dtype="mixed_float16")
    assert np.isfinite(logits_of(model, TEXT)).all()
    assert keras.backend.standardize_dtype(model({"tokens": TEXT}).dtype) == "float16"
    run = any_batch(lambda tokens: model({"tokens": tokens}))
    for sizes in ((0, 4), (1, 1), (2, 3)):
        assert run(np.full(sizes, 4, "int32")).shape == (*sizes, 12)
    nobody = logits_of(model, np.zeros((2, 3), "int32"))
    assert np.isfinite(nobody).all()


WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"beam_width": 3, "n_best": 3, "length_penalty": "gnmt"},
    "samples": {"method": "sampling", "beam_width": 3, "n_best": 3, "top_p": 0.9, "seed": 3},
    "diverse": {"method": "diverse_beam", "beam_width": 4, "groups": 2, "n_best": 2},
    "contrast": {"method": "contrastive", "candidates": 3},
    "rules": {"beam_width": 2, "min_length": 3, "no_repeat_ngram": 2, "banned_tokens": (5,)},
}


def get_marks(positions: str) -> list[pytest.MarkDecorator]:
    """Positions whose bias depends on the step are always tested."""
    return [pytest.mark.every_backend if positions in ("rotary", "t5") else pytest.mark.soak]


@pytest.mark.full
@pytest.mark.parametrize(
    ("way", "positions"),
    [
        *((way, "learned") for way in ("greedy", "beam", "samples")),
        *(
            pytest.param(way, "learned", marks=pytest.mark.soak)
            for way in ("diverse", "contrast", "rules")
        ),
        *(pytest.param("beam", name, marks=get_marks(name)) for name in POSITION_NAMES[1:]),
    ],
)
def test_continues_prompts_of_any_length(way: str, positions: str) -> None:
    """Results do not depend on batch and padding, and one call equals the single steps."""
    model = tiny(positions=positions)
    options = {"max_length": 6, **WAYS[way]}
    together = model.compiled_search(TEXT, **options)
    for rank in range(together.tokens.shape[1]):
        check_hypotheses(model, together, rank, TEXT, options.get("length_penalty", "none"))
    left = np.zeros((3, 8), "int32")
    for row, length in enumerate((TEXT != 0).sum(1)):
        left[row, 8 - length :] = TEXT[row, :length]
    padded = model.compiled_search(left, **options)
    np.testing.assert_array_equal(array(padded.tokens), array(together.tokens))
    close(array(padded.scores), array(together.scores), 1e-5)
    single = model.compiled_search(TEXT[1:2, TEXT[1] != 0], **options)
    np.testing.assert_array_equal(array(single.tokens)[0], array(together.tokens)[1])
    close(array(single.scores)[0], array(together.scores)[1], 1e-5)


@pytest.mark.full
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_empty_prompt_starts_with_the_start_token(positions: str) -> None:
    model = tiny(positions=positions)
    prompts = np.array([[0, 0], [2, 0]], "int32")
    result = model.compiled_search(prompts, max_length=4, beam_width=2, n_best=2)
    np.testing.assert_array_equal(array(result.tokens)[0], array(result.tokens)[1])


@pytest.mark.full
def test_prefix_follows_the_prompt() -> None:
    model = tiny()
    prefix = np.array([[7, 8], [9, 0], [0, 0]], "int32")
    result = model.compiled_search(TEXT, prefix=prefix, max_length=5)
    read = model.compiled_search(np.array([[2, 5, 6, 7, 8, 9, 7, 8]], "int32"), max_length=3)
    assert array(result.tokens)[0, 0].tolist() == [7, 8, *array(read.tokens)[0, 0].tolist()]
    assert array(result.tokens)[1, 0, 0] == 9


def test_prompt_cache_is_not_repeated_per_hypothesis() -> None:
    """The cache of the prompt does not depend on the number of hypotheses."""
    model = tiny()
    for width in (1, 4):
        state = model.start_decoding(keras.ops.convert_to_tensor(TEXT), width, 5).state
        for keys, values in state["cache"].value:
            size = 6 + (5 * width if JAX else 0)  # elsewhere, the cache grows
            assert keys.shape == (3, 2, 4, size)
            assert values.shape == (3, 2, size, 4)


@pytest.mark.full
@pytest.mark.parametrize("case", [TestGPT, test_transformer.TestTransformer])
@pytest.mark.parametrize("jit", [False, True])
def test_cache_buckets_do_not_change_results(
    jit: bool, case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = case().make_random()
    options = {"beam_width": 3, "n_best": 2, "min_length": 9, "max_length": 11, "jit": jit}
    expected = model.compiled_search(SOURCE, **options)
    monkeypatch.setattr(kv_cache.call_in_bucket, "__defaults__", ((2, 4),))
    model.__dict__.pop("_compiled")
    result = model.compiled_search(SOURCE, **options)
    np.testing.assert_array_equal(array(result.tokens), array(expected.tokens))
    np.testing.assert_allclose(array(result.scores), array(expected.scores), rtol=1e-5)
    assert (expected.attention is None) == (case is TestGPT)
    if expected.attention is not None:
        np.testing.assert_allclose(array(result.attention), array(expected.attention), atol=1e-5)


@pytest.mark.full
def test_text_length_is_limited_by_max_length() -> None:
    """The last generated token is not an input, so it needs no position."""
    model = tiny(max_length=9)
    options = {"beam_width": 2, "min_length": 4}
    result = model.compiled_search(TEXT, max_length=4, **options)
    assert np.isfinite(array(result.scores)).all()
    assert np.isfinite(array(result.token_scores)).all()
    message = r"a prompt has 6 tokens and its continuation may have 5, .* has max_length=9. .*to a"
    for search in (model.search, model.compiled_search):
        for jit in (False, True):
            with pytest.raises(ValueError, match=f"{message}t most 4.$"):
                search(TEXT, max_length=5, jit=jit, **options)
    padded = np.concatenate([np.zeros((3, 8), "int32"), TEXT], axis=1)
    repeated = model.compiled_search(padded, max_length=4, **options)
    np.testing.assert_array_equal(array(repeated.tokens), array(result.tokens))


@pytest.mark.full
@pytest.mark.parametrize("jit", [False, True])
def test_default_limit_is_the_number_of_positions_left(jit: bool) -> None:
    """For each prompt, whatever the others; the last generated token needs no position."""
    model = tiny(max_length=9)
    lengths = (TEXT != 0).sum(axis=1)
    options = {"beam_width": 2, "banned_tokens": (3,), "jit": jit}
    result = model.compiled_search(TEXT, **options)
    assert array(result.lengths)[:, 0].tolist() == (10 - np.maximum(lengths, 1)).tolist()
    for row in range(len(TEXT)):
        (alone,) = array(model.compiled_search(TEXT[row : row + 1], **options).tokens)
        steps = 10 - max(lengths[row], 1)
        np.testing.assert_array_equal(array(result.tokens)[row, :, :steps], alone[:, :steps])
    message = f"a prompt has {lengths.max()} tokens and its continuation must have 5, "
    with pytest.raises(ValueError, match=message):
        model.compiled_search(TEXT, min_length=5)


@pytest.mark.parametrize("options", [{"coverage_penalty": 0.5}, {"replace_unknown": True}], ids=str)
def test_search_options_that_need_attention_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{min(options)} needs attention, but step returns"):
        tiny().search(TEXT, **options)


@pytest.mark.full
def test_ensemble_continues_prompts() -> None:
    model = tiny()
    both = az.models.Ensemble([model, model])
    options = {"max_length": 5, "beam_width": 2}
    result, expected = both.compiled_search(TEXT, **options), model.compiled_search(TEXT, **options)
    np.testing.assert_array_equal(array(result.tokens), array(expected.tokens))
    with pytest.raises(ValueError, match="but the model has max_length=256"):
        both.compiled_search(TEXT, max_length=300)


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="export is of TensorFlow")
def test_logits_can_be_exported(tmp_path: Path) -> None:
    import tensorflow as tf

    model = tiny()
    signature = [{"tokens": keras.InputSpec(shape=(None, None), dtype="int32")}]
    model.export(tmp_path / "logits", input_signature=signature, verbose=False)
    served = tf.saved_model.load(str(tmp_path / "logits"))
    for text in (TEXT, TEXT[:1, :2]):
        close(array(served.serve({"tokens": text})), logits_of(model, text), 1e-6)


@refuses(
    ({"num_heads": 3}, "num_heads must divide embedding_dim, got num_heads=3, embedding_dim=8"),
    ({"positions": "rotari"}, "unknown positions 'rotari'; did you mean 'rotary'"),
    ({"layer": {"nrm": "rms"}}, "layer has no option 'nrm'; did you mean 'norm'"),
    ({"max_length": 0}, "max_length must be at least 1, got 0"),
    ({"num_layers": 1.5}, "num_layers must be an integer"),
)
def test_invalid_sizes_are_rejected(options: dict) -> None:
    tiny(**options)

"""Attribution: known scores of linear models, completeness, layouts, and models left unchanged."""

from __future__ import annotations

import doctest
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from attention_zoo import models
from attention_zoo.inspection import attribution, attribution_targets, generation_attribution
from attention_zoo.inspection.attribution import attribute
from attention_zoo.inspection.attribution_targets import (
    class_log_probability,
    class_logit,
    tag_emission,
    tag_log_marginal,
    token_log_probability,
)
from attention_zoo.inspection.generation_attribution import attribute_generation

TABLE = np.array([[0, 0], [1, -1], [2, 5], [-3, 4], [0.5, 6]], "float32")
TOKENS = np.array([[2, 3, 4, 0], [4, 0, 0, 0]], "int32")
GRADIENT_METHODS = ("integrated_gradients", "gradient_x_input")


class Sum(layers.Layer):
    """Sum over positions."""

    def call(self, x: Any) -> Any:
        return ops.sum(x, axis=1)


class Linear(keras.Model):
    """Subclassed model: the sum of the embeddings, one feature for each class."""

    def __init__(self, mask_zero: bool = False) -> None:
        super().__init__()
        self.embedding = layers.Embedding(5, 2, mask_zero=mask_zero)
        self.embedding.build()
        self.embedding.set_weights([TABLE])

    def call(self, tokens: Any) -> Any:
        return ops.sum(self.embedding(tokens), axis=1)


def make_functional() -> keras.Model:
    tokens = keras.Input((None,), name="tokens")  # float32, as Keras's default
    embedding = layers.Embedding(5, 2)
    model = keras.Model(tokens, Sum()(embedding(tokens)))
    embedding.set_weights([TABLE])
    return model


def make_lstm() -> keras.Model:
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(9, 4, mask_zero=True)(tokens)
    return keras.Model(tokens, layers.Dense(3)(layers.LSTM(5)(x)))


def make_translator() -> Any:
    return models.RNNSearch(9, 8, embedding_dim=4, units=4, dropout=0.0)


def get_state(model: Any) -> list[tuple[int, set[str]]]:
    """Attribute names of all layers."""
    return [(id(layer), set(vars(layer))) for layer in model._flatten_layers()]


@pytest.mark.parametrize("make", [Linear, make_functional])
@pytest.mark.parametrize("method", GRADIENT_METHODS)
def test_gradients_of_linear_model(make: Any, method: str) -> None:
    result = attribute(make(), TOKENS, target=1, method=method, steps=3)
    np.testing.assert_allclose(result.scores, [[5, 4, 6, 0], [6, 0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(result.output, [15, 6], atol=1e-6)
    np.testing.assert_allclose(result.total, [15, 6], atol=1e-6)
    np.testing.assert_array_equal(result.tokens, TOKENS)
    assert result.method == method


def test_occlusion_of_linear_model() -> None:
    result = attribute(Linear(), TOKENS, lambda y: y[:, 1], "occlusion", batch_size=3)
    # the unknown token adds -1
    np.testing.assert_allclose(result.scores, [[6, 5, 7, 0], [7, 0, 0, 0]], atol=1e-6)
    assert result.baseline_output is None
    assert result.completeness_error is None
    result = attribute(Linear(), TOKENS, 1, "occlusion", baseline=0)
    np.testing.assert_allclose(result.scores, [[5, 4, 6, 0], [6, 0, 0, 0]], atol=1e-6)


def test_occlusion_of_words() -> None:
    words = np.array([[0, 0, 7, -1], [2, -1, -1, -1]])
    result = attribute(Linear(), TOKENS, 1, "occlusion", baseline=0, word_ids=words)
    np.testing.assert_allclose(result.scores, [[9, 9, 6, 0], [6, 0, 0, 0]], atol=1e-6)


def test_baseline_of_a_token() -> None:
    result = attribute(Linear(), TOKENS, 1, baseline=3)
    np.testing.assert_allclose(result.scores, [[1, 0, 2, 0], [2, 0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(result.baseline_output, [12, 4], atol=1e-6)


def test_masked_positions_keep_their_embedding() -> None:
    mask = np.array([[True, False, True, True], [False] * 4])
    result = attribute(Linear(), TOKENS, 1, mask=mask)
    np.testing.assert_allclose(result.scores, [[5, 0, 6, 0], [0] * 4], atol=1e-6)
    np.testing.assert_allclose(result.baseline_output, [4, 6], atol=1e-6)
    np.testing.assert_array_equal(result.completeness_error < 1e-6, True)
    result = attribute(Linear(), TOKENS, 1, "occlusion", baseline=0, mask=mask)
    np.testing.assert_allclose(result.scores, [[5, 0, 6, 0], [0] * 4], atol=1e-6)


def test_no_padding() -> None:
    model = Linear()
    model.embedding.set_weights([TABLE + 1])
    result = attribute(model, TOKENS, 0, "gradient_x_input", padding_id=None)
    np.testing.assert_allclose(result.scores, [[3, -2, 1.5, 1], [1.5, 1, 1, 1]], atol=1e-6)


def test_quadratic_by_hand() -> None:
    """F = (sum of x)^2: integrated gradients are x_t sum(x), gradient times input is twice that."""
    x = np.array([[1.0, 2.0, -4.0]], "float32")
    model = keras.Sequential([layers.Dense(1, kernel_initializer="ones")])
    scores = [
        attribute(model, x, lambda y: y[:, 0] ** 2, method, steps=2, batch_size=1).scores
        for method in (*GRADIENT_METHODS, "occlusion")
    ]
    np.testing.assert_allclose(scores[0], [[-1, -2, 4]], atol=1e-5)
    np.testing.assert_allclose(scores[1], [[-2, -4, 8]], atol=1e-5)
    np.testing.assert_allclose(scores[2], [[1 - 4, 1 - 9, 1 - 9]], atol=1e-5)


def test_midpoint_rule() -> None:
    """F = x^3 with one step: the gradient at 1/2."""
    model = keras.Sequential([layers.Dense(1, kernel_initializer="ones")])
    result = attribute(model, np.array([[2.0]], "float32"), lambda y: y[:, 0] ** 3, steps=1)
    np.testing.assert_allclose(result.scores, [[6.0]], atol=1e-5)
    np.testing.assert_allclose(result.completeness_error, [0.25], atol=1e-6)


def test_steps_increase_until_complete() -> None:
    """The derivative of F = relu(x - 1.7) is 0 on 85 % of the path to x = 2.

    It is 1 at 5 of 32, 14 of 96 and 43 of 288 midpoints: errors of 4.2, 2.8 and 0.5 %.
    """
    model = keras.Sequential([layers.Dense(1, kernel_initializer="ones")])
    x = np.array([[2.0]], "float32")
    result = attribute(model, x, lambda y: ops.relu(y[:, 0] - 1.7))
    assert result.steps == 288
    np.testing.assert_allclose(
        result.completeness_error, [0.15 / 0.15 - 43 / 288 / 0.15], rtol=1e-2
    )
    few = attribute(model, x, lambda y: ops.relu(y[:, 0] - 1.7), steps=32)
    assert few.steps == 32
    np.testing.assert_allclose(few.completeness_error, [5 / 32 / 0.15 - 1], rtol=1e-2)


def test_tripled_steps_equal_those_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = make_lstm(), np.array([[5, 3, 8]])
    expected = attribute(model, tokens, 1, steps=9).scores
    for name, value in {"MIN_STEPS": 3, "MAX_STEPS": 9, "TOLERANCE": 0.0, "ROUNDING": 0.0}.items():
        monkeypatch.setattr(attribution, name, value)
    result = attribute(model, tokens, 1)
    assert result.steps == 9
    np.testing.assert_allclose(result.scores, expected, rtol=1e-4, atol=1e-7)


def test_completeness_of_lstm() -> None:
    model, tokens = make_lstm(), np.array([[5, 3, 8, 2], [7, 1, 0, 0]])
    model.set_weights([3 * x for x in model.get_weights()])
    result = attribute(model, tokens, class_log_probability([1, 2]))
    assert result.completeness_error.max() < 0.01
    assert np.abs(result.output - result.baseline_output).min() > 1e-3
    expected = keras.ops.log_softmax(model(tokens))
    np.testing.assert_allclose(result.output, [expected[0, 1], expected[1, 2]], rtol=1e-5)
    np.testing.assert_array_equal(result.scores[1, 2:], 0)
    assert (result.scores[tokens != 0] != 0).all()


def test_scores_do_not_depend_on_batch_size() -> None:
    model, tokens = make_lstm(), np.array([[5, 3, 8], [7, 1, 0]])
    for method in ("integrated_gradients", "occlusion"):
        one, many = (
            attribute(model, tokens, [1, 2][1], method, steps=6, batch_size=size).scores
            for size in (1, 64)
        )
        np.testing.assert_allclose(one, many, atol=1e-6)


def test_translator() -> None:
    model = make_translator()
    random = np.random.default_rng(0)
    model.set_weights([0.5 * random.standard_normal(x.shape) for x in model.get_weights()])
    inputs = {"source": np.array([[4, 5, 3], [6, 3, 0]]), "target": np.array([[2, 5], [2, 7]])}
    target = token_log_probability(1, [6, 3])
    result = attribute(model, inputs, target)
    assert result.completeness_error.max() < 0.01
    logits = ops.log_softmax(model(inputs))
    np.testing.assert_allclose(result.output, [logits[0, 1, 6], logits[1, 1, 3]], rtol=1e-5)
    assert result.scores[1, 2] == 0
    assert np.abs(result.output - result.baseline_output).min() > 1
    assert (result.scores != 0).sum() == 5


def test_prefix_of_translator() -> None:
    inputs = {"source": np.array([[4, 5]]), "target": np.array([[2, 5, 6]])}
    target = token_log_probability(1, 6)
    options: dict[str, Any] = {"input_name": "target", "method": "gradient_x_input"}
    result = attribute(make_translator(), inputs, target, **options)
    np.testing.assert_array_equal(result.tokens, inputs["target"])
    np.testing.assert_array_equal(result.scores != 0, [[True, True, False]])


def test_generation() -> None:
    model = models.AttentionSummarizer(9, embedding_dim=4, units=4, source_dim=4, context=2)
    source = np.array([[4, 5], [6, 0]])
    results = attribute_generation(model, source, np.array([[5, 6], [7, 0]]), "gradient_x_input")
    inputs = {"source": source, "target": np.array([[2, 5], [2, 7]])}
    one = attribute(model, inputs, token_log_probability(1, [6, 3]), "gradient_x_input")
    np.testing.assert_allclose(results[1].scores[0], one.scores[0], atol=1e-6)
    np.testing.assert_array_equal(results[1].scores[1], 0)
    assert results[0].scores[1, 0] != 0
    with pytest.raises(
        ValueError, match=r"output_ids must be integers \(B, T\), got .* shape \(2,\)"
    ):
        attribute_generation(model, source, [5, 6])


def make_matcher() -> Any:
    return models.DecomposableAttention(9, ["no", "yes"], embedding_dim=4, units=16)


@pytest.mark.parametrize(("name", "call"), [("first", 0), ("second", 1)])
def test_shared_embedding_of_a_pair(name: str, call: int) -> None:
    model = make_matcher()
    inputs = {"first": np.array([[4, 0, 5]]), "second": np.array([[6, 7]])}
    result = attribute(model, inputs, 1, "gradient_x_input", input_name=name)
    np.testing.assert_array_equal(result.tokens, inputs[name])
    np.testing.assert_array_equal(result.scores != 0, inputs[name] != 0)
    given = attribute(
        model,
        inputs,
        1,
        "gradient_x_input",
        embedding=model.token_embedding,
        call=call,
        input_name=name,
    )
    np.testing.assert_array_equal(given.scores, result.scores)


def test_equal_texts_of_a_pair() -> None:
    inputs = dict.fromkeys(("first", "second"), np.array([[6, 7]]))
    with pytest.raises(ValueError, match=r"2 candidates; .*\(call 0\), .*\(call 1\)\. Pass"):
        attribute(make_matcher(), inputs, 1, input_name="second")


BERT = {
    "vocabulary_size": 20,
    "embedding_dim": 4,
    "num_layers": 1,
    "num_heads": 2,
    "units": 4,
    "max_length": 12,
}


def test_joined_texts_of_a_pair() -> None:
    model = models.PairClassifier(BERT, start_token=2, end_token=3, classes=["no", "yes"])
    inputs = {"first": np.array([[5, 6, 0]]), "second": np.array([[7, 8]])}
    result = attribute(model, inputs, 1, "gradient_x_input", input_name="first")
    np.testing.assert_array_equal(result.tokens, [[2, 5, 6, 3, 7, 8, 3, 0]])
    np.testing.assert_array_equal(result.scores != 0, result.tokens != 0)
    occluded = attribute(model, inputs, 1, "occlusion", input_name="first")
    np.testing.assert_array_equal(occluded.scores != 0, inputs["first"] != 0)


def test_windows() -> None:
    """Each window repeats the first token."""
    model = models.TransformerClassifier(BERT, ["no", "yes"], window=3)
    tokens = np.array([[2, 5, 6, 7, 8], [2, 5, 6, 0, 0]])
    result = attribute(model, {"tokens": tokens}, 1, "gradient_x_input")
    np.testing.assert_array_equal(result.tokens, [[2, 5, 6, 2, 7, 8], [2, 5, 6, 0, 0, 0]])
    np.testing.assert_array_equal(result.scores != 0, result.tokens != 0)


@pytest.mark.parametrize("method", attribution.METHODS)
def test_padding_anywhere(method: str) -> None:
    """Our models move padding to the end before they embed; scores stay in the input's layout."""
    model = models.RecurrentClassifier(9, ["a", "b"], embedding_dim=4, units=4, dropout=0.0)
    tokens = np.array([[0, 4, 0, 5, 6], [4, 5, 6, 0, 0]])
    scores = attribute(model, {"tokens": tokens}, 1, method, steps=2).scores
    np.testing.assert_allclose(scores[0, [1, 3, 4]], scores[1, :3], atol=1e-6)
    np.testing.assert_array_equal(scores == 0, tokens == 0)


@pytest.mark.parametrize("method", ["gradient_x_input", "occlusion"])
def test_document(method: str) -> None:
    model = models.HierarchicalAttentionNetwork(9, ["a", "b"], 4, units=4, attention_units=4)
    tokens = np.array([[[4, 0, 5], [0, 0, 0], [6, 7, 8]]])
    result = attribute(model, {"tokens": tokens}, 0, method, mask=tokens != 7)
    np.testing.assert_array_equal(result.scores != 0, (tokens != 0) & (tokens != 7))


def make_tagger(head: str) -> Any:
    return models.RecurrentTagger(9, ["A", "B"], 4, units=4, head={"kind": head})


def test_emission_of_tagger() -> None:
    tokens = np.array([[4, 5, 6], [7, 8, 0]])
    target = tag_emission([2, 0], 1)
    result = attribute(make_tagger("crf"), {"tokens": tokens}, target, "gradient_x_input")
    np.testing.assert_array_equal(result.scores != 0, tokens != 0)


@pytest.mark.parametrize("head", ["softmax", "crf"])
def test_marginal_of_tagger(head: str) -> None:
    model, inputs = make_tagger(head), {"tokens": np.array([[4, 5], [7, 0]])}
    result = attribute(model, inputs, tag_log_marginal(0, [0, 1]), steps=4)
    expected = np.log(ops.convert_to_numpy(model.marginals(model(inputs)))[[0, 1], 0, [0, 1]])
    np.testing.assert_allclose(result.output, expected, rtol=1e-5)
    assert result.completeness_error.max() < 0.01


def test_captioner() -> None:
    model = models.ShowAttendTell(
        9, embedding_dim=4, units=4, encoder={"kind": "cnn", "filters": [8]}
    )
    image = np.random.default_rng(0).integers(0, 255, (1, 8, 6, 3)).astype("uint8")
    model({"image": image, "target": np.array([[2]])})
    before = get_state(model)
    (pixels,) = attribute_generation(model, image, np.array([[4]]), "gradient_x_input")
    assert pixels.scores.shape == (1, 8, 6)
    assert pixels.tokens is None
    assert get_state(model) == before
    assert model.get_input_signature()["image"].dtype == "uint8"
    regions = np.repeat(np.repeat(np.arange(4).reshape(1, 2, 2), 4, axis=1), 3, axis=2)
    (cells,) = attribute_generation(model, image, np.array([[4]]), "occlusion", word_ids=regions)
    assert len(np.unique(cells.scores)) == 4
    (grid,) = attribute_generation(model, image, np.array([[4]]), steps=4, embedding=model.encoder)
    assert grid.scores.shape == (1, 4, 3)


@pytest.mark.parametrize("make", [Linear, make_lstm, make_translator])
@pytest.mark.parametrize("method", attribution.METHODS)
def test_model_is_unchanged(make: Any, method: str) -> None:
    model = make()
    inputs: Any = np.array([[4, 3]])
    if make is make_translator:
        inputs = {"source": inputs, "target": np.array([[2]])}
    before, state = ops.convert_to_numpy(model(inputs)), get_state(model)

    def fail(outputs: Any) -> Any:
        raise RuntimeError("stop")

    target = token_log_probability(0, 3) if make is make_translator else class_logit(0)
    attribute(model, inputs, target, method, steps=1)
    with pytest.raises(RuntimeError, match="stop"):
        attribute(model, inputs, fail, method)
    assert get_state(model) == state
    np.testing.assert_array_equal(ops.convert_to_numpy(model(inputs)), before)


def test_layer_without_other_calls() -> None:
    """Embeddings of positions are not attributed; a layer can be given."""
    tokens = keras.Input((3,), dtype="int32")
    position = layers.Embedding(3, 2)(ops.arange(3) + 0 * tokens)
    embedding = layers.Embedding(5, 2)
    model = keras.Model(tokens, Sum()(embedding(tokens) + position))
    embedding.set_weights([TABLE])
    result = attribute(model, TOKENS[:, :3], 1, "gradient_x_input")
    np.testing.assert_allclose(result.scores, [[5, 4, 6], [6, 0, 0]], atol=1e-6)
    given = attribute(model, TOKENS[:, :3], 1, "gradient_x_input", embedding=embedding)
    np.testing.assert_array_equal(given.scores, result.scores)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lime"}, "method must be one of .*got 'lime'"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"target": 2}, "class must be in 0..1, got 2"),
        ({"target": "1"}, "target, unless it is a function, must be an integer"),
        ({"target": lambda y: y}, r"target must return .* \(2,\), got shape \(2, 2\)"),
        ({"target": lambda y: y[:, 0] / 0}, "target must be finite, got -inf for example 0"),
        ({"input_name": "source"}, "input_name must be None .*got 'source'"),
        ({"mask": [[True]]}, r"mask must have the shape of the scores, \(2, 4\), got \(1, 1\)"),
        ({"baseline": 9}, "baseline, a token id, must be at most 4, got 9"),
        ({"baseline": [1.0, 2.0, 3.0]}, r"baseline must be None .*shape \(2, 4, 2\), got \[1"),
        ({"method": "gradient_x_input", "baseline": 1}, "baseline must be None for"),
        ({"word_ids": TOKENS}, "word_ids must be None for integrated_gradients"),
        ({"method": "occlusion", "word_ids": TOKENS + 0.5}, "word_ids must be integers"),
        ({"embedding": layers.Embedding(2, 2)}, "embedding must be a layer that the model calls"),
        ({"call": 1}, "got 0 candidates; calls of embedding layers: embedding"),
        ({"inputs": [TOKENS, TOKENS[:1]]}, r"one number of examples, at least 1, got \[1, 2\]"),
        ({"inputs": {"a": TOKENS, "b": TOKENS}}, "input_name must be one of a, b, .*got None"),
        ({"model": np.sum}, "model must be a Keras model or layer, got"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"model": Linear(), "inputs": TOKENS, "target": 1, **options}
    with pytest.raises(ValueError, match=message):
        attribute(**arguments)


@pytest.mark.parametrize(
    ("target", "shape", "message"),
    [
        (class_logit(0), (2, 3, 4), r"needs logits of 2 axes, got shape \(2, 3, 4\)"),
        (class_logit([0, 1, 2]), (2, 3), r"class must be an index or one for each of 2 examples"),
        (class_log_probability(-1), (2, 3), r"class must be in 0\.\.2, got -1"),
        (token_log_probability(3, 0), (2, 3, 4), r"position must be in 0\.\.2, got 3"),
        (token_log_probability(0, [1, 4]), (2, 3, 4), r"token must be in 0\.\.3, got 4"),
    ],
)
def test_bad_targets(target: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        target(np.zeros(shape, "float32"))


def test_class_log_probability() -> None:
    logits = np.array([[0.0, np.log(3.0)], [1.0, 0.0]], "float32")
    actual = class_log_probability([1, 0])(logits)
    np.testing.assert_allclose(actual, np.log([0.75, np.e / (1 + np.e)]), rtol=1e-5)
    actual = class_log_probability(1, multi_label=True)(logits)
    np.testing.assert_allclose(actual, np.log([0.75, 0.5]), rtol=1e-5)


def test_ids_outside_the_vocabulary() -> None:
    """Copied words have ids beyond the vocabulary and the embedding of the unknown token."""
    model = models.PointerGenerator(9, embedding_dim=4, units=4, copies=3)
    inputs = {"source": np.array([[4, 9, 5]]), "target": np.array([[2]])}
    result = attribute(model, inputs, token_log_probability(0, 9), "gradient_x_input")
    np.testing.assert_array_equal(result.tokens, inputs["source"])
    assert np.abs(result.scores).min() > 0


@pytest.mark.parametrize("module", [attribution, attribution_targets, generation_attribution])
def test_examples(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 4
    assert result.failed == 0

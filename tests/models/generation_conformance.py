"""Conformance of generation models, with the depth of their presets and small widths.

    class TestRNNSearch(GenerationConformance):
        covers = RNNSearch
        options = {"units": 8, ...}      # a tiny model
        changed = {"units": 10, ...}     # every constructor argument, changed

Presets are found automatically and take the applicable values of `options`. For a language
model, the source is the prompt and the target its continuation: see `make_text`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
from keras import ops

import attention_zoo as az
from attention_zoo.decoding import SearchResult
from attention_zoo.decoding.step import mark_in_place
from attention_zoo.models.presets import PRESETS
from tests.layers.running import JAX, any_batch, array, close, differentiable, quick, randomise
from tests.models.model_conformance import ModelConformance, assert_every_weight_changes
from tests.tiers import FULL, mark_full

SOURCE = np.array([[4, 5, 6, 7, 8, 9], [9, 8, 7, 0, 0, 0], [5, 0, 0, 0, 0, 0]], "int32")
TARGET = np.array([[2, 4, 5, 6, 7], [2, 8, 9, 0, 0], [2, 0, 0, 0, 0]], "int32")
VOCABULARY = {"source_vocabulary_size": 11, "target_vocabulary_size": 12}
PAD, START, END = 0, 2, 3
STACK = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 2}  # a tiny Transformer
OTHER_STACK = {
    "embedding_dim": 6,
    "units": 12,
    "num_heads": 4,
    "num_layers": 2,
    "layer": {"activation": "swiglu", "norm": "rms", "norm_first": False},
    "dropout": 0.25,
}
LENGTH = 7 if FULL or JAX else 2  # max_length of searches, which are eager in the fast tier


def presets_of(cls: type) -> list[str]:
    return [name for name in PRESETS.names() if PRESETS.get(name)()[0] is cls]


def pytest_generate_presets(metafunc: pytest.Metafunc) -> None:
    """Run a test with the argument `preset` for every preset of its model.

    With the argument `searched`, the first runs in the fast tier. Presets of more than two layers,
    except the shallowest, run in the soak tier: the tests of their steps cover searches too.
    """
    if not {"preset", "searched"} & set(metafunc.fixturenames):
        return
    names = presets_of(metafunc.cls.covers)
    if "preset" in metafunc.fixturenames:
        metafunc.parametrize("preset", [pytest.param(name, marks=tier(name)) for name in names])
        return
    most = max(2, min(map(depth, names)))
    soak = [name for name in names if depth(name) > most]
    first = next(name for name in names if name not in soak)
    marks = {name: pytest.mark.soak if name in soak else pytest.mark.full for name in names}
    marks[first] = ()
    metafunc.parametrize("searched", [pytest.param(name, marks=marks[name]) for name in names])


def depth(preset: str) -> int:
    layers: int = PRESETS.get(preset)()[1].get("num_layers", 1)
    return layers


def tier(preset: str) -> list[pytest.MarkDecorator]:
    if depth(preset) <= 6:
        return [pytest.mark.full] * (depth(preset) > 2)
    return [pytest.mark.slow if depth(preset) <= 12 else pytest.mark.soak]


@functools.cache
def build_preset(
    preset: str, sizes: tuple[tuple[str, int], ...], fill: Callable[[Any], None]
) -> Any:
    """Build a preset with its depth, small widths and random weights."""
    model = az.models.from_preset(preset, **dict(sizes))
    fill(model)
    return model


def make_text(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Join source (or start token, if empty) and target to one text `(B, S + T - 1)`.

    There is padding between them if the source is short, and the start token of the target is
    left out: its first token follows the last one of the source.
    """
    first = source.copy()
    first[~source.any(1), :1] = START
    return np.concatenate([first, target[:, 1:]], axis=1)


def make_images(source: np.ndarray) -> np.ndarray:
    """Return images `(B, 8, 8 S, 3)` that show the tokens of sources `(B, S)` as squares."""
    squares = np.kron(source, np.ones((8, 8), "int64")).reshape(len(source), 8, 8 * source.shape[1])
    return (squares[..., None] * [20, 12, 5] % 256).astype("uint8")


def to_model_inputs(model: Any, source: np.ndarray) -> Any:
    """Convert sources to the inputs of a model."""
    inputs = make_images(source) if isinstance(model, az.models.Captioner) else source
    return ops.convert_to_tensor(inputs)


def forward(model: Any, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    if isinstance(model, az.models.GPT):
        text, width = make_text(source, target), source.shape[1]
        logits = array(quick(lambda t: model({"tokens": t}))(ops.convert_to_tensor(text)))
        last = width - 1 - (text[:, :width] != PAD)[:, ::-1].argmax(1)
        return np.concatenate([logits[range(len(text)), last][:, None], logits[:, width:]], 1)
    name = getattr(model, "source_name", "source")
    run = quick(lambda s, t: model({name: s, "target": t}, training=False))
    return array(run(to_model_inputs(model, source), ops.convert_to_tensor(target)))


def teacher_forced(
    model: Any, source: np.ndarray, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return log probabilities of tokens, `(B, L, V)`, and attention weights, if any."""
    start = np.full((len(tokens), 1), START, "int32")
    target = np.concatenate([start, tokens[:, :-1]], axis=1)
    logits = forward(model, source, target)
    logits[..., [PAD, START]] = -np.inf
    top = logits.max(-1, keepdims=True)
    log_probs = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    if isinstance(model, az.models.CopyingMixin):
        trace = model.compiled_trace if FULL or JAX else model.trace
        return log_probs, np.asarray(trace(source, tokens).attention)
    if isinstance(model, az.models.Transformer):
        memory = model.encode(ops.convert_to_tensor(source))
        arguments = ops.convert_to_tensor(target), memory, ops.convert_to_tensor(source)
        output = model.decode(*arguments, return_attention_scores=True)
        return log_probs, array(output.weights).mean(1)
    if isinstance(model, az.models.CaptionTransformer):
        memory = model.encode(to_model_inputs(model, source))
        mask = ops.ones(memory.shape[:2], "int32")
        arguments = ops.convert_to_tensor(target), memory, mask
        output = model.transformer.decode(*arguments, return_attention_scores=True)
        return log_probs, array(output.weights).mean(1)
    if isinstance(model, az.models.GPT) or not model.decoder.cell.attentions:
        return log_probs, None
    encoded = model.encode(to_model_inputs(model, source), False)
    constants, state = model.prepare_decoder(encoded, len(source))
    embedded = model.target_embedding(target)
    inputs = model.decoder_inputs(embedded, encoded)
    record, _ = model.decoder.unroll(inputs, constants, state, None, ("weights",))
    return log_probs, array(record["weights"][0])


def one_hypothesis(state: Any) -> Any:
    """Add the axis of hypotheses of a search to a state, except to parts that are not reordered."""
    leaves = [
        leaf if stays else ops.expand_dims(leaf, 1)
        for leaf, stays in zip(keras.tree.flatten(state), mark_in_place(state), strict=True)
    ]
    return keras.tree.pack_sequence_as(state, leaves)


class GenerationConformance(ModelConformance):
    """A generation model. A case defines `covers`, `options` and `changed`."""

    vocabulary: ClassVar[dict[str, int]] = VOCABULARY
    rate: ClassVar[float] = 0.02
    half: ClassVar[str] = "float16"
    """Dtype of outputs under a half precision policy: log probabilities stay in float32."""

    @staticmethod
    def fill(model: Any) -> None:
        """Set random weights with which inputs have a clear effect on outputs."""
        randomise(model, scale=0.4)

    def padded(self, source: np.ndarray, none: np.ndarray) -> np.ndarray:
        """Return sources padded on the right."""
        return np.concatenate([source, none], 1)

    def tokens_of(self, source: np.ndarray) -> np.ndarray:
        """Return the padding mask of a source `(S,)`: False at padding."""
        return source != 0

    def make(self, **options: Any) -> Any:
        return self.covers(**{**self.vocabulary, **self.options, **options})

    def inputs(self, source: np.ndarray = SOURCE, target: np.ndarray = TARGET) -> Any:
        """Return the inputs of a call."""
        return {"source": source, "target": target}

    def loss(self, model: Any, label_smoothing: float) -> keras.losses.Loss:
        """Return the training loss."""
        return az.losses.SequenceCrossEntropy(label_smoothing)

    def training_data(self, source: np.ndarray, target: np.ndarray, labels: np.ndarray) -> Any:
        """Return inputs and labels for training."""
        return self.inputs(source, target), labels

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        labels = np.concatenate([TARGET[:, 1:], np.zeros((len(TARGET), 1), "int32")], 1)
        return *self.training_data(SOURCE, TARGET, labels), self.loss(model, 0.0)

    def make_preset(self, preset: str) -> Any:
        sizes = {k: v for k, v in self.options.items() if isinstance(v, int) and k != "num_layers"}
        return build_preset(preset, tuple(sorted({**sizes, **self.vocabulary}.items())), self.fill)

    def search(self, model: Any, source: np.ndarray = SOURCE, **options: Any) -> SearchResult:
        """Run a search, eager in the fast tier and compiled in the full one."""
        run = model.compiled_search if FULL or JAX else model.search
        result = run(to_model_inputs(model, source), **{"max_length": LENGTH, **options})
        return SearchResult(*(None if x is None else np.asarray(x) for x in result))

    # at the depth of every preset

    def test_padding_does_not_affect_outputs(self, preset: str) -> None:
        model = self.make_preset(preset)
        expected = forward(model, SOURCE, TARGET)
        for pads in (100,) if JAX else (1, 8, 100) if FULL else (8,):
            none = np.zeros((len(SOURCE), pads), "int32")
            padded = self.padded(SOURCE, none), np.concatenate([TARGET, none], 1)
            got = forward(model, *padded)[:, : TARGET.shape[1]]
            close(got[TARGET != 0], expected[TARGET != 0], 1e-5)

    def test_batch_members_do_not_affect_each_other(self, preset: str) -> None:
        model = self.make_preset(preset)
        together = forward(model, SOURCE, TARGET)
        for row in range(len(SOURCE)):
            source_mask, target_mask = self.tokens_of(SOURCE[row]), TARGET[row] != 0
            single = forward(
                model, SOURCE[row : row + 1, source_mask], TARGET[row : row + 1, target_mask]
            )
            close(single[0], together[row, target_mask], 1e-5)

    @pytest.mark.every_backend
    def test_steps_equal_the_call(self, preset: str) -> None:
        """Single steps from the state, as in a search, equal the teacher-forced pass."""
        model = self.make_preset(preset)
        expected = forward(model, SOURCE, TARGET)

        def steps(source: Any, target: Any) -> Any:
            reading = model.start_decoding(source, 1, TARGET.shape[1])
            state, logits = one_hypothesis(reading.state), []
            start = ops.broadcast_to(reading.start, (len(SOURCE),))[:, None]
            for t in range(TARGET.shape[1]):
                output = reading.step(target[:, t : t + 1] if t else start, state)
                state = output.state
                logits.append(output.logits[:, 0])
            return ops.stack(logits, axis=1)

        got = array(quick(steps)(to_model_inputs(model, SOURCE), ops.convert_to_tensor(TARGET)))
        assert np.isneginf(got[..., [PAD, START]]).all()
        got[..., [PAD, START]] = expected[..., [PAD, START]]
        close(got[TARGET != 0], expected[TARGET != 0], 1e-5)

    @pytest.mark.numerics
    def test_loss_is_computed_without_logits(self) -> None:
        """The loss from unprojected outputs equals that from logits, including gradients."""
        model = self.make()
        loss = self.loss(model, 0.1)
        self.fill(model)
        labels = np.where(TARGET != 0, np.maximum(np.roll(TARGET, -1, axis=1), END), 0)
        inputs, labels = self.training_data(SOURCE, TARGET, labels)
        inputs = {name: ops.convert_to_tensor(value) for name, value in inputs.items()}

        def total(labels: Any) -> Any:
            return loss.total(labels, model(inputs, project=False))

        def by_logits(labels: Any) -> Any:
            return loss(labels, model(inputs)) * loss.count(labels)

        got, want = (differentiable(model, of)(labels) for of in (total, by_logits))
        close(got[0], want[0], 1e-5)
        scale = max(np.abs(expected).max() for expected in want[2])
        for gradient, expected in zip(got[2], want[2], strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5 * scale)

    def test_later_tokens_do_not_affect_outputs(self, preset: str) -> None:
        model = self.make_preset(preset)
        changed = TARGET.copy()
        changed[0, 3:] = 11
        before, after = forward(model, SOURCE, TARGET), forward(model, SOURCE, changed)
        np.testing.assert_array_equal(after[:, :3], before[:, :3])
        assert np.abs(after[0, 3] - before[0, 3]).max() > 1e-4

    def test_greedy_search_takes_the_best_token(self, searched: str) -> None:
        model = self.make_preset(searched) if FULL else self.make_random()
        result = self.search(model)
        best = check_hypotheses(model, result, 0).argmax(-1)
        for tokens, length, expected in zip(
            result.tokens[:, 0], result.lengths[:, 0], best, strict=True
        ):
            assert tokens[:length].tolist() == expected[:length].tolist()

    def test_beam_search_returns_attention_of_each_hypothesis(self, searched: str) -> None:
        model = self.make_preset(searched) if FULL else self.make_random()
        result = self.search(model, beam_width=3, n_best=2)
        assert result.tokens.shape[:2] == (len(SOURCE), 2)
        assert result.lengths.max() <= result.tokens.shape[2] <= LENGTH
        assert (np.diff(result.scores, axis=1) <= 0).all()
        for rank in (0, 1) if FULL else (1,):
            check_hypotheses(model, result, rank)
        if FULL:
            greedy = self.search(model)
            assert (result.scores[:, 0] >= greedy.scores[:, 0] - 1e-4).all()

    # small and unusual inputs

    @pytest.mark.numerics
    @pytest.mark.parametrize(
        "sizes", [mark_full((0, 4, 3)), (2, 1, 1), (2, 4, 1), (2, 1, 3)], ids=str
    )
    def test_small_sizes(self, sizes: tuple[int, int, int]) -> None:
        batch, sources, steps = sizes
        model = self.make()
        source = np.full((batch, sources), 4, "int32")
        target = np.full((batch, steps), 2, "int32")
        inputs, labels = self.training_data(source, target, target)

        def run(*arguments: Any) -> Any:
            return model(dict(zip(inputs, arguments, strict=True)))

        tensors = map(ops.convert_to_tensor, inputs.values())
        logits = array((any_batch(run) if FULL or not batch else run)(*tensors))
        assert logits.shape == (*labels.shape, model.target_vocabulary_size)
        assert np.isfinite(logits).all()

    @pytest.mark.numerics
    def test_source_of_padding_only(self) -> None:
        model = self.make()
        source, target = SOURCE.copy(), TARGET.copy()
        source[1], target[2] = 0, 0
        assert np.isfinite(forward(model, source, target)).all()
        for options in ({}, {"beam_width": 2}):
            result = self.search(model, source, max_length=4 if FULL else 2, **options)
            assert np.isfinite(result.scores).all()
            for row in range(3):
                check_row(
                    result.tokens[row, 0], int(result.lengths[row, 0]), result.finished[row, 0]
                )
            if result.attention is not None and not self.tokens_of(source[1]).any():
                assert not result.attention[1].any()

    def test_too_small_vocabulary_is_rejected(self) -> None:
        name = list(self.vocabulary)[-1]
        with pytest.raises(ValueError, match=rf"{name} must be at least 5 .*got 4"):
            self.make(**{name: 4})

    # training

    @pytest.mark.full
    @pytest.mark.numerics
    def test_learns(self) -> None:
        self.train_to_reverse()

    def train_to_reverse(
        self, epochs: int = 12, **options: Any
    ) -> tuple[Any, np.ndarray, Any, Any]:
        """Train a model with `compile` and `fit` to reverse sequences; return it and the data."""
        rng = np.random.default_rng(0)
        words = rng.integers(4, 9, size=(256, 3)).astype("int32")
        target = np.concatenate([np.full((256, 1), START), words[:, ::-1]], 1).astype("int32")
        labels = np.concatenate([words[:, ::-1], np.full((256, 1), END)], 1).astype("int32")
        model = self.make(units=24, embedding_dim=12, dropout=0.0, **options)
        model.compile(
            optimizer=keras.optimizers.Adam(self.rate), loss=self.loss(model, 0.0), jit_compile=JAX
        )
        data, labels = self.training_data(words, target, labels)
        untrained = model.evaluate(data, labels, batch_size=32, verbose=0)
        history = model.fit(
            data, labels, batch_size=32, epochs=epochs, shuffle=False, verbose=0
        ).history["loss"]
        assert untrained > 1.2
        assert history[-1] < 0.5 * history[0]
        assert np.isfinite(history).all()
        return model, words, target, labels

    @pytest.mark.full
    @pytest.mark.every_backend
    def test_trains_compiled(self) -> None:
        model = self.make(dropout=0.2)
        model.compile(optimizer="adam", loss=self.loss(model, 0.1), jit_compile=True)
        inputs, labels, _ = self.training_examples(model)
        with assert_every_weight_changes(model):
            assert np.isfinite(model.train_on_batch(inputs, labels))

    @pytest.mark.full
    @pytest.mark.parametrize("own", [False, True])
    def test_mixed_precision(self, own: bool) -> None:
        model = self.with_policy("mixed_float16", own)
        logits = model(self.inputs())
        assert keras.backend.standardize_dtype(logits.dtype) == self.half
        assert np.isfinite(array(logits)).all()
        result = self.search(model, beam_width=2, max_length=3)
        assert np.isfinite(result.scores).all()


def check_hypotheses(
    model: Any, result: SearchResult, rank: int, source: np.ndarray = SOURCE, penalty: str = "none"
) -> np.ndarray:
    """Compare scores and attention of the hypotheses of a rank with a teacher-forced pass.

    Returns:
        The log probabilities `(B, L, V)` of the teacher-forced pass.
    """
    tokens = array(result.tokens)[:, rank]
    log_probs, attention_weights = teacher_forced(model, source, tokens)
    for row, n in enumerate(array(result.lengths)[:, rank].astype(int)):
        check_row(tokens[row], n, array(result.finished)[row, rank])
        scores = log_probs[row, range(n), tokens[row, :n]]
        close(array(result.token_scores)[row, rank, :n], scores, 1e-4)
        if penalty == "none":
            assert array(result.scores)[row, rank] == pytest.approx(scores.sum(), rel=1e-4)
        if attention_weights is not None:
            close(array(result.attention)[row, rank, :n], attention_weights[row, :n], 1e-4)
    return log_probs


def check_row(tokens: np.ndarray, length: int, finished: bool) -> None:
    """Check for real tokens, the end token last if finished, then padding."""
    target_mask, rest = tokens[:length].tolist(), tokens[length:].tolist()
    assert not {PAD, START} & set(target_mask)
    assert set(rest) <= {PAD}
    assert target_mask.index(END) + 1 == length if finished else END not in target_mask

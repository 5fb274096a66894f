"""Pointer-generator: a summarizer that copies source words (See, Liu, Manning 2017)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import keras
from keras import layers, ops

from attention_zoo.decoding import StepOutput
from attention_zoo.layers import AttentionRegularizer, CoverageAttention, Memory, RecurrentEncoder
from attention_zoo.layers.quantization import get_float_kernel
from attention_zoo.layers.recurrent.cell_steps import make_stepper
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.generation import PAD, DecoderStart, mask_special_tokens
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import (
    Config,
    add_presets,
    check_options,
    collect_arguments,
    register_model,
)
from attention_zoo.models.summarization.copying import CopyingMixin, DecoderOutput
from attention_zoo.ops import Projection, copied_log_probs, number, project, scan, whole_number
from attention_zoo.typing import Tensor


class StepConstants(NamedTuple):
    """Inputs of a step that are the same at every step.

    memory: encoder outputs prepared for attention. kernels: kernels of the LSTM cell.
    use_coverage: 1.0 if coverage is enabled in this step, else 0.0; None for a model without
    coverage.
    """

    memory: Memory
    kernels: tuple[Tensor, ...]
    use_coverage: Tensor | None


class State(NamedTuple):
    """Decoder state: h and c of the cell, the context, and the attention's coverage."""

    cell: tuple[Tensor, Tensor]
    context: Tensor
    attention_state: Any


class StepResult(NamedTuple):
    """Outputs of a step.

    merged: x, input of the LSTM cell. state: [h; c]. context: h*. weights: attention weights.
    """

    merged: Tensor
    state: Tensor
    context: Tensor
    weights: Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class PointerGenerator(CopyingMixin, PrebuiltModel):
    """Bidirectional LSTM encoder and LSTM decoder that attends, then generates or copies.

    `x_t = W_m [E[y_{t-1}]; h*_{t-1}]`, `h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1})`,
    `h*_t = attend([h_t; c_t])`, `z_t = ([h_t; h*_t] W_1 + b_1) W_2 + b_2`,
    `P(w) = p_gen softmax(z_t)_w + (1 - p_gen) copied_t(w)`

    Args:
        vocabulary_size: V, shared by source and target, including the 4 special tokens.
        embedding_dim: width of the shared embedding.
        units: hidden units of the decoder and of each encoder direction.
        copies: C, maximum number of distinct out-of-vocabulary words of a source that can be
            copied; they have the ids V .. V + C - 1. With 0, nothing is copied.
        coverage: None, or a dictionary with "from_step" (default 0), the first training step that
            uses coverage (the sum of the previous attention weights), and "weight" (default 1.0),
            the weight of the coverage loss.
        dropout: dropout rate on embeddings and readout.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; `target` begins with the start
            token (2).
        training: enables dropout, adds the coverage loss and advances the step counter of the
            coverage.
        project: if False, return an `ops.CopyProjection`, from which the loss computes the log
            probabilities.

    Returns:
        Log probabilities `(B, T, V + C)` of the tokens after each target token, in float32; logits
        `(B, T, V)` with `copies=0`.

    Masking:
        Padding (0) in source or target does not affect other positions.

    Reference:
        See et al. 2017, arXiv 1704.04368, section 2 and equations 1 to 13, with the authors' code:
        attention and gate use both h and c of the decoder, W_m projects the decoder's input, and
        the gate uses x_t. The coverage kernel w_c is initialized to 0, so that enabling coverage
        does not change the attention weights at first.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int = 128,
        units: int = 256,
        copies: int = 100,
        coverage: Config | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        coverage = None if coverage is None else complete_coverage_options(coverage)
        self.init_settings(collect_arguments(locals()))
        common = {"dtype": self.dtype_policy}
        self.embedding = layers.Embedding(vocabulary_size, embedding_dim, **common)
        self.encoder = RecurrentEncoder("lstm", 2 * units, bidirectional=True, **common)
        self.bridges = [layers.Dense(units, "relu", **common) for _ in range(2)]
        self.merge = layers.Dense(embedding_dim, **common)
        self.cell = layers.LSTMCell(units, **common)
        self.attention = CoverageAttention(2 * units, **common)
        self.readout = layers.Dense(units, **common)
        self.vocabulary = layers.Dense(vocabulary_size, **common)
        self.head = self.make_copy_head()
        self.drop = Dropout(dropout, **common)
        self.switch: CoverageSwitch | None = None
        if coverage is not None:
            self.switch = CoverageSwitch(coverage["from_step"], **common)
            self.penalty = AttentionRegularizer("coverage", coverage["weight"], **common)
        self.build()

    def build_layers(self) -> None:
        width, units = self.settings["embedding_dim"], self.settings["units"]
        self.embedding.build((None, None))
        self.encoder.build((None, None, width))
        for bridge in self.bridges:
            bridge.build((None, 2 * units))
        self.merge.build((None, width + 2 * units))
        self.cell.build((None, width))
        self.attention.build((None, 1, 2 * units), (None, None, 2 * units))
        w_c = self.attention.score.coverage_kernel
        w_c.assign(ops.zeros(w_c.shape))
        w_c.trainable = self.switch is not None
        self.readout.build((None, 3 * units))
        self.vocabulary.build((None, units))
        if self.head is not None:
            self.head.build((None, 2 * units), (None, 2 * units), (None, width))
        if self.switch is not None:
            self.switch.build()

    def decode_teacher_forced(
        self, source: Tensor, target: Tensor, training: bool = False
    ) -> DecoderOutput:
        constants, state = self._encode(source, training)
        embedded = self.embedding(self.to_vocabulary_ids(target))
        hoisted = self._hoist(self.drop(embedded, training=training))
        mask = ops.not_equal(target, PAD)
        steps = {"hoisted": ops.swapaxes(hoisted, 0, 1), "mask": ops.transpose(mask)[..., None]}

        # `scan` expects (state, outputs), in this order.
        def step(state: State, step_inputs: dict[str, Tensor]) -> tuple[State, StepResult]:
            results, next_state = self._step(step_inputs["hoisted"], state, constants, training)
            select = partial(ops.where, step_inputs["mask"])
            return keras.tree.map_structure(select, next_state, state), results

        _, results = scan(step, state, steps, like=self._make_zero_results(hoisted, constants))
        results = keras.tree.map_structure(
            lambda x: ops.where(mask[..., None], ops.swapaxes(x, 0, 1), ops.zeros((), x.dtype)),
            results,
        )
        if training and constants.use_coverage is not None:
            use_coverage = ops.cast(constants.use_coverage, results.weights.dtype)
            self.penalty(use_coverage * results.weights, mask, ops.not_equal(source, PAD))
        hidden = self.drop(self._compute_readout(results), training=training)
        projection = Projection(hidden, get_float_kernel(self.vocabulary), self.vocabulary.bias)
        return DecoderOutput(projection, results.weights, self._gate(results))

    def _encode(self, source: Tensor, training: bool) -> tuple[StepConstants, State]:
        """Encode the source; return the constant inputs of a step and the initial state."""
        mask = ops.not_equal(source, PAD)
        embedded = self.drop(self.embedding(self.to_vocabulary_ids(source)), training=training)
        values, final_states = self.encoder(embedded, mask=mask, training=training)
        h, c = (bridge(state) for bridge, state in zip(self.bridges, final_states, strict=True))
        memory = self.attention.prepare(values, value_mask=mask)
        use_coverage = None if self.switch is None else self.switch.advance(training)
        attention_state = () if use_coverage is None else self.attention.initial_state(memory)
        context = ops.zeros((ops.shape(source)[0], values.shape[-1]), self.compute_dtype)
        kernels = self._stepper(training).kernels(self.compute_dtype)
        return StepConstants(memory, kernels, use_coverage), State((h, c), context, attention_state)

    def _stepper(self, training: bool) -> Any:
        return make_stepper(self.cell, self.settings["embedding_dim"], training)

    def _hoist(self, embedded: Tensor) -> Tensor:
        """Return the embedding's part of `W_m [E[y]; h*]`, computed for all steps at once."""
        kernel = ops.cast(get_float_kernel(self.merge), embedded.dtype)[: embedded.shape[-1]]
        return project(embedded, kernel) + ops.cast(self.merge.bias, embedded.dtype)

    def _step(
        self, hoisted: Tensor, state: State, constants: StepConstants, training: bool = False
    ) -> tuple[StepResult, State]:
        """Run one decoder step: `(B, ...)`, or `(B, N, ...)` for N hypotheses."""
        kernel = ops.cast(get_float_kernel(self.merge), hoisted.dtype)[hoisted.shape[-1] :]
        x = hoisted + project(state.context, kernel)
        stepper, attention_state = self._stepper(training), state.attention_state
        _, (h, c) = stepper.step(stepper.hoist(x), [], state.cell, constants.kernels)
        s = ops.concatenate([h, c], axis=-1)
        if constants.use_coverage is not None:
            attention_state = keras.tree.map_structure(
                lambda coverage: ops.cast(constants.use_coverage, coverage.dtype) * coverage,
                attention_state,
            )
        attended = self.attention.attend(s, constants.memory, attention_state)
        context, weights, attention_state = attended
        return StepResult(x, s, context, weights), State((h, c), context, attention_state)

    def _make_zero_results(self, hoisted: Tensor, constants: StepConstants) -> StepResult:
        """Return zeros of the shapes of one step's outputs."""
        batch, width = ops.shape(hoisted)[0], 2 * self.settings["units"]
        weights_shape = ops.shape(self.attention.weights_like(constants.memory))
        shapes = ((batch, hoisted.shape[-1]), (batch, width), (batch, width), weights_shape)
        return StepResult(*(ops.zeros(shape, self.compute_dtype) for shape in shapes))

    def _compute_readout(self, results: StepResult) -> Tensor:
        """Return the readout `[h; h*] W_1 + b_1`."""
        h = results.state[..., : self.settings["units"]]
        return self.readout(ops.concatenate([h, results.context], axis=-1))

    def _gate(self, results: StepResult) -> Tensor | None:
        if self.head is None:
            return None
        return self.head.gate(results.context, results.state, results.merged)

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode `source (B, S)` once and return the decoder's step function and initial state."""
        constants, state = self._encode(source, False)

        def step(tokens: Tensor, state: State) -> StepOutput:
            hoisted = self._hoist(self.embedding(self.to_vocabulary_ids(tokens)))
            results, state = self._step(hoisted, state, constants)
            hidden, gate = self._compute_readout(results), self._gate(results)
            logits = self.vocabulary(hidden)
            if gate is not None:
                logits = copied_log_probs(logits, gate, results.weights, source, self.copies)
            return StepOutput(mask_special_tokens(logits), state, results.weights, hidden)

        return DecoderStart(step, state)


class CoverageSwitch(keras.layers.Layer):
    """Switch that enables coverage from a training step on.

    It counts the training steps; `advance` returns 0.0 before `from_step` and 1.0 from then on. At
    inference, coverage is enabled if training has reached that step.

    Args:
        from_step: first step with coverage, counted from 0.
    """

    def __init__(self, from_step: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.from_step = from_step

    def build(self) -> None:
        self.steps = self.add_weight(
            shape=(), initializer="zeros", dtype="int", trainable=False, name="steps"
        )
        self.built = True

    def advance(self, training: bool) -> Tensor:
        """Return 1.0 if coverage is enabled in this call, else 0.0; count steps in training."""
        is_enabled = ops.cast(self.steps >= self.from_step, "float32")
        if training:
            self.steps.assign_add(1)
        return is_enabled

    def load_own_variables(self, store: Any) -> None:
        """Load the count; it stays 0 for a model that was trained without coverage."""
        if store.keys():
            super().load_own_variables(store)


def complete_coverage_options(value: Any) -> Config:
    """Return the coverage options with defaults filled in; raise ValueError for invalid ones."""
    defaults = {"from_step": 0, "weight": 1.0}
    options = {**defaults, **check_options("coverage", value, defaults)}
    options["from_step"] = whole_number("coverage.from_step", options["from_step"], low=0)
    if not 0 <= number(options["weight"]) < float("inf"):
        raise ValueError(f"coverage.weight must be at least 0, got {options['weight']!r}")
    return options


# config

SMALL = Config(embedding_dim=128, units=128, copies=50, dropout=0.2)

add_presets(
    PointerGenerator,
    # The paper's sizes; coverage in the last 3000 of 233,000 steps; vocabulary 50,000.
    pointer_generator_base=Config(
        embedding_dim=128, units=256, copies=400, coverage={"from_step": 230_000, "weight": 1.0}
    ),
    # Sizes for small data and a CPU, without coverage, or with it from step 1000; not the paper's.
    pointer_generator_small=SMALL,
    pointer_generator_coverage_small=Config(**SMALL, coverage={"from_step": 1000, "weight": 1.0}),
)

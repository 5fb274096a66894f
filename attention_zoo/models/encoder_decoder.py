"""Base class of recurrent encoder-decoder models."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.decoding import StepOutput
from attention_zoo.layers import (
    CellConstants,
    CellState,
    RecurrentDecoder,
    ScheduledSampling,
    StepRecord,
)
from attention_zoo.layers.quantization import get_float_kernel
from attention_zoo.models.generation import (
    PAD,
    DecoderStart,
    GenerationMixin,
    check_vocabulary_size,
    mask_special_tokens,
)
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.ops import Projection
from attention_zoo.typing import Tensor


class Encoded(NamedTuple):
    """Encoder output, which `EncoderDecoder.encode` returns.

    memory: `(B, S, D)`, to which the decoder attends; None without attention. mask: `(B, S)`, True
    at source tokens; None if no position is padding. initial_state: initial state of the decoder, a
    list of tensors `(B, H)`, one per state of its cells; with `bridge`, one tensor of any width.
    vector: a single vector `(B, D)` for the whole source, if `decoder_inputs` or `readout` need it.
    """

    memory: Tensor | None
    mask: Tensor | None
    initial_state: Any
    vector: Tensor | None = None


class EncoderDecoder(GenerationMixin, PrebuiltModel):
    """Recurrent encoder-decoder: logits of the next token from the source and the prefix.

    Base class of translators. The constructor of a subclass takes `source_vocabulary_size` and
    `target_vocabulary_size`, passes `**kwargs` on to this class, and begins with
    `settings = collect_arguments(locals())`. It then creates the layers `source_embedding`,
    `target_embedding`, `decoder` (a `RecurrentDecoder`), `drop` (dropout of the embedded target)
    and `vocabulary` (a Dense layer with V units, without bias), and ends in
    `self.set_up(settings)`. A subclass defines

    - `build_layers`, which builds all layers by their input shapes;
    - `encode`, from the source to an `Encoded`;
    - `readout`, from the decoder's steps to the inputs of `vocabulary`. `readout_fields` names the
      fields of `layers.StepRecord` that it needs.

    It overrides `decoder_inputs` if the decoder takes more than the embedded target, and
    `add_auxiliary_losses` for further training losses. Token ids: 0 is padding, 1 unknown, 2 start,
    3 end.

    Args:
        sampling: a `ScheduledSampling`, or its schedule, which feeds the decoder some of its own
            predictions in training; None for teacher forcing.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: enables dropout and scheduled sampling.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)` of the tokens after each target token.

    Masking:
        Padding in source or target does not affect other positions.
    """

    source_embedding: keras.layers.Embedding
    target_embedding: keras.layers.Embedding
    decoder: RecurrentDecoder
    drop: keras.layers.Dropout
    vocabulary: keras.layers.Dense

    def __init__(self, sampling: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(sampling, dict) and "class_name" in sampling:
            sampling = keras.saving.deserialize_keras_object(sampling)
        is_layer = sampling is None or isinstance(sampling, ScheduledSampling)
        self.sampling = sampling if is_layer else ScheduledSampling(sampling)

    def set_up(self, settings: dict[str, Any]) -> None:
        """Store the constructor's arguments and build all weights."""
        for name in self.vocabulary_settings:
            check_vocabulary_size(name, settings[name])
            setattr(self, name, settings[name])
        self.settings = settings
        self.build()

    vocabulary_settings: tuple[str, ...] = ("source_vocabulary_size", "target_vocabulary_size")
    """The settings that are vocabulary sizes."""

    source_name = "source"
    """Key of the source in the inputs."""

    # layers

    def build_layers(self) -> None:
        """Build all layers; called once, by `set_up`."""
        raise TypeError(f"{type(self).__name__} does not define `build_layers`")

    def encode(self, source: Tensor, training: bool) -> Encoded:
        """Encode the source, token ids `(B, S)`, int32."""
        raise TypeError(f"{type(self).__name__} does not define `encode`")

    def decoder_inputs(self, embedded: Tensor, encoded: Encoded) -> Tensor:
        """Return the decoder's inputs `(B, T, E')`, by default the embedded target `(B, T, E)`."""
        return embedded

    def make_decoder_input_ids(self, target: Tensor, encoded: Encoded) -> Tensor:
        """Return the tokens that the decoder takes as input in training, `(B, T)`."""
        if self.sampling is None:
            return target
        constants, state = self.prepare_decoder(encoded, ops.shape(target)[0])

        def step(tokens: Tensor, state: CellState) -> tuple[Tensor, CellState]:
            logits, _, state = self._decode_step(tokens[:, None], state, constants, encoded)
            return logits[:, 0], state

        single_hypothesis = keras.tree.map_structure(lambda x: x[:, None], state)
        mask = ops.not_equal(target, PAD)
        return self.sampling(target, step=step, state=single_hypothesis, mask=mask, training=True)

    def readout(
        self, record: dict[str, Tensor], embedded: Tensor, encoded: Encoded, training: bool
    ) -> Tensor:
        """Return the inputs of the layer `vocabulary`, `(B, T, R)`.

        Args:
            record: the fields `readout_fields` of the decoder's T steps: "output", "hidden",
                "query" and "context" are `(B, T, ...)`, "weights" is a tuple of `(B, T, S)`. In a
                search, T counts the hypotheses of a source instead of the steps.
            embedded: the embedded target `(B, T, E)`.
            encoded: the encoder's output.
            training: enables dropout.
        """
        raise TypeError(f"{type(self).__name__} does not define `readout`")

    def add_auxiliary_losses(
        self, record: dict[str, Any], state: CellState, target: Tensor, projection: Projection
    ) -> None:
        """Add auxiliary losses over all time steps with `self.add_loss`; by default none.

        Args:
            record: see `readout`.
            state: final state of the decoder.
            target: `(B, T)`, the tokens before each step.
            projection: an `ops.Projection`, which computes the logits `(B, T, V)`.
        """

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        source = self.convert_source(inputs[self.source_name])
        target = ops.cast(inputs["target"], "int32")
        encoded = self.encode(source, bool(training))
        constants, state = self.prepare_decoder(encoded, ops.shape(source)[0], bool(training))
        decoder_ids = self.make_decoder_input_ids(target, encoded) if training else target
        embedded = self.drop(self.target_embedding(decoder_ids), training=training)
        inputs, mask = self.decoder_inputs(embedded, encoded), ops.not_equal(target, PAD)
        record, state = self.decoder.unroll(
            inputs, constants, state, mask, self.readout_fields, bool(training)
        )
        hidden = self.readout(record, embedded, encoded, bool(training))
        projection = Projection(hidden, get_float_kernel(self.vocabulary))
        if training:
            self.add_auxiliary_losses(record, state, target, projection)
        return self.vocabulary(hidden) if project else projection

    def prepare_decoder(
        self, encoded: Encoded, batch_size: Tensor, training: bool = False
    ) -> tuple[CellConstants, CellState]:
        """Return the decoder's prepared memories and its initial state."""
        memory, mask, initial_state, _ = encoded
        return self.decoder.start(memory, initial_state, mask, batch_size, training)

    readout_fields: tuple[str, ...] = ("output",)
    """The fields of `StepRecord` that `readout` needs."""

    def _decode_step(
        self, tokens: Tensor, state: CellState, constants: CellConstants, encoded: Encoded
    ) -> tuple[Tensor, StepRecord, CellState]:
        """Run one step; return logits `(B, N, V)` after tokens `(B, N)`, the record and the state.

        Padding and start have logit -inf.
        """
        embedded = self.target_embedding(tokens)
        inputs = self.decoder_inputs(embedded, encoded)
        record, state = self.decoder.step(inputs, state, constants)
        logits = self.vocabulary(self.readout(record._asdict(), embedded, encoded, False))
        return mask_special_tokens(logits), record, state

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode `source (B, S)` once and return the decoder's step function and initial state."""
        return self.make_decoder_start(self.encode(source, False), ops.shape(source)[0])

    def make_decoder_start(self, encoded: Encoded, batch_size: Tensor) -> DecoderStart:
        """Return the decoder's step function and initial state for encoded sources."""
        constants, state = self.prepare_decoder(encoded, batch_size)

        def step(tokens: Tensor, state: CellState) -> StepOutput:
            logits, record, state = self._decode_step(tokens, state, constants, encoded)
            weights = record.weights[0] if record.weights else None
            return StepOutput(logits, state, weights, record.hidden)

        return DecoderStart(step, state)

    # config

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.sampling is not None:
            config["sampling"] = keras.saving.serialize_keras_object(self.sampling)
        return config


def repeat_over_steps(vector: Tensor, like: Tensor) -> Tensor:
    """Repeat a vector `(B, D)` over the T steps of `like`; return `(B, T, D)`."""
    batch, steps = ops.shape(like)[:2]
    return ops.broadcast_to(vector[:, None, :], (batch, steps, vector.shape[-1]))

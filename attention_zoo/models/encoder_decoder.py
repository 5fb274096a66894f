"""What recurrent writers share: read, then write one token after the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.decoding import StepOutput
from attention_zoo.layers import (
    CellState,
    Prepared,
    RecurrentDecoder,
    ScheduledSampling,
    StepRecord,
)
from attention_zoo.models.generation import END, PAD, START, DecoderStart, GenerationMixin
from attention_zoo.models.presets import PresetMixin
from attention_zoo.ops import Projection

Tensor = Any


class Encoded(NamedTuple):
    """The source read: memory `(B, S, D)` or None, mask `(B, S)`, and what the decoder starts from.

    vector: one `(B, D)` for all of the source, where the model uses one.
    """

    memory: Tensor | None
    mask: Tensor
    initial_state: Any
    vector: Tensor | None = None


class EncoderDecoder(PresetMixin, GenerationMixin, keras.Model):
    """A translator: tokens of the source and of the target so far to logits of the next token.

    A model has a Dense layer `vocabulary` without bias and defines `encode` and `readout`,
    `decoder_inputs` where the decoder reads more than the last token, and `judge` where more is to
    be learnt than the next token. Its constructor ends in `self.finish(settings)`. Token ids: 0
    pads, 1 is unknown, 2 starts, 3 ends.

    Args:
        sampling: a `ScheduledSampling`, or its schedule (see there), to feed the decoder its own
            words now and then in training; None for teacher forcing.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: switches dropout and sampling on.
        project: False for the `ops.Projection` that the logits are of, in place of them.

    Returns:
        Logits `(B, T, V)` of the tokens after each target token.

    Masking:
        Padding in source or target changes nothing at the other positions.
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
        whole = sampling is None or isinstance(sampling, ScheduledSampling)
        self.sampling = sampling if whole else ScheduledSampling(sampling)

    def finish(self, settings: dict[str, Any]) -> None:
        """Keeps the constructor's arguments and builds all weights."""
        for name in self.vocabularies:
            if settings[name] < END + 2:
                raise ValueError(
                    f"{name} must be at least {END + 2} (4 special tokens and one more), "
                    f"got {settings[name]}"
                )
            setattr(self, name, settings[name])
        self.settings = settings
        self.build()

    projects = True  # `project=False` is known to the training step

    vocabularies: tuple[str, ...] = ("source_vocabulary_size", "target_vocabulary_size")
    """The settings that count tokens."""

    source_name = "source"
    """What the inputs call what is read."""

    # layers

    def encode(self, source: Tensor, training: bool) -> Encoded:
        """Reads the source `(B, S)`."""
        raise TypeError(f"{type(self).__name__} does not define `encode`")

    def decoder_inputs(self, embedded: Tensor, encoded: Encoded) -> Tensor:
        """What the decoder reads beside the embedded target `(B, T, E)`: nothing here."""
        return embedded

    def make_decoder_input_ids(self, target: Tensor, encoded: Encoded) -> Tensor:
        """The tokens that the decoder is fed in training, `(B, T)`."""
        if self.sampling is None:
            return target
        prepared, state = self.begin(encoded, ops.shape(target)[0])

        def step(tokens: Tensor, state: CellState) -> tuple[Tensor, CellState]:
            logits, _, state = self._decode_step(tokens[:, None], state, prepared, encoded)
            return logits[:, 0], state

        one = keras.tree.map_structure(lambda x: x[:, None], state)
        mask = ops.not_equal(target, PAD)
        return self.sampling(target, step=step, state=one, mask=mask, training=True)

    def readout(
        self, record: dict[str, Tensor], embedded: Tensor, encoded: Encoded, training: bool
    ) -> Tensor:
        """What the vocabulary layer reads of steps of the decoder, `(B, T, R)`."""
        raise TypeError(f"{type(self).__name__} does not define `readout`")

    def add_auxiliary_losses(
        self, record: dict[str, Any], state: CellState, target: Tensor, said: Projection
    ) -> None:
        """Adds to the loss what is amiss with all steps of training: nothing here."""

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        source = self.as_source(inputs[self.source_name])
        target = ops.cast(inputs["target"], "int32")
        encoded = self.encode(source, bool(training))
        prepared, state = self.begin(encoded, ops.shape(source)[0], bool(training))
        fed = self.make_decoder_input_ids(target, encoded) if training else target
        embedded = self.drop(self.target_embedding(fed), training=training)
        record, state = self.decoder.unroll(
            self.decoder_inputs(embedded, encoded),
            prepared,
            state,
            ops.not_equal(target, 0),
            self.reads,
            bool(training),
        )
        read = self.readout(record, embedded, encoded, bool(training))
        said = Projection(read, self.vocabulary.kernel)
        if training:
            self.add_auxiliary_losses(record, state, target, said)
        return self.vocabulary(read) if project else said

    def begin(
        self, encoded: Encoded, batch_size: Tensor, training: bool = False
    ) -> tuple[Prepared, CellState]:
        """What the decoder's steps read, and its state before the first one."""
        return self.decoder.start(
            encoded.memory, encoded.initial_state, encoded.mask, batch_size, training
        )

    reads: tuple[str, ...] = ("output",)
    """The fields of `StepRecord` that `readout` needs."""

    def _decode_step(
        self, tokens: Tensor, state: CellState, prepared: Prepared, encoded: Encoded
    ) -> tuple[Tensor, StepRecord, CellState]:
        """Logits `(B, N, V)` of what follows tokens `(B, N)`; padding and the start never do."""
        embedded = self.target_embedding(tokens)
        inputs = self.decoder_inputs(embedded, encoded)
        record, state = self.decoder.step(inputs, state, prepared)
        logits = self.vocabulary(self.readout(record._asdict(), embedded, encoded, False))
        known = ops.arange(self.target_vocabulary_size)
        never = ops.logical_or(known == PAD, known == START)
        return ops.where(never, ops.cast(float("-inf"), logits.dtype), logits), record, state

    def decoder_step(self, source: Tensor, width: int, room: Any) -> DecoderStart:
        """What a search needs to write targets of `source (B, S)`: the source read once."""
        return self.writing(self.encode(source, False), ops.shape(source)[0])

    def writing(self, encoded: Encoded, batch_size: Tensor) -> DecoderStart:
        """The same of sources that are read."""
        prepared, state = self.begin(encoded, batch_size)

        def step(tokens: Tensor, state: CellState) -> StepOutput:
            logits, record, state = self._decode_step(tokens, state, prepared, encoded)
            weights = record.weights[0] if record.weights else None
            return StepOutput(logits, state, weights, record.hidden)

        return DecoderStart(step, state)

    # config

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if self.sampling is not None:
            config["sampling"] = keras.saving.serialize_keras_object(self.sampling)
        return config


def over_steps(vector: Tensor, like: Tensor) -> Tensor:
    """`(B, D)` repeated to `(B, T, D)`, T that of `like`."""
    batch, steps = ops.shape(like)[:2]
    return ops.broadcast_to(vector[:, None, :], (batch, steps, vector.shape[-1]))


__all__ = ["END", "START", "Encoded", "EncoderDecoder", "StepRecord", "over_steps"]

"""Base class of models that can copy source words."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.layers import CopyHead
from attention_zoo.layers.attention.expected_lengths import (
    expect_long_sequences,
    expects_long_sequences,
)
from attention_zoo.layers.attention.steps import is_long_sequence
from attention_zoo.layers.attention.weights_hooks import has_weights_hooks
from attention_zoo.losses import CopyCrossEntropy, SequenceCrossEntropy
from attention_zoo.models.generation import PAD, START, GenerationMixin, check_vocabulary_size
from attention_zoo.ops import CopyProjection, Projection, copied_share
from attention_zoo.typing import Tensor

UNKNOWN = 1


class DecoderOutput(NamedTuple):
    """Decoder outputs of a target, before the vocabulary projection.

    projection: `ops.Projection` to the logits `(B, T, V)`. weights: attention weights of each step,
    `(B, T, S)`. gate: logit of p_gen, `(B, T)`; None if nothing is copied.
    """

    projection: Projection
    weights: Tensor
    gate: Tensor | None = None


class Trace(NamedTuple):
    """Attention and copy probabilities of generated tokens.

    attention: attention weights of the step that generated each token, `(B, T, S)`. copied:
    probability that each token was copied, not generated, `(B, T)`. Both are 0 after the end.
    """

    attention: Tensor
    copied: Tensor


class CopyingMixin(GenerationMixin):
    """Mixin for models that generate vocabulary words and, with `copies`, copy source words.

    Source words outside the vocabulary get ids beyond it: V for the first distinct one of a
    source, V + 1 for the next. Only the first C of a source get an id; the others are unknown, 1.
    Sources, targets and labels use these ids. With C = 0 there are none, and nothing is copied.

    A model inherits from `CopyingMixin` and `PrebuiltModel`, in this order. Its constructor takes
    `vocabulary_size` (V) and, to copy words, `copies` (C). It passes `**kwargs` on, begins with
    `self.init_settings(collect_arguments(locals()))`, sets `self.head` to `self.make_copy_head()`
    and ends in `self.build()`. A model defines

    - `build_layers`, which builds all layers by their input shapes;
    - `decode_teacher_forced`, from source and target to a `DecoderOutput`, for training;
    - `start_decoding`, from the source to a `DecoderStart`, for generation.

    `to_vocabulary_ids` replaces copied words by the unknown token before an embedding. Token ids: 0
    is padding, 1 unknown, 2 start, 3 end.
    """

    settings: dict[str, Any]
    head: CopyHead | None

    def init_settings(self, settings: dict[str, Any]) -> None:
        """Store the constructor's arguments: "vocabulary_size", and optionally "copies"."""
        check_vocabulary_size("vocabulary_size", settings["vocabulary_size"])
        self.settings = settings
        self.source_vocabulary_size = self.vocabulary_size + self.copies
        self.target_vocabulary_size = self.source_vocabulary_size

    def make_copy_head(self) -> CopyHead | None:
        """Return the layer that mixes generating and copying; None if nothing is copied."""
        common = {"dtype": self.dtype_policy}  # type: ignore[attr-defined]
        return CopyHead(self.copies, **common) if self.copies else None

    @property
    def vocabulary_size(self) -> int:
        """V, size of the vocabulary."""
        return int(self.settings["vocabulary_size"])

    @property
    def copies(self) -> int:
        """C, number of ids beyond the vocabulary; 0 if nothing is copied."""
        return int(self.settings.get("copies", 0))

    def to_vocabulary_ids(self, ids: Tensor) -> Tensor:
        """Replace ids beyond the vocabulary by the unknown token; return int32."""
        ids = ops.cast(ids, "int32")
        return ops.where(ids >= self.vocabulary_size, UNKNOWN, ids)

    def make_loss(self, label_smoothing: float = 0.0) -> keras.losses.Loss:
        """Return the training loss; raise ValueError for label smoothing with copying."""
        if not self.copies:
            return SequenceCrossEntropy(label_smoothing)
        if label_smoothing:
            raise ValueError(
                f"label_smoothing must be 0 for a model that copies words (copies={self.copies}), "
                f"got {label_smoothing}"
            )
        return CopyCrossEntropy()

    # computation

    def decode_teacher_forced(
        self, source: Tensor, target: Tensor, training: bool = False
    ) -> DecoderOutput:
        """Decode the target `(B, T)`, which begins with 2, with the source `(B, S)` as memory."""
        raise TypeError(f"{type(self).__name__} does not define `decode_teacher_forced`")

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        source = ops.cast(inputs["source"], "int32")
        target = ops.cast(inputs["target"], "int32")
        output = self.decode_teacher_forced(source, target, bool(training))
        if output.gate is None:
            return output.projection.logits() if project else output.projection
        projection = CopyProjection(output.projection, output.gate, output.weights, source)
        return projection.log_probs(self.copies) if project else projection

    def trace(self, source: Tensor, tokens: Tensor) -> Trace:
        """Return attention and copy probabilities of generated tokens, by decoding them again.

        Args:
            source: `(B, S)` integers, padded with 0.
            tokens: `(B, T)` integers generated by a search, including the end, padded with 0.
        """
        source, tokens = ops.cast(source, "int32"), ops.cast(tokens, "int32")
        start = ops.full((ops.shape(tokens)[0], 1), START, "int32")
        target = ops.concatenate([start, tokens], axis=1)[:, :-1]
        output = self.decode_teacher_forced(source, target)
        mask = ops.not_equal(tokens, PAD)
        weights = ops.where(mask[..., None], ops.cast(output.weights, "float32"), 0.0)
        if output.gate is None:
            return Trace(weights, ops.zeros(ops.shape(tokens), "float32"))
        logits = output.projection.logits()
        copied = copied_share(logits, output.gate, output.weights, source, tokens)
        return Trace(weights, ops.where(mask, ops.cast(copied, "float32"), 0.0))

    def compiled_trace(self, source: Tensor, tokens: Tensor) -> Trace:
        """Run `trace`, compiled once for all shapes (on JAX per shape); return NumPy arrays.

        Self-attention is blockwise if there are 2,048 source or target tokens or more; such inputs
        are compiled separately.
        """
        inputs = {"source": ops.cast(source, "int32"), "tokens": ops.cast(tokens, "int32")}
        is_long = is_long_sequence(max(x.shape[1] for x in inputs.values()))
        traces = self.__dict__.setdefault("_traces", _Traces())
        return Trace(**traces.get(self, is_long).predict_on_batch(inputs))


class _Traces:
    """Cache of compiled traces; a separate object, so that Keras does not track them."""

    def __init__(self) -> None:
        self.traces: dict[bool, _Trace] = {}

    def get(self, summarizer: CopyingMixin, expect_long: bool) -> _Trace:
        """Return the trace of short or of long inputs, a new one while weights are recorded."""
        if has_weights_hooks(summarizer):
            return _Trace(summarizer, expect_long)
        if expect_long not in self.traces:
            self.traces[expect_long] = _Trace(summarizer, expect_long)
        return self.traces[expect_long]


class _Trace(keras.Model):
    """`trace` as the call of a model, which is what Keras compiles on every backend."""

    def __init__(self, summarizer: CopyingMixin, expect_long: bool) -> None:
        super().__init__(name="trace", dtype="float32")
        self.summarizer, self.expect_long = summarizer, expect_long
        self.jit_compile = keras.backend.backend() != "tensorflow"

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        with expect_long_sequences(self.expect_long or expects_long_sequences()):
            return self.summarizer.trace(inputs["source"], inputs["tokens"])._asdict()

"""Ensemble of models with one vocabulary."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo.decoding import SearchOptions
from attention_zoo.decoding.ensemble import ensemble, mean_logits
from attention_zoo.models.generation import DecoderStart, GenerationMixin
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import register_model
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class Ensemble(GenerationMixin, PrebuiltModel):
    """Ensemble that averages its members' token probabilities.

    Formula:
        p(y_t | y_<t, x) = 1/M sum_m p_m(y_t | y_<t, x)

    Args:
        members: models of this library with the same vocabulary sizes, at least one.

    Call arguments:
        inputs: `{"source": (B, S), "target": (B, T)}`, integers; the target begins with 2.
        training: passed to the members.

    Returns:
        Log probabilities `(B, T, V)` of the tokens after each target token, usable as logits.

    Masking:
        Padding in source or target does not affect other positions.

    Raises:
        ValueError: no member, or members with different vocabulary sizes.
    """

    def __init__(self, members: Sequence[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not members:
            raise ValueError("members is empty: an ensemble needs at least one model")
        restore = keras.saving.deserialize_keras_object
        self.members = [restore(m) if isinstance(m, dict) else m for m in members]
        for side in ("source_vocabulary_size", "target_vocabulary_size"):
            sizes = sorted({getattr(member, side) for member in self.members})
            if len(sizes) > 1:
                raise ValueError(f"members differ in {side}: {sizes}; they must share it")
            setattr(self, side, sizes[0])
        self.build()

    @property
    def settings(self) -> dict[str, Any]:  # type: ignore[override]
        """The constructor's arguments as plain data."""
        return {"members": [keras.saving.serialize_keras_object(m) for m in self.members]}

    @property
    def input_specs(self) -> Any:
        return self.members[0].input_specs

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        return mean_logits([member(inputs, training=training) for member in self.members])

    def check_search(self, source: Tensor, options: SearchOptions) -> None:
        """Raise ValueError if a member rejects the sources or the options."""
        for member in self.members:
            member.check_search(source, options)

    def get_max_target_lengths(self, source_lengths: Tensor) -> Tensor | None:
        """Return the smallest limit of the members, `(B,)`, for source lengths `(B,)`.

        None for no limit.
        """
        limits = [member.get_max_target_lengths(source_lengths) for member in self.members]
        limits = [limit for limit in limits if limit is not None]
        return functools.reduce(ops.minimum, limits) if limits else None

    def start_decoding(self, source: Tensor, width: int, max_steps: Any) -> DecoderStart:
        """Encode `source (B, S)` with every member and return the joint step function and state."""
        starts = [member.start_decoding(source, width, max_steps) for member in self.members]
        step = ensemble([start.step for start in starts])
        return DecoderStart(step, tuple(start.state for start in starts), starts[0].start)

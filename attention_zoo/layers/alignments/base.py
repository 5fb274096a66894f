"""What every alignment is: where to look, given scores."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.registry import Registry

Tensor = Any
State = tuple[Tensor, ...]

ALIGNMENTS = Registry("alignment")


class Alignment(keras.layers.Layer):
    """One look: scores `(..., S)` to weights of that shape, exactly 0 where the mask hides.

    Rows are independent. An alignment that remembers earlier looks also defines `initial_state`,
    tensors `(..., S)` or `(..., 1)`; one that has weights of its own builds them in `build`.

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None.
        state: what the last look returned, or `initial_state`.
        training: whether noise and the like are on.

    Returns:
        Weights `(..., S)`, float32 at least, and the state after this look.

    Masking:
        Hidden positions weigh exactly 0; a row with nothing to attend is all 0.

    Reference:
        The `align` of Luong et al. 2015, arXiv 1508.04025, equation 7, as an axis of its own.
    """

    def build(self, scores_shape: tuple[int | None, ...]) -> None:
        """Alignments without weights need nothing here; others add weights."""
        self.built = True

    @property
    def remembers(self) -> bool:
        """Whether a look depends on the looks before it."""
        return type(self).initial_state is not Alignment.initial_state

    def initial_state(self, like: Tensor) -> State:
        """What the first look starts from, for scores of the shape of `like`; nothing here."""
        return ()

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        """Weights and the state after this look."""
        raise TypeError(f"{type(self).__name__} is a base class: an alignment defines `call`")

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Weights carry no mask: what is hidden is 0 in them."""
        return None

    def get_config(self) -> dict[str, Any]:
        """Written out, because Keras's automatic config does not serialize a dtype policy."""
        return {**super().get_config()}


def make_alignment(alignment: Any, dtype: Any = None) -> Alignment:
    """An alignment from its name, its config, or itself; ValueError for an unknown name."""
    if isinstance(alignment, dict):
        alignment = keras.saving.deserialize_keras_object(alignment)
    if isinstance(alignment, Alignment):
        return alignment
    made: Alignment = ALIGNMENTS.get(alignment)(dtype=dtype)
    return made

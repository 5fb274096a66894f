"""What every alignment is: where to look, given scores."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.ops import refuse_float_mask
from attention_zoo.registry import Registry

Tensor = Any
Shape = tuple[Any, ...]
State = tuple[Tensor, ...]

ALIGNMENTS = Registry("alignment")


class Alignment(keras.layers.Layer):
    """One look: scores `(..., S)` to weights of that shape, exactly 0 where the mask hides.

    Rows are independent. `call` is all that most alignments define; one with weights of its own
    builds them in `build`. The rest is for those that need more:

    - a stateful one defines `initial_state`, and `compute_previous_states` where the state before
      each step is known in advance (the number of the step), so that all steps are computed in
      parallel; `compute_final_state` returns the state after the last step;
    - one that draws at random defines `draw`, and gets it back as `noise`;
    - one that reads the query or the keys defines `precompute` (and `build_readers`, `prepare`),
      and gets the result back as `aux`; a `Window` there narrows the memory before scoring.

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None.
        state: what the last look returned, or `initial_state`.
        aux: what `precompute` returned, not passed where that is None.
        noise: what `draw` drew, not passed where that is None.
        training: whether noise and the like are on.

    Returns:
        Weights `(..., S)`, float32 at least, and the state after this look.

    Masking:
        Hidden positions weigh exactly 0; a row with nothing to attend is all 0, and its state is
        put back by the attention.

    Reference:
        The `align` of Luong et al. 2015, arXiv 1508.04025, equation 7, as an axis of its own.
    """

    def build_readers(self, query_shape: Shape, key_shape: Shape) -> None:
        """Weights that read query or key, added before `build`; none here."""

    def build(self, scores_shape: Shape) -> None:
        """Alignments without weights need nothing here; others add weights."""
        self.built = True

    def get_build_config(self) -> None:
        """None: the attention that is loaded around it builds it, readers first, and not Keras."""
        return None

    @property
    def is_stateful(self) -> bool:
        """Whether a look depends on the looks before it."""
        return type(self).initial_state is not Alignment.initial_state

    def initial_state(self, like: Tensor) -> State:
        """What the first look starts from: leaves `(..., X)`, for scores like `like` `(..., S)`."""
        return ()

    def compute_previous_states(self, like: Tensor, live: Tensor) -> State | None:
        """The state before each of T looks, leaves `(..., T, X)`, None where only looking tells.

        Args:
            like: as in `initial_state`.
            live: `(..., T)` booleans, False at a hidden query, which is no look.
        """
        return None if self.is_stateful else ()

    def compute_final_state(self, after: State, live: Tensor) -> State:
        """The state after T looks taken at once, from those after each, leaves `(..., T, X)`."""
        return ()

    def draw(self, shape: Shape, dtype: str) -> Tensor | None:
        """What training draws for weights of that shape, outside of any loop; nothing here."""
        return None

    def width(self, sources: Tensor) -> Tensor:
        """How many places a look sees of a memory of `sources` places."""
        return sources

    def prepare(self, keys: Tensor) -> Any:
        """What of the keys `(..., S, Dk)` this alignment itself reads; nothing here."""
        return ()

    def precompute(self, query: Tensor, memory: Any, state: State | None) -> Any:
        """What of the query `(..., T, Dq)` this alignment itself reads, leaves `(..., T, ...)`.

        Args:
            query: as it is, or of one head.
            memory: a `Memory`, with what `prepare` made in `memory.extra`.
            state: before each look; None where only looking tells.
        """
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As `call`; ValueError for a mask of floats, of which `where` would make anything."""
        mask = args[1] if len(args) > 1 else kwargs.get("mask")
        if mask is not None:
            refuse_float_mask("mask", mask)
        return super().__call__(*args, **kwargs)

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

"""Base class of alignments and their registry."""

from __future__ import annotations

from typing import Any, ClassVar

from attention_zoo.layers.base import deserialize
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.ops import refuse_float_mask
from attention_zoo.registry import Registry
from attention_zoo.typing import Shape, State, Tensor

ALIGNMENTS = Registry("alignment")


class Alignment(KernelLayer):
    """Base class of alignments: scores `(..., S)` to weights `(..., S)`, exactly 0 where masked.

    Rows are independent. Most subclasses define only `call`; those with weights create them in
    `build`. The other methods are for special cases:

    - A stateful alignment defines `initial_state`. If the state before each step is known in
      advance (such as the step number), it also defines `compute_previous_states` and
      `compute_final_state`, and all steps are computed in parallel.
    - An alignment with random noise in training defines `sample_noise`; `call` gets the result as
      `noise`.
    - An alignment that uses the query or the keys defines `precompute` (and, if needed,
      `build_projections` and `prepare`); `call` gets the result as `aux`. If `precompute` returns a
      `Window`, only that window of the memory is scored.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        state: the state returned by the previous step, or `initial_state`.
        aux: the result of `precompute`; not passed if it is None.
        noise: the result of `sample_noise`; not passed if it is None.
        training: whether to behave as in training.

    Returns:
        Weights `(..., S)`, at least float32, and the next state.

    Masking:
        Masked positions have weight exactly 0. A fully masked row is all 0, and the attention layer
        restores its previous state, unless `precompute` returned a window. Attention layers verify
        the weights of custom alignments when they are built.

    Reference:
        The `align` of Luong et al. 2015, arXiv 1508.04025, equation 7, as a separate layer.
    """

    is_part: ClassVar[bool] = True

    is_stateful: ClassVar[bool] = False
    """Whether a step depends on earlier steps."""
    has_precompute: ClassVar[bool] = False
    """Whether the weights depend on query or keys directly, not only through the scores."""
    has_noise: ClassVar[bool] = False
    """Whether the weights are random in training."""
    uses_scores: ClassVar[bool] = True
    """Whether the weights depend on the scores; if not, there is no `attention_bias`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set `is_stateful`, `has_precompute` and `has_noise`, by the methods the class defines."""
        super().__init_subclass__(**kwargs)
        cls.is_stateful = cls.initial_state is not Alignment.initial_state
        cls.has_precompute = cls.precompute is not Alignment.precompute
        cls.has_noise = cls.sample_noise is not Alignment.sample_noise

    def build_projections(self, query_shape: Shape, key_shape: Shape) -> None:
        """Create the weights that are applied to query or key, before `build`; none here."""

    def build(self, scores_shape: Shape) -> None:
        """Create the other weights; the base class has none."""

    def get_build_config(self) -> None:
        """Return None: on loading, not Keras but the attention layer builds this layer.

        The attention layer calls `build_projections` before `build`.
        """
        return None

    def initial_state(self, like: Tensor) -> State:
        """Return the initial state, tensors `(..., X)`; `like` has the scores' shape `(..., S)`."""
        return ()

    def compute_previous_states(self, like: Tensor, query_mask: Tensor) -> State | None:
        """Return the states before each of T steps, tensors `(..., T, X)`.

        None if they depend on the weights of earlier steps; the steps then run sequentially.

        Args:
            like: as in `initial_state`.
            query_mask: `(..., T)` booleans, False at masked queries, which do not count as steps.
        """
        return None if self.is_stateful else ()

    def compute_final_state(self, states: State, query_mask: Tensor) -> State:
        """Return the state after T parallel steps.

        Args:
            states: the state after each step, tensors `(..., T, X)`.
            query_mask: as in `compute_previous_states`.
        """
        return ()

    def sample_noise(self, shape: Shape, dtype: str) -> Tensor | None:
        """Return noise for weights of that shape, generated outside of loops; None here."""
        return None

    def width(self, sources: Tensor) -> Tensor:
        """Return how many of the memory's `sources` positions are scored in a step."""
        return sources

    def prepare(self, keys: Tensor) -> Any:
        """Return what `precompute` needs of the keys `(..., S, Dk)`; nothing here."""
        return ()

    def precompute(self, query: Tensor, memory: Any, state: State | None) -> Any:
        """Return what is precomputed from the query, tensors `(..., T, ...)`; None here.

        Args:
            query: `(..., T, Dq)`; with heads, each head's projected query.
            memory: a `Memory`; `memory.extra` is the result of `prepare`.
            state: the state before each step, `()` if stateless; None if steps run sequentially.
        """
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; raise ValueError for a float mask, which `where` would misinterpret."""
        mask = args[1] if len(args) > 1 else kwargs.get("mask")
        if mask is not None:
            refuse_float_mask("mask", mask)
        return super().__call__(*args, **kwargs)

    def call(
        self, scores: Tensor, mask: Tensor | None = None, state: State = (), training: bool = False
    ) -> tuple[Tensor, State]:
        """Return the weights and the next state."""
        raise TypeError(f"{type(self).__name__} is a base class: an alignment defines `call`")

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: weights carry no mask; they are 0 at masked positions."""


def unpack_result(alignment: Any, result: Any) -> tuple[Tensor, State]:
    """Return weights and state of a call; raise ValueError unless the result is such a pair."""
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise ValueError(
        f"{type(alignment).__name__}.call must return (weights, state), got "
        f"{type(result).__name__}; a stateless alignment returns its state argument unchanged: "
        "`return weights, state`"
    )


def make_alignment(alignment: Any, dtype: Any = None, **keywords: Any) -> Alignment:
    """Return an `Alignment` from a name (created with `dtype`), an instance or its config.

    The keywords are those of kernels and biases; an instance does not get them.

    Raises:
        ValueError: an unknown name.
    """
    alignment = deserialize(alignment)
    if isinstance(alignment, Alignment):
        return alignment
    layer: Alignment = ALIGNMENTS.get(alignment)(dtype=dtype, **keywords)
    return layer

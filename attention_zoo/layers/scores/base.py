"""Base class of scores, their registry, and helpers."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import keras
from keras import ops

from attention_zoo.layers.base import deserialize, is_custom_layer
from attention_zoo.layers.kernels import KERNEL_ARGUMENTS, KernelLayer
from attention_zoo.ops import whole_number
from attention_zoo.registry import Registry
from attention_zoo.typing import Shape, State, Tensor

SCORES = Registry("score")


class Score(KernelLayer):
    """Base class of scores: `(..., T, Dq)` and `(..., S, Dk)` to `(..., T, S)`.

    A score is built with the shapes of query and key. `project` projects the keys once;
    `compute_scores` is then called any number of times with queries and the projected keys.
    Subclasses define `build`, `compute_scores`, and `project` if the keys have a projection. All
    leading axes broadcast, so heads and hypotheses are just more axes. A score that depends on
    earlier attention weights also defines `initial_state` and `update_state`, and its
    `compute_scores` takes the state as a third argument.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Masking:
        None here: the attention layer masks the scores, and zeros masked keys before `project`.

    Reference:
        The score function of Luong et al. 2015, arXiv 1508.04025, section 3.1, as a separate layer.
    """

    is_part: ClassVar[bool] = True

    is_stateful: ClassVar[bool] = False
    """Whether the scores of a step depend on the weights of earlier steps."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set `is_stateful`: a score is stateful if its class defines `initial_state`."""
        super().__init_subclass__(**kwargs)
        cls.is_stateful = cls.initial_state is not Score.initial_state

    needs_all_positions: ClassVar[bool] = False
    """Whether a window of the memory cannot be scored alone. Stateful scores need not set it."""

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        """Create the weights; the base class has none."""

    def project(self, key: Tensor) -> Tensor:
        """Project the keys to `(..., S, K)`, independently of the query; the identity here."""
        return key

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Compute scores `(..., T, S)` of queries and projected keys."""
        raise TypeError(f"{type(self).__name__} is a base class: a score defines `compute_scores`")

    def initial_state(self, like: Tensor) -> State:
        """Return the initial state: tensors `(..., S)`, the shape of `like`; none here."""
        return ()

    def update_state(self, weights: Tensor, state: State) -> State:
        """Return the state after a step with the attention weights `weights`, `(..., S)`."""
        return state

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        """Compute scores `(..., T, S)` of queries and unprojected keys."""
        self.check(query, key)
        return self.compute_scores(query, self.project(key))

    def check_contract(self, query_shape: Shape, key_shape: Shape) -> None:
        """Raise ValueError unless the built score returns scores `(..., T, S)`.

        The call on one query also builds sublayers, for a class that does not define `build`.
        """
        query = ops.zeros((1, *query_shape[1:-2], 1, query_shape[-1]), self.compute_dtype)
        sources = key_shape[-2] or 2
        key = ops.zeros((1, *key_shape[1:-2], sources, key_shape[-1]), self.compute_dtype)
        state = self.initial_state(ops.zeros((*query.shape[:-2], sources)))
        state = keras.tree.map_structure(lambda x: x[..., None, :], state)
        options = [state] if self.is_stateful else []
        scores = self.compute_scores(query, self.project(key), *options)
        got, expected = tuple(scores.shape), (*query.shape[:-1], sources)
        if got != tuple(expected):
            raise ValueError(
                f"{type(self).__name__}.compute_scores must return scores of shape (..., T, S), "
                f"here {tuple(expected)}, got shape {got}; return one score per query and key"
            )

    def check(self, query: Tensor, key: Tensor) -> None:
        """Raise ValueError if query or key do not have the rank or width of the built score."""
        width, _, key_width = built_widths(self, query.shape[-1])
        for name, x, expected in (("query", query, width), ("key", key, key_width)):
            size = x.shape[-1] if len(x.shape) > 1 else None
            if len(x.shape) < 2 or (None not in (expected, size) and size != expected):
                raise ValueError(
                    f"{name} must be (..., steps, {expected or 'features'}), "
                    f"got shape {tuple(x.shape)}"
                )

    def weight(
        self, name: str, shape: tuple[int | None, ...], initializer: str = "glorot_uniform"
    ) -> Any:
        """Add a trainable weight."""
        return self.add_weight(shape=shape, initializer=initializer, name=name)


def build_score(score: Score, query_shape: Shape, key_shape: Shape) -> None:
    """Build a score for shapes `(..., T, Dq)` and `(..., S, Dk)`; check a custom one."""
    if not score.built:
        score.build(query_shape, key_shape)
    if is_custom_layer(score):
        score.check_contract(query_shape, key_shape)


def check_units(units: int | None) -> int | None:
    """Return `units`; raise ValueError unless it is None or an integer of at least 1."""
    return None if units is None else whole_number("units", units)


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """Compute dot products, `(..., T, K)` and `(..., S, K)` to `(..., T, S)`, in at least float32.

    float16 overflows above 65504, which two vectors of 64 features with value 32 exceed.
    """
    if keras.backend.standardize_dtype(queries.dtype) != "float64":
        queries, keys = ops.cast(queries, "float32"), ops.cast(keys, "float32")
    return ops.matmul(queries, ops.swapaxes(keys, -1, -2))


def built_widths(layer: Any, query_width: int | None) -> tuple[int | None, ...]:
    """Return the widths of query, value and key that a built layer requires; None for any width.

    A layer without weights that was built with equal query and key widths accepts any equal widths.

    Args:
        layer: a `Score`, or an attention layer.
        query_width: width of the current query.
    """
    shapes = (layer.get_build_config() or {}).get("shapes_dict") or {}
    query, value = (shapes.get(f"{name}_shape", (None,))[-1] for name in ("query", "value"))
    key = (shapes.get("key_shape") or (value,))[-1]
    if query == key and not layer.weights:
        return query_width, None, query_width
    return query, value, key


def require_equal_widths(name: str, query_shape: Shape, key_shape: Shape, fix: str) -> None:
    """Raise ValueError if query and key have different widths."""
    if query_shape[-1] != key_shape[-1]:
        raise ValueError(
            f"{name} needs equal widths of query and key, got {query_shape[-1]} and "
            f"{key_shape[-1]}; {fix}"
        )


def make_score(score: Any, dtype: Any = None, **options: Any) -> Score:
    """Return a `Score` from a name (created with `dtype` and options), an instance or its config.

    The options may contain keywords of kernels and biases; an instance does not get them.

    Raises:
        ValueError: an unknown name, an option that the score does not have, or options together
            with an instance.
    """
    options = {key: value for key, value in options.items() if value is not None}
    keywords = {name: options.pop(name) for name in KERNEL_ARGUMENTS if name in options}
    score = deserialize(score)
    if isinstance(score, Score):
        if options:
            raise ValueError(
                f"{', '.join(options)} given with a score instance; set it on the score itself"
            )
        return score
    factory = SCORES.get(score)
    unknown = [name for name in options if name not in inspect.signature(factory).parameters]
    if unknown:
        raise ValueError(
            f"score {score!r} does not accept {', '.join(unknown)}; remove it, or use another score"
        )
    layer: Score = factory(dtype=dtype, **keywords, **options)
    return layer

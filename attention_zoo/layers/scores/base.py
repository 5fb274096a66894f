"""What every score is: how alike are a query and a key."""

from __future__ import annotations

import inspect
from typing import Any

import keras
from keras import ops

from attention_zoo.ops import whole_number
from attention_zoo.registry import Registry

Tensor = Any
Shape = tuple[Any, ...]
State = tuple[Tensor, ...]

SCORES = Registry("score")


class Score(keras.layers.Layer):
    """How alike are queries and keys: `(..., T, Dq)` and `(..., S, Dk)` to `(..., T, S)`.

    A score is built on the shapes of query and key, projects the keys once (`project`), and
    compares queries with projected keys as often as needed (`compute_scores`). Subclasses define
    `build`, `project` where keys have a projection, and `compute_scores`. All leading axes
    broadcast, so heads and hypotheses are just more axes. A score that depends on earlier
    attention weights also defines `initial_state` and `update_state`, and its `compute_scores`
    takes the state as a third argument.

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`.

    Returns:
        Scores `(..., T, S)`, float32 at least.

    Masking:
        None here: the attention masks scores and clears hidden keys before `project`.

    Reference:
        The score of Luong et al. 2015, arXiv 1508.04025, section 3.1, as an axis of its own.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        """Scores without weights need nothing here; others add weights."""
        self.built = True

    def project(self, key: Tensor) -> Tensor:
        """What of the key does not depend on the query, `(..., S, K)`; the key itself here."""
        return key

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores `(..., T, S)` of queries and projected keys."""
        raise TypeError(f"{type(self).__name__} is a base class: a score defines `compute_scores`")

    @property
    def is_stateful(self) -> bool:
        """Whether a look's scores depend on the looks before it."""
        return type(self).initial_state is not Score.initial_state

    def initial_state(self, like: Tensor) -> State:
        """What the first look starts from, leaves `(..., S)` for `like` of that shape."""
        return ()

    def update_state(self, weights: Tensor, state: State) -> State:
        """The state after a look that had these weights `(..., S)`."""
        return state

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores `(..., T, S)` of queries and keys as they are."""
        self.check(query, key)
        return self.compute_scores(query, self.project(key))

    def check(self, query: Tensor, key: Tensor) -> None:
        """ValueError for tensors that this score, as it was built, cannot compare."""
        width, _, key_width = built_widths(self, query.shape[-1])
        for name, x, wanted in (("query", query, width), ("key", key, key_width)):
            if len(x.shape) < 2 or (None not in (wanted, x.shape[-1]) and x.shape[-1] != wanted):
                raise ValueError(
                    f"{name} must be (..., steps, {wanted or 'features'}), "
                    f"got shape {tuple(x.shape)}"
                )

    def compute_output_shape(self, query_shape: Shape, key_shape: Shape) -> Shape:
        return (*query_shape[:-1], key_shape[-2])

    def get_config(self) -> dict[str, Any]:
        """Written out, because Keras's automatic config does not serialize a dtype policy."""
        return {**super().get_config()}

    def weight(
        self, name: str, shape: tuple[int | None, ...], initializer: str = "glorot_uniform"
    ) -> Any:
        """A trainable weight of that name."""
        return self.add_weight(shape=shape, initializer=initializer, name=name)


def check_units(units: int | None) -> int | None:
    """The width of a hidden layer, None for the query's; ValueError unless an integer from 1 on."""
    return None if units is None else whole_number("units", units)


def dot(queries: Tensor, keys: Tensor) -> Tensor:
    """`(..., T, K)` and `(..., S, K)` to `(..., T, S)`, in float32 at least.

    float16 overflows at 65504, which two vectors of 64 numbers of 32 reach.
    """
    if keras.backend.standardize_dtype(queries.dtype) != "float64":
        queries, keys = ops.cast(queries, "float32"), ops.cast(keys, "float32")
    return ops.matmul(queries, ops.swapaxes(keys, -1, -2))


def built_widths(layer: Any, query_width: int | None) -> tuple[int | None, ...]:
    """How wide query, value and key must be for a built layer; None where any width will do.

    A layer without weights that compares vectors of one width compares those of another too.

    Args:
        layer: a `Score`, or an attention.
        query_width: of the query that is there now.
    """
    shapes = (layer.get_build_config() or {}).get("shapes_dict") or {}
    query, value = (shapes.get(f"{name}_shape", (None,))[-1] for name in ("query", "value"))
    key = (shapes.get("key_shape") or (value,))[-1]
    if query == key and not layer.weights:
        return query_width, None, query_width
    return query, value, key


def require_equal_widths(name: str, query_shape: Shape, key_shape: Shape, fix: str) -> None:
    """ValueError when a score that has no projection sees two widths."""
    if query_shape[-1] != key_shape[-1]:
        raise ValueError(
            f"{name} needs query and key of one width, got {query_shape[-1]} and "
            f"{key_shape[-1]}; {fix}"
        )


def make_score(score: Any, dtype: Any = None, **options: Any) -> Score:
    """A score from its name, with that dtype policy, from its config, or itself.

    Raises:
        ValueError: unknown name, an option that this score has not, options beside an object.
    """
    if isinstance(score, dict):
        score = keras.saving.deserialize_keras_object(score)
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(score, Score):
        if given:
            raise ValueError(
                f"{', '.join(given)} given beside a score object; set it on the score itself"
            )
        return score
    factory = SCORES.get(score)
    unknown = [name for name in given if name not in inspect.signature(factory).parameters]
    if unknown:
        raise ValueError(f"score {score!r} does not take {', '.join(unknown)}")
    made: Score = factory(dtype=dtype, **given)
    return made

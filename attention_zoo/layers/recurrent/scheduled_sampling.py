"""Scheduled sampling: training a decoder partly on its own predictions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from attention_zoo import ops as zoo_ops
from attention_zoo.registry import Registry, did_you_mean
from attention_zoo.typing import Tensor

State = Any
Step = Callable[[Tensor, State], tuple[Tensor, State]]

SAMPLING_SCHEDULES = Registry("sampling schedule")


class SamplingSchedule:
    """Base class of sampling schedules: the teacher-forcing probability per update.

    Subclasses are dataclasses.
    """

    def __call__(self, update: Tensor) -> Tensor:
        """Return the teacher-forcing probability at `update`, a float32 scalar, counted from 0."""
        raise TypeError(f"{type(self).__name__} is a base class: a schedule defines `__call__`")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SamplingSchedule:
        """Create a schedule from the constructor's arguments."""
        return cls(**config)

    def require(self, name: str, low: float, high: float) -> None:
        """Raise ValueError if the field `name` is not between `low` and `high`."""
        if not low <= zoo_ops.number(getattr(self, name)) <= high:
            raise ValueError(
                f"{name} must be between {low:g} and {high:g}, got {getattr(self, name)!r}"
            )


@SAMPLING_SCHEDULES.register("constant")
@keras.saving.register_keras_serializable("attention_zoo")
@dataclasses.dataclass(frozen=True)
class ConstantSampling(SamplingSchedule):
    """Constant schedule: `probability`."""

    probability: float = 0.75

    def __post_init__(self) -> None:
        self.require("probability", 0, 1)

    def __call__(self, update: Tensor) -> Tensor:
        return ops.cast(self.probability, "float32")


@SAMPLING_SCHEDULES.register("linear")
@keras.saving.register_keras_serializable("attention_zoo")
@dataclasses.dataclass(frozen=True)
class LinearSampling(SamplingSchedule):
    """Linear decay: `max(floor, start - slope update)`."""

    start: float = 1.0
    slope: float = 1e-4
    floor: float = 0.0

    def __post_init__(self) -> None:
        self.require("start", 0, 1)
        self.require("slope", 0, 1)
        self.require("floor", 0, 1)

    def __call__(self, update: Tensor) -> Tensor:
        return ops.maximum(self.start - self.slope * update, self.floor)


@SAMPLING_SCHEDULES.register("exponential")
@keras.saving.register_keras_serializable("attention_zoo")
@dataclasses.dataclass(frozen=True)
class ExponentialSampling(SamplingSchedule):
    """Exponential decay: `base ** update`."""

    base: float = 0.9999

    def __post_init__(self) -> None:
        self.require("base", 0, 1)

    def __call__(self, update: Tensor) -> Tensor:
        return ops.power(ops.cast(self.base, "float32"), update)


@SAMPLING_SCHEDULES.register("inverse_sigmoid")
@keras.saving.register_keras_serializable("attention_zoo")
@dataclasses.dataclass(frozen=True)
class InverseSigmoidSampling(SamplingSchedule):
    """Inverse sigmoid decay: `k / (k + exp(update / k))`.

    It starts near 1, is 1/2 at update `k log k`, and decays to 0.
    """

    k: float = 1000.0

    def __post_init__(self) -> None:
        self.require("k", 1, 1e12)

    def __call__(self, update: Tensor) -> Tensor:
        return ops.sigmoid(math.log(self.k) - update / self.k)


def make_sampling_schedule(schedule: Any) -> SamplingSchedule:
    """Create a schedule from a name, a config or an instance.

    A dict with the key "schedule" contains a name and constructor arguments, such as
    `{"schedule": "linear", "slope": 1e-3}`. Raises ValueError for an unknown name or argument.
    """
    if isinstance(schedule, dict) and "schedule" in schedule:
        constants = {name: value for name, value in schedule.items() if name != "schedule"}
        return _with_constants(SAMPLING_SCHEDULES.get(schedule["schedule"]), constants)
    if isinstance(schedule, dict):
        schedule = keras.saving.deserialize_keras_object(schedule)
    if isinstance(schedule, SamplingSchedule):
        return schedule
    made: SamplingSchedule = SAMPLING_SCHEDULES.get(schedule)()
    return made


def _with_constants(factory: Any, constants: dict[str, Any]) -> SamplingSchedule:
    """Create a schedule with these arguments; raise ValueError for an unknown one."""
    known = [one.name for one in dataclasses.fields(factory)]
    for name in constants:
        if name not in known:
            raise ValueError(
                f"schedule {factory.__name__} has no constant {name!r}{did_you_mean(name, known)}"
                f" (known: {', '.join(known)})"
            )
    made: SamplingSchedule = factory(**constants)
    return made


@keras.saving.register_keras_serializable("attention_zoo")
class ScheduledSampling(keras.layers.Layer):
    """Scheduled sampling: replaces some decoder inputs with the decoder's own predictions.

    `fed_t = truth_t` with probability `p(update)`, else `argmax_y P(y | fed_1 .. fed_t-1)`

    In training the decoder runs twice. The first pass, in this layer, selects the input tokens; it
    runs step by step, as at inference (no dropout, no gradient). The second pass, in the model, is
    that of teacher forcing, with these tokens as inputs. So computations that the decoder hoists
    out of its loop stay hoisted, and with p = 1 training is bit-identical to teacher forcing. The
    choice of a token has no gradient, as in the paper.

    Args:
        schedule: p, a name in `SAMPLING_SCHEDULES` ("constant", "linear", "exponential",
            "inverse_sigmoid"), a name with arguments (`{"schedule": "linear", "slope": 1e-3}`), or
            a `SamplingSchedule`.
        seed: random seed of the sampling, an integer or None.

    Call arguments:
        tokens: `(B, T)` integers, the decoder inputs of teacher forcing, with the start token
            first.
        step: one decoder step, `step(tokens (B,), state) -> (logits (B, V), state)`; required only
            in training, as a keyword argument.
        state: initial decoder state, a nest of tensors `(B, ...)`.
        mask: `(B, T)`, True at valid tokens; the others are padding.
        training: unless True, the tokens are returned unchanged.

    Returns:
        The decoder inputs, `(B, T)`.

    Weights:
        updates: `()`, integer, the number of calls in training; not trainable.

    Masking:
        A masked step does not change the state and keeps its token. The first valid step always
        gets the true token, because no prediction precedes it.

    Cost:
        T sequential decoder steps in training; none otherwise.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.layers import RecurrentDecoder, ScheduledSampling
        >>> embedding, readout = keras.layers.Embedding(9, 4), keras.layers.Dense(9)
        >>> decoder, tokens = RecurrentDecoder(keras.layers.GRUCell(8)), np.array([[2, 5, 6]])
        >>> logits = readout(decoder(embedding(tokens)))
        >>> prepared, start = decoder.start(None, None, None, 1)
        >>> def step(tokens, state):
        ...     record, state = decoder.step(embedding(tokens), state, prepared)
        ...     return readout(record.output), state
        >>> sampling = ScheduledSampling("linear")
        >>> fed = sampling(tokens, step=step, state=start, training=True)
        >>> tuple(fed.shape), int(fed[0, 0]), int(sampling.updates)
        ((1, 3), 2, 1)

    Reference:
        Bengio et al. 2015, arXiv 1506.03099, section 2.4 (i is the update, epsilon_i is p, y_t-1 is
        fed_t). The paper samples a token from the model or takes the most likely one; this layer
        takes the most likely one.
    """

    def __init__(
        self, schedule: Any = "inverse_sigmoid", seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # keep the state's dtypes
        self.supports_masking = True
        self.schedule = make_sampling_schedule(schedule)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.updates = self.add_weight(
            shape=(), initializer="zeros", dtype="int", trainable=False, name="updates"
        )

    def call(
        self,
        tokens: Tensor,
        step: Step | None = None,
        state: State = None,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        tokens = ops.convert_to_tensor(tokens)
        zoo_ops.check_shape("tokens", tokens.shape, ("batch", "steps"))
        if "int" not in keras.backend.standardize_dtype(tokens.dtype):
            raise ValueError(f"tokens must be integers, got dtype {tokens.dtype}")
        if not training:
            return tokens
        if step is None:
            raise ValueError(
                "in training, scheduled sampling needs step, the decoder's step function"
            )
        live = ops.ones(ops.shape(tokens), "bool")
        if mask is not None:
            shape = tuple(tokens.shape)
            live = ops.logical_and(live, zoo_ops.as_boolean_mask(mask, "mask", shape))
        truth = self._toss(live)
        self.updates.assign_add(1)
        return feed_own(step, state, tokens, truth, live)

    @property
    def probability(self) -> Tensor:
        """Teacher-forcing probability p at the next update."""
        return self.schedule(ops.cast(self.updates, "float32"))

    def _toss(self, live: Tensor) -> Tensor:
        """Sample which steps use the true token; True up to the first valid token of each row."""
        coins = keras.random.uniform(ops.shape(live), dtype="float32", seed=self.seed_generator)
        first = ops.cumsum(ops.cast(live, "int32"), axis=1) <= 1
        return ops.logical_or(coins < self.probability, first)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the tokens carry no mask, because an embedding computes its own."""
        return None

    def compute_output_spec(self, tokens: Tensor, **kwargs: Any) -> keras.KerasTensor:
        return keras.KerasTensor(tokens.shape, dtype=tokens.dtype)

    def load_own_variables(self, store: Any) -> None:
        """Load the update count; it stays 0 if the model was saved without this layer."""
        if store.keys():
            super().load_own_variables(store)

    def get_config(self) -> dict[str, Any]:
        schedule = keras.saving.serialize_keras_object(self.schedule)
        return {**super().get_config(), "schedule": schedule, "seed": self.seed}


def feed_own(step: Step, state: State, tokens: Tensor, truth: Tensor, live: Tensor) -> Tensor:
    """Return the decoder inputs: true tokens, and the decoder's predictions where `truth` is False.

    Args:
        step: as in `ScheduledSampling`.
        state: initial decoder state.
        tokens: `(B, T)` integers, the true tokens.
        truth: `(B, T)` booleans, True where the true token is used.
        live: `(B, T)` booleans, the padding mask.

    Returns:
        `(B, T)` token ids.
    """
    tokens = ops.convert_to_tensor(tokens)

    def one(carry: tuple[State, Tensor], now: dict[str, Tensor]) -> tuple[Any, Tensor]:
        state, predicted = carry
        fed = ops.where(now["truth"], now["token"], predicted)
        logits, new = step(fed, state)
        new = new, ops.cast(ops.argmax(logits, axis=-1), fed.dtype)
        return tree.map_structure(lambda a, b: _where_row(now["live"], a, b), new, carry), fed

    given = {"token": tokens, "truth": truth, "live": live}
    given = {name: ops.swapaxes(x, 0, 1) for name, x in given.items()}
    nothing = ops.zeros(ops.shape(tokens)[:1], tokens.dtype)
    start = tree.map_structure(ops.stop_gradient, state), nothing
    _, fed = zoo_ops.scan(one, start, given, like=nothing)
    return ops.where(live, ops.swapaxes(fed, 0, 1), tokens)


def _where_row(rows: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return `a` in rows where `rows` `(B,)` is True, else `b`; both are `(B, ...)`."""
    return ops.where(ops.reshape(rows, (-1, *(1,) * (len(a.shape) - 1))), a, b)

"""Scheduled sampling: training a decoder partly on its own predictions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops, tree

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.ops.random import sample_uniform
from attention_zoo.registry import Registry, check_known
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
        raise TypeError(f"{type(self).__name__} is a base class. Define `__call__` in a subclass.")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> SamplingSchedule:
        """Create a schedule from the constructor's arguments."""
        return cls(**config)

    def check_range(self, name: str, low: float, high: float) -> None:
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
        self.check_range("probability", 0, 1)

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
        self.check_range("start", 0, 1)
        self.check_range("slope", 0, 1)
        self.check_range("floor", 0, 1)

    def __call__(self, update: Tensor) -> Tensor:
        return ops.maximum(self.start - self.slope * update, self.floor)


@SAMPLING_SCHEDULES.register("exponential")
@keras.saving.register_keras_serializable("attention_zoo")
@dataclasses.dataclass(frozen=True)
class ExponentialSampling(SamplingSchedule):
    """Exponential decay: `base ** update`."""

    base: float = 0.9999

    def __post_init__(self) -> None:
        self.check_range("base", 0, 1)

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
        self.check_range("k", 1, 1e12)

    def __call__(self, update: Tensor) -> Tensor:
        return ops.sigmoid(math.log(self.k) - update / self.k)


def make_sampling_schedule(schedule: Any) -> SamplingSchedule:
    """Create a schedule from a name, a dict or an instance.

    A dict with the key "schedule" contains a name and constructor arguments, such as
    `{"schedule": "linear", "slope": 1e-3}`. Raises ValueError for an unknown name or argument.
    """
    if isinstance(schedule, SamplingSchedule):
        return schedule
    constants = dict(schedule) if isinstance(schedule, dict) else {"schedule": schedule}
    schedule_class: Any = SAMPLING_SCHEDULES.get(constants.pop("schedule", None))
    known = [field.name for field in dataclasses.fields(schedule_class)]
    check_known(f"{schedule_class.__name__} has no argument", constants, known)
    created: SamplingSchedule = schedule_class(**constants)
    return created


@keras.saving.register_keras_serializable("attention_zoo")
class ScheduledSampling(BaseLayer):
    """Scheduled sampling: replaces some decoder inputs with the decoder's own predictions.

    `input_t = truth_t` with probability `p(update)`, else `argmax_y P(y | input_1 .. input_t-1)`

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
        >>> inputs = sampling(tokens, step=step, state=start, training=True)
        >>> tuple(inputs.shape), int(inputs[0, 0]), int(sampling.updates)
        ((1, 3), 2, 1)

    Reference:
        Bengio et al. 2015, arXiv 1506.03099, section 2.4 (i is the update, epsilon_i is p, y_t-1 is
        input_t). The paper samples a token from the model or takes the most likely one; this layer
        takes the most likely one.
    """

    def __init__(
        self, schedule: Any = "inverse_sigmoid", seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # keep the state's dtypes
        self.schedule = make_sampling_schedule(schedule)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.updates = self.add_weight((), "zeros", "int", trainable=False, name="updates")
        self.built = True  # models use it in training only

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
        valid = ops.ones(ops.shape(tokens), "bool")
        if mask is not None:
            shape = tuple(tokens.shape)
            valid = ops.logical_and(valid, zoo_ops.as_boolean_mask(mask, "mask", shape))
        use_truth = self._sample_teacher_forcing(valid)
        self.updates.assign_add(1)
        return sample_decoder_inputs(step, state, tokens, use_truth, valid)

    @property
    def probability(self) -> Tensor:
        """Teacher-forcing probability p at the next update."""
        return self.schedule(ops.cast(self.updates, "float32"))

    def _sample_teacher_forcing(self, mask: Tensor) -> Tensor:
        """Sample which steps use the true token; True up to the first valid token of each row."""
        uniform = sample_uniform(self.seed_generator.next(), ops.shape(mask))
        first = ops.cumsum(ops.cast(mask, "int32"), axis=1) <= 1
        return ops.logical_or(uniform < self.probability, first)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the tokens carry no mask, because an embedding computes its own."""

    def compute_output_spec(self, tokens: Tensor, **kwargs: Any) -> keras.KerasTensor:
        return keras.KerasTensor(tokens.shape, dtype=tokens.dtype)

    def load_own_variables(self, store: Any) -> None:
        """Load the update count; it stays 0 if the model was saved without this layer."""
        if store.keys():
            super().load_own_variables(store)


def sample_decoder_inputs(
    step: Step, state: State, tokens: Tensor, use_truth: Tensor, mask: Tensor
) -> Tensor:
    """Return true tokens where `use_truth` is True, and the decoder's predictions elsewhere.

    Args:
        step: as in `ScheduledSampling`.
        state: initial decoder state.
        tokens: `(B, T)` integers, the true tokens.
        use_truth: `(B, T)` booleans, True where the true token is used.
        mask: `(B, T)` booleans, the padding mask.

    Returns:
        `(B, T)` token ids.
    """
    tokens = ops.convert_to_tensor(tokens)

    def scan_step(
        carry: tuple[State, Tensor], step_inputs: dict[str, Tensor]
    ) -> tuple[Any, Tensor]:
        state, predicted = carry
        inputs = ops.where(step_inputs["use_truth"], step_inputs["token"], predicted)
        logits, next_carry = step(inputs, state)
        next_carry = next_carry, ops.cast(ops.argmax(logits, axis=-1), inputs.dtype)
        return tree.map_structure(
            lambda a, b: _where_row(step_inputs["mask"], a, b), next_carry, carry
        ), inputs

    sequences = {"token": tokens, "use_truth": use_truth, "mask": mask}
    sequences = {name: ops.swapaxes(x, 0, 1) for name, x in sequences.items()}
    no_token = ops.zeros(ops.shape(tokens)[:1], tokens.dtype)
    start = tree.map_structure(ops.stop_gradient, state), no_token
    _, inputs = zoo_ops.scan(scan_step, start, sequences, like=no_token)
    return ops.where(mask, ops.swapaxes(inputs, 0, 1), tokens)


def _where_row(rows: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return `a` in rows where `rows` `(B,)` is True, else `b`; both are `(B, ...)`."""
    return ops.where(ops.reshape(rows, (-1, *(1,) * (len(a.shape) - 1))), a, b)

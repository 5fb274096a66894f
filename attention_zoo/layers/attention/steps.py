"""Attention steps, parallel or sequential."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops, tree

from attention_zoo import ops as zoo_ops
from attention_zoo.typing import State, Tensor


class Memory(NamedTuple):
    """Memory prepared for attention.

    values: `(B, S, Dv)`, with heads `(B, H, S, Dv)`. keys: projected keys `(B, S, K)`, with heads
    `(B, H, S, K)`. mask: `(B, S)` or None. extra: result of the alignment's `prepare`.
    unprojected: keys before projection, if each step projects only the keys of its window; `keys`
    is None in this case.
    """

    values: Tensor
    keys: Tensor | None
    mask: Tensor | None
    extra: Any = ()
    unprojected: Tensor | None = None


class Noise(NamedTuple):
    """Noise of T attention steps in training; each field is `(B, [H], T, S)` or None.

    dropout_mask: factors that multiply the weights. alignment: noise of the alignment. With a
    window of W positions, the last axis is W.
    """

    dropout_mask: Tensor | None = None
    alignment: Tensor | None = None


class AttentionMasks(NamedTuple):
    """Query mask, memory mask and attention mask (each may be None), and the mask pattern.

    query: `(B, T)`. memory: `(B, S)`. pairs: `(B, T, S)`. reach: causal or windowed mask pattern.
    """

    query: Tensor | None = None
    memory: Tensor | None = None
    pairs: Tensor | None = None
    reach: zoo_ops.MaskPattern = zoo_ops.FULL_ATTENTION

    def full_mask(self, steps: Tensor, sources: Tensor, heads: bool) -> Tensor | None:
        """Combine all masks into one that broadcasts to `(B, [H], T, S)`, or None."""
        places = (ops.arange(length, dtype="int32") for length in (steps, sources))
        near = self.reach.mask(*places)
        mask = zoo_ops.combine_masks(
            None if self.query is None else self.query[:, :, None],
            None if self.memory is None else self.memory[:, None, :],
            self.pairs,
            None if near is None else near[None],
        )
        return mask[:, None] if heads and mask is not None else mask

    def window_mask(self, window: zoo_ops.Window, sources: Tensor) -> Tensor:
        """Combine all masks within a window, `(B, [H], T, W)`, without building the full mask."""
        places = window.places
        heads = (1,) * (len(places.shape) - 3)
        masks = [window.inside, places >= 0, places < sources]
        if self.query is not None:
            masks.append(ops.reshape(self.query, (-1, *heads, ops.shape(places)[-2], 1)))
        if self.memory is not None:
            masks.append(zoo_ops.take_places(self.memory, places, lead=1))
        if self.pairs is not None:
            shape = (ops.shape(places)[0], ops.shape(places)[-2], sources)
            rows = ops.moveaxis(places, -2, 1)
            taken = zoo_ops.take_places(ops.broadcast_to(self.pairs, shape), rows, lead=2)
            masks.append(ops.moveaxis(taken, 1, -2))
        if self.reach.causal:
            masks.append(places <= ops.arange(ops.shape(places)[-2], dtype="int32")[:, None])
        return zoo_ops.combine_masks(*masks)


class AttentionResult(NamedTuple):
    """Result of T attention steps.

    weights: `(B, [H], T, S)`, or `(B, [H], T, W)` in a window. row_mask: False for fully masked
    rows, broadcasts to `(B, [H], T, 1)`; None if no row can be fully masked. state: if parallel,
    the state after each step, leaves `(B, [H], T, ...)`; if sequential, the state after the last
    step, leaves `(B, [H], ...)`. window_values: the values in the window.
    """

    weights: Tensor
    window: zoo_ops.Window | None
    row_mask: Tensor | None
    state: State
    window_values: Tensor | None = None

    def full_weights(self, sources: Tensor) -> Tensor:
        """Return the weights over the whole memory, `(B, [H], T, S)`."""
        if self.window is None:
            return self.weights
        return zoo_ops.spread_window(self.weights, self.window, sources)


def attend_parallel(
    attention: Any,
    query: Tensor,
    memory: Memory,
    allowed: AttentionMasks,
    state: State,
    noise: Noise | None = None,
    training: bool = False,
) -> AttentionResult:
    """Run T attention steps in parallel; `state` is the state before each, `(B, [H], T, ...)`."""
    of_score, of_alignment = state or ((), ())
    aux = attention.alignment.precompute(query, memory, of_alignment)
    window = aux if isinstance(aux, zoo_ops.Window) else None
    steps, sources = ops.shape(query)[-2], ops.shape(memory.values)[-2]
    window_values = None
    if window is None:
        mask = allowed.full_mask(steps, sources, heads=len(query.shape) == 4)
        scores = attention.compute_scores(query, memory.keys, of_score)
    else:
        mask = allowed.window_mask(window, sources)
        window_values = attention.gather_window(memory.values, window)
        scores = _scores_within(attention, query, memory, window, window_values, of_score)
    extras = _present(aux=aux, noise=noise.alignment if noise else None)
    weights, new = attention.alignment.call(
        scores, mask=mask, state=of_alignment, training=training, **extras
    )
    row_mask = _row_mask(mask, memory)
    if not state:
        return AttentionResult(weights, window, row_mask, (), window_values)
    if attention.score.is_stateful:
        of_score = attention.score.update_state(weights, of_score)
    after = (of_score, new)
    # A fully masked window still updates the state, because it is not the window of the next step.
    after = after if window is not None else _restore_fully_masked(row_mask, after, state)
    return AttentionResult(weights, window, row_mask, after, window_values)


def _scores_within(
    attention: Any,
    query: Tensor,
    memory: Memory,
    window: zoo_ops.Window,
    window_values: Tensor,
    state: State,
) -> Tensor:
    """Compute the scores within the window of each step, `(B, [H], T, W)`."""
    query = query[..., None, :]
    whole = memory.keys if memory.unprojected is None else memory.unprojected
    keys = window_values if whole is memory.values else attention.gather_window(whole, window)
    if memory.unprojected is not None:
        return attention.score.call(query, keys)[..., 0, :]
    return attention.compute_scores(query, keys, state)[..., 0, :]


def attend_sequential(
    attention: Any,
    query: Tensor,
    memory: Memory,
    allowed: AttentionMasks,
    state: State,
    noise: Noise | None = None,
    training: bool = False,
) -> AttentionResult:
    """Run T attention steps sequentially; `state` is the initial state, `(B, [H], ...)`."""
    score, alignment = attention.score, attention.alignment
    aux = alignment.precompute(query, memory, None)
    steps, sources = ops.shape(query)[-2], ops.shape(memory.values)[-2]
    mask = allowed.full_mask(steps, sources, heads=len(query.shape) == 4)
    rows = query if score.is_stateful else attention.compute_scores(query, memory.keys, ())
    given = _present(
        rows=rows[..., None, :],
        mask=None if mask is None else ops.broadcast_to(mask, _scores_shape(query, memory)),
        noise=noise.alignment if noise else None,
        aux=aux,
    )
    given = tree.map_structure(lambda x: ops.moveaxis(x, _step_axis(query), 0), given)

    def step(state: State, now: dict[str, Any]) -> tuple[State, Tensor]:
        of_score, of_alignment = state
        scores = now["rows"][..., 0, :]
        if score.is_stateful:
            asked = tree.map_structure(lambda x: x[..., None, :], of_score)
            scores = attention.compute_scores(now["rows"], memory.keys, asked)[..., 0, :]
        mask = now.get("mask")
        extras = {name: now[name] for name in ("aux", "noise") if name in now}
        weights, new = alignment.call(
            scores, mask=mask, state=of_alignment, training=training, **extras
        )
        if score.is_stateful:
            of_score = score.update_state(weights, of_score)
        row_mask = None if mask is None else ops.any(mask, axis=-1, keepdims=True)
        return _restore_fully_masked(row_mask, (of_score, new), state), weights

    like = ops.zeros_like(attention.weights_like(memory))
    state, weights = zoo_ops.scan(step, state, given, like=like)
    row_mask = _row_mask(mask, memory)
    return AttentionResult(ops.moveaxis(weights, 0, _step_axis(query)), None, row_mask, state)


def _row_mask(mask: Tensor | None, memory: Memory) -> Tensor | None:
    """Return booleans, False for fully masked rows; None if no row can be fully masked."""
    if mask is not None:
        return ops.any(mask, axis=-1, keepdims=True)
    if memory.values.shape[-2]:
        return None
    anything = ops.convert_to_tensor(ops.shape(memory.values)[-2] > 0)
    return ops.reshape(anything, (1,) * len(memory.values.shape))


def _step_axis(query: Tensor) -> int:
    return len(query.shape) - 2


def _scores_shape(query: Tensor, memory: Memory) -> tuple[Any, ...]:
    return (*ops.shape(query)[:-1], ops.shape(memory.values)[-2])


def _present(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _restore_fully_masked(row_mask: Tensor | None, new: State, old: State) -> State:
    """Return the new state; fully masked rows keep the old state."""
    if row_mask is None:
        return new
    return tree.map_structure(lambda a, b: ops.where(row_mask, a, b), new, old)

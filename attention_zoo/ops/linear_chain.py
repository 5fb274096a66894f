"""Linear-chain CRF: log partition function, marginals and scores of tag sequences.

Letters: B sentences, T positions, K tags. With n unmasked positions, the score of tags y_1 .. y_n
is

    `s(y) = start_{y_1} + sum_t emission_{t, y_t} + sum_{t>1} transition_{y_{t-1}, y_t} + end_{y_n}`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import backend, ops

from attention_zoo.ops.arguments import check_shape
from attention_zoo.ops.masking import as_boolean_mask, to_front, zero_masked
from attention_zoo.ops.recurrence import scan
from attention_zoo.typing import Tensor

FORBIDDEN = -1e30
"""Energy of forbidden tags and transitions: below all others, but finite to avoid NaN gradients."""
IMPOSSIBLE = FORBIDDEN / 2
"""Scores below this one belong to sequences with a forbidden tag or transition."""


class Chain(NamedTuple):
    """Energies of B sentences of T positions, created by `make_chain`.

    Attributes:
        emissions: `(B, T, K)`, 0 at masked positions.
        transitions: `(K, K)`, from the row's tag to the column's.
        starts, ends: `(K,)`, of the first and of the last tag.
        mask: `(B, T)` booleans. Padding may be anywhere: unmasked positions with only masked ones
            between them are adjacent.
    """

    emissions: Tensor
    transitions: Tensor
    starts: Tensor
    ends: Tensor
    mask: Tensor


def make_chain(
    emissions: Tensor,
    transitions: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    mask: Tensor | None = None,
) -> Chain:
    """Create a chain in at least float32; energies below `FORBIDDEN`, such as -inf, become that.

    Args:
        emissions: `(B, T, K)`; values at masked positions (NaN too) have no effect.
        transitions: `(K, K)`. starts, ends: `(K,)`, 0 if None.
        mask: `(B, T)`, True at unmasked positions; nothing is masked if None.

    Raises:
        ValueError: wrong shapes; a float mask.
    """
    emissions, transitions = ops.convert_to_tensor(emissions), ops.convert_to_tensor(transitions)
    tags = transitions.shape[-1]
    check_shape("emissions", emissions.shape, ("batch", "positions", tags))
    check_shape("transitions", transitions.shape, (tags, tags))
    given = [backend.standardize_dtype(x.dtype) for x in (emissions, transitions)]
    dtype = "float64" if "float64" in given else "float32"
    if mask is None:
        mask = ops.ones_like(emissions[..., 0], dtype="bool")
    else:
        mask = as_boolean_mask(mask, "mask", tuple(emissions.shape[:2]))
        mask = ops.logical_and(mask, ops.ones_like(emissions[..., 0], dtype="bool"))
    sides = []
    for name, side in (("starts", starts), ("ends", ends)):
        side = ops.zeros((tags,), dtype) if side is None else ops.convert_to_tensor(side)
        check_shape(name, side.shape, (tags,))
        sides.append(side)
    lowest = ops.cast(FORBIDDEN, dtype)
    energies = (zero_masked(emissions, mask), transitions, *sides)
    emissions, transitions, starts, ends = (
        ops.maximum(ops.cast(x, dtype), lowest) for x in energies
    )
    return Chain(emissions, transitions, starts, ends, mask)


def pack(chain: Chain) -> Tensor:
    """Pack a chain into one tensor `(B, T + K + 2, K + 1)`, whose batch rows are self-contained.

    In each batch row the first T lines are `[emissions, mask]`, the next K `[transitions, 0]`, and
    the last two `[starts, 0]` and `[ends, 0]`.
    """
    dtype = chain.emissions.dtype
    counts = ops.cast(chain.mask, dtype)[..., None]
    shared = ops.concatenate([chain.transitions, chain.starts[None], chain.ends[None]], axis=0)
    shared = ops.pad(shared, ((0, 0), (0, 1)))
    lines = ops.broadcast_to(shared, (ops.shape(chain.emissions)[0], *shared.shape))
    return ops.concatenate([ops.concatenate([chain.emissions, counts], axis=-1), lines], axis=1)


def unpack(potentials: Tensor, name: str = "potentials") -> Chain:
    """Unpack a tensor returned by `pack`; raise ValueError if its shape is not one of `pack`."""
    shape = tuple(potentials.shape)
    tags = shape[-1] - 1 if len(shape) == 3 and shape[-1] else 0
    if tags < 1 or (shape[1] is not None and shape[1] < tags + 2):
        raise ValueError(
            f"{name} must be the output of a CRF layer, (batch, positions + tags + 2, tags + 1), "
            f"got shape {shape}"
        )
    places = ops.shape(potentials)[1] - tags - 2
    # All batch rows have the same parameters; the sum is over one row, or none of an empty batch.
    shared = ops.sum(potentials[:1, places:, :tags], axis=0)
    shared = ops.reshape(shared, (tags + 2, tags))
    lines = potentials[:, :places]
    mask = lines[..., tags] > 0.5
    return make_chain(lines[..., :tags], shared[:tags], shared[tags], shared[tags + 1], mask)


# ------------------------------------------------------------------ recursions over time


class Forward(NamedTuple):
    """Result of the forward recursion.

    Attributes:
        arrived: `(T, B, K)`, forward score of each tag at each position, without its emission.
        last: `(B, K)`, forward score of each tag at the last unmasked position, with its emission.
    """

    arrived: Tensor
    last: Tensor


def forward(chain: Chain, reduce: Callable[[Tensor], Tensor]) -> Forward:
    """Run the forward recursion `arrived_t = reduce_i(arrived_i + emission_i + transition_ij)`.

    Args:
        chain: the energies.
        reduce: reduces `(B, K, K)` to `(B, K)`, over the previous tags, the middle axis.
    """
    there, first = there_and_first(chain.mask)

    def place(so_far: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        energy, there, first = now
        arrived = reduce(so_far[:, :, None] + chain.transitions)
        arrived = ops.where(first, chain.starts, ops.where(there, arrived, so_far))
        return arrived + energy, arrived

    rows, _, tags = ops.shape(chain.emissions)
    nothing = ops.zeros((rows, tags), chain.emissions.dtype)
    places = (ops.swapaxes(chain.emissions, 0, 1), there, first)
    last, arrived = scan(place, nothing, places, like=nothing)
    return Forward(arrived, last)


def there_and_first(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return which positions are unmasked, and which is the first of these, `(T, B, 1)` each."""
    so_far = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    first = ops.logical_and(mask, so_far == 1)
    return ops.transpose(mask)[..., None], ops.transpose(first)[..., None]


def greatest_of(x: Tensor) -> Tensor:
    """Return the maximum over the middle axis; without `initial`, empty batches fail."""
    return ops.max(x, axis=1, initial=float("-inf"))


def log_sum_of(x: Tensor) -> Tensor:
    """Return the log-sum-exp over the middle axis, of finite numbers."""
    top = greatest_of(x)
    return top + ops.log(ops.sum(ops.exp(x - top[:, None]), axis=1))


def _shares(chain: Chain, passed: Forward, end: Tensor) -> tuple[Tensor, Tensor]:
    """Propagate the marginals of the last tags backward to all tags.

    The marginal of tag j at t is distributed over the previous tags i with the probabilities
    `exp(arrived_i + emission_i + transition_ij - arrived_j)`.

    Args:
        chain: the energies.
        passed: result of the forward recursion with `log_sum_of`.
        end: `(B, K)`, marginals of the last tags, or multiples of them.

    Returns:
        Marginals of the tags at each position, `(T, B, K)`, 0 at masked positions, and of adjacent
        pairs of tags, `(K, K)`, summed over positions and sentences.
    """
    there, first = there_and_first(chain.mask)
    zero = ops.zeros((), chain.emissions.dtype)
    alphas = passed.arrived + ops.swapaxes(chain.emissions, 0, 1)
    backwards = ops.transpose(chain.transitions)
    inner = ops.logical_and(there, ops.logical_not(first))
    inner = ops.logical_and(inner, passed.arrived > IMPOSSIBLE)

    def place(state: tuple[Tensor, ...], now: tuple[Tensor, ...]) -> Any:
        share, pairs = state
        before, arrived, there, inner = now
        ways = before[:, None, :] + backwards - arrived[:, :, None]  # (B, to, from)
        flow = ops.exp(ops.where(inner[:, :, None], ways, zero))
        flow = flow * ops.where(inner, share, zero)[:, :, None]
        left = ops.where(there, ops.sum(flow, axis=1), share)
        return (left, pairs + ops.sum(flow, axis=0)), ops.where(there, share, zero)

    places = (ops.roll(alphas, 1, axis=0), passed.arrived, there, inner)
    places = tuple(ops.flip(x, axis=0) for x in places)
    (_, pairs), shares = scan(place, (end, ops.zeros_like(backwards)), places, like=end)
    return ops.flip(shares, axis=0), ops.transpose(pairs)


def _end_shares(chain: Chain, last: Tensor) -> Tensor:
    """Return the marginals of the last tag, `(B, K)`; 0 if there is none or all are forbidden."""
    energy = last + chain.ends
    top = ops.max(energy, axis=1, keepdims=True, initial=float("-inf"))
    shares = ops.exp(energy - top)
    shares = shares / ops.sum(shares, axis=1, keepdims=True)
    alive = ops.logical_and(ops.any(chain.mask, axis=1, keepdims=True), top > IMPOSSIBLE)
    return ops.where(alive, shares, ops.zeros((), shares.dtype))


# ------------------------------------------------------------------ partition function and scores


def log_partition(chain: Chain) -> Tensor:
    """Compute `log sum_y exp s(y)` over all tag sequences, `(B,)`; 0 for empty sentences.

    T steps of O(K^2) forward, and as many backward for the gradient, which is the marginals of tags
    and pairs. If all sequences are forbidden, the result is below `IMPOSSIBLE` and the gradient 0.
    """

    def run(
        emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, counts: Tensor
    ) -> tuple[Tensor, Callable[..., Any]]:
        given = Chain(emissions, transitions, starts, ends, counts > 0)
        passed = forward(given, log_sum_of)
        total = log_sum_of((passed.last + given.ends)[..., None])[:, 0]
        total = ops.where(ops.any(given.mask, axis=1), total, ops.zeros((), total.dtype))

        def gradient(*above: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
            upstream = above[0] if upstream is None else upstream
            end = _end_shares(given, passed.last) * upstream[:, None]
            shares, pairs = _shares(given, passed, end)
            _, first = there_and_first(given.mask)
            begin = ops.sum(ops.where(first, shares, ops.zeros((), shares.dtype)), axis=(0, 1))
            shares = ops.swapaxes(shares, 0, 1)
            return shares, pairs, begin, ops.sum(end, axis=0), ops.zeros_like(counts)

        return total, gradient

    # The mask is a float argument: inside a branch, JAX allows a custom gradient neither
    # closed-over tensors nor arguments without a gradient.
    counts = ops.cast(chain.mask, chain.emissions.dtype)
    total: Tensor = ops.custom_gradient(run)(*chain[:4], counts)
    return total


def marginals(chain: Chain) -> Tensor:
    """Compute the marginal probability of each tag at each position, `(B, T, K)`.

    It is 0 at masked positions, and for sentences whose sequences are all forbidden.
    """
    passed = forward(chain, log_sum_of)
    shares, _ = _shares(chain, passed, _end_shares(chain, passed.last))
    return ops.swapaxes(shares, 0, 1)


def path_score(chain: Chain, tags: Tensor) -> Tensor:
    """Compute `s(y)` of one tag sequence per sentence, `(B,)`; 0 for empty sentences.

    Args:
        chain: the energies.
        tags: `(B, T)` integers, ignored at masked positions. A number outside of 0 .. K-1 makes the
            sequence forbidden.
    """
    size, zero = chain.starts.shape[0], ops.zeros((), chain.emissions.dtype)
    places = ops.shape(tags)[1]
    known = ops.logical_and(tags >= 0, tags < size)
    chosen = ops.one_hot(ops.where(chain.mask, tags, -1), size, dtype=chain.emissions.dtype)
    score = ops.sum(chosen * chain.emissions, axis=(1, 2))
    # Move unmasked positions to the front, and append one, so that a first position exists.
    tags = ops.take_along_axis(ops.where(known, tags, 0), to_front(chain.mask), axis=1)
    tags = ops.pad(tags, ((0, 0), (0, 1)))
    count = ops.sum(ops.cast(chain.mask, "int32"), axis=1)
    steps = ops.take(ops.reshape(chain.transitions, (-1,)), tags[:, :-1] * size + tags[:, 1:])
    steps = ops.where(ops.arange(places, dtype="int32") < count[:, None] - 1, steps, zero)
    final = ops.take_along_axis(tags, ops.maximum(count - 1, 0)[:, None], axis=1)[:, 0]
    sides = ops.take(chain.starts, tags[:, 0]) + ops.take(chain.ends, final)
    score = score + ops.sum(steps, axis=1) + ops.where(count > 0, sides, zero)
    strange = ops.any(ops.logical_and(chain.mask, ops.logical_not(known)), axis=1)
    return ops.where(strange, ops.cast(FORBIDDEN, score.dtype), score)


def partial_score(chain: Chain, allowed: Tensor) -> Tensor:
    """Compute `log sum exp s(y)` over the sequences of allowed tags, `(B,)`.

    Args:
        chain: the energies.
        allowed: `(B, T, K)` booleans, the allowed tags at each position.
    """
    energies = ops.where(allowed, chain.emissions, ops.cast(FORBIDDEN, chain.emissions.dtype))
    return log_partition(chain._replace(emissions=zero_masked(energies, chain.mask)))

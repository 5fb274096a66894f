"""Chains of tags: sums over all sequences of tags, scores of some of them, shares of each tag.

Letters: B sentences, T places, K tags. The score of tags y_1 .. y_n, of the n places that count, is

    `s(y) = start_{y_1} + sum_t emission_{t, y_t} + sum_{t>1} transition_{y_{t-1}, y_t} + end_{y_n}`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import backend, ops

from attention_zoo.ops.arguments import check_shape
from attention_zoo.ops.masking import as_boolean_mask, to_front, zero_masked
from attention_zoo.ops.recurrence import scan

Tensor = Any

FORBIDDEN = -1e30
"""The energy of what must not be: finite, so that no gradient is NaN, and beyond every other."""
IMPOSSIBLE = FORBIDDEN / 2
"""Scores below are of sequences that hold something forbidden."""


class Chain(NamedTuple):
    """Energies of B sentences of T places, made by `make_chain`.

    Attributes:
        emissions: `(B, T, K)`, 0 at places that do not count.
        transitions: `(K, K)`, of a tag (row) before a tag (column).
        starts, ends: `(K,)`, of the first and of the last tag.
        mask: `(B, T)` booleans, of any form; neighbours are places with none that counts between.
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
    """A chain in float32 at least; energies below `FORBIDDEN`, as -inf, become that.

    Args:
        emissions: `(B, T, K)`; what stands at hidden places (NaN too) reaches nothing.
        transitions: `(K, K)`. starts, ends: `(K,)`, 0 if None.
        mask: `(B, T)`, True where a place counts; all count if None.

    Raises:
        ValueError: other shapes; a mask of floats.
    """
    emissions, transitions = ops.convert_to_tensor(emissions), ops.convert_to_tensor(transitions)
    tags = transitions.shape[-1]
    check_shape("emissions", emissions.shape, ("batch", "places", tags))
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
    """A chain as one tensor `(B, T + K + 2, K + 1)`, each row of which stands for itself.

    Of a row the first T lines are `[emissions, whether the place counts]`, K more `[transitions,
    0]`, the last two `[starts, 0]` and `[ends, 0]`.
    """
    dtype = chain.emissions.dtype
    counts = ops.cast(chain.mask, dtype)[..., None]
    shared = ops.concatenate([chain.transitions, chain.starts[None], chain.ends[None]], axis=0)
    shared = ops.pad(shared, ((0, 0), (0, 1)))
    lines = ops.broadcast_to(shared, (ops.shape(chain.emissions)[0], *shared.shape))
    return ops.concatenate([ops.concatenate([chain.emissions, counts], axis=-1), lines], axis=1)


def unpack(potentials: Tensor, name: str = "potentials") -> Chain:
    """The chain that `pack` made a tensor of; ValueError for a tensor that it did not make."""
    shape = tuple(potentials.shape)
    tags = shape[-1] - 1 if len(shape) == 3 and shape[-1] else 0
    if tags < 1 or (shape[1] is not None and shape[1] < tags + 2):
        raise ValueError(
            f"{name} must be what a CRF layer returns, (batch, places + tags + 2, tags + 1), "
            f"got shape {shape}"
        )
    places = ops.shape(potentials)[1] - tags - 2
    # Every row holds the same; the sum is of one, or of none where there is no row.
    shared = ops.sum(potentials[:1, places:, :tags], axis=0)
    shared = ops.reshape(shared, (tags + 2, tags))
    lines = potentials[:, :places]
    mask = lines[..., tags] > 0.5
    return make_chain(lines[..., :tags], shared[:tags], shared[tags], shared[tags + 1], mask)


# ------------------------------------------------------------------ over time


class Forward(NamedTuple):
    """What a pass from the first place to the last leaves.

    Attributes:
        arrived: `(T, B, K)`, what reaches each tag of each place, its emission not counted.
        last: `(B, K)`, with the emission, at the last place that counts.
    """

    arrived: Tensor
    last: Tensor


def forward(chain: Chain, reduce: Callable[[Tensor], Tensor]) -> Forward:
    """From place to place `arrived_t = reduce_i(arrived_i + emission_i + transition_ij)`.

    Args:
        chain: of the energies.
        reduce: `(B, K, K)` to `(B, K)`, over the tags before, the axis in the middle.
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
    """`(T, B, 1)` each: whether a place counts, and whether it is the first that does."""
    so_far = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    first = ops.logical_and(mask, so_far == 1)
    return ops.transpose(mask)[..., None], ops.transpose(first)[..., None]


def greatest_of(x: Tensor) -> Tensor:
    """Maximum over the middle axis; `initial`, else no row is refused."""
    return ops.max(x, axis=1, initial=float("-inf"))


def log_sum_of(x: Tensor) -> Tensor:
    """Logarithm of the sum of exponentials over the middle axis, of finite numbers."""
    top = greatest_of(x)
    return top + ops.log(ops.sum(ops.exp(x - top[:, None]), axis=1))


def _shares(chain: Chain, passed: Forward, end: Tensor) -> tuple[Tensor, Tensor]:
    """Carries shares of the last tags back along the ways on which they came.

    The share of j at t goes to the tags i before it as `exp(arrived_i + emission_i + transition_ij
    - arrived_j)`, a distribution over i.

    Args:
        chain: of the energies.
        passed: the forward pass by `log_sum_of`.
        end: `(B, K)`, shares of the last tags.

    Returns:
        Shares of the tags of each place, `(T, B, K)`, 0 at places that do not count, and of the
        pairs of neighbours, `(K, K)`, summed over all.
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
    """`(B, K)`, how likely each tag is the last one; 0 where there is none, or no way to one."""
    energy = last + chain.ends
    top = ops.max(energy, axis=1, keepdims=True, initial=float("-inf"))
    shares = ops.exp(energy - top)
    shares = shares / ops.sum(shares, axis=1, keepdims=True)
    alive = ops.logical_and(ops.any(chain.mask, axis=1, keepdims=True), top > IMPOSSIBLE)
    return ops.where(alive, shares, ops.zeros((), shares.dtype))


# ------------------------------------------------------------------ sums and scores


def log_partition(chain: Chain) -> Tensor:
    """`log sum_y exp s(y)` over all sequences of tags, `(B,)`; 0 of no places.

    T steps of O(K^2), forward, and as many back for the gradient, which is how likely each tag
    and each pair is. Where nothing but forbidden sequences are left it is below `IMPOSSIBLE`, and
    its gradient 0.
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

    # As numbers: what is not an argument, or has no gradient, JAX cannot take along in a branch.
    counts = ops.cast(chain.mask, chain.emissions.dtype)
    total: Tensor = ops.custom_gradient(run)(*chain[:4], counts)
    return total


def marginals(chain: Chain) -> Tensor:
    """How likely each tag is at each place given the whole sentence, `(B, T, K)`.

    0 at places that do not count, and of sentences of which every sequence is forbidden.
    """
    passed = forward(chain, log_sum_of)
    shares, _ = _shares(chain, passed, _end_shares(chain, passed.last))
    return ops.swapaxes(shares, 0, 1)


def path_score(chain: Chain, tags: Tensor) -> Tensor:
    """`s(y)` of one sequence of each sentence, `(B,)`; 0 of no places.

    Args:
        chain: of the energies.
        tags: `(B, T)` integers; what stands at places that do not count is not read. One that is
            no tag makes the sequence a forbidden one.
    """
    size, zero = chain.starts.shape[0], ops.zeros((), chain.emissions.dtype)
    places = ops.shape(tags)[1]
    known = ops.logical_and(tags >= 0, tags < size)
    chosen = ops.one_hot(ops.where(chain.mask, tags, -1), size, dtype=chain.emissions.dtype)
    score = ops.sum(chosen * chain.emissions, axis=(1, 2))
    # Those that count come first, and one more place, so that there is a first one.
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
    """`log sum exp s(y)` over the sequences that sets of tags allow, `(B,)`.

    Args:
        chain: of the energies.
        allowed: `(B, T, K)` booleans, of each place the tags that it may have.
    """
    energies = ops.where(allowed, chain.emissions, ops.cast(FORBIDDEN, chain.emissions.dtype))
    return log_partition(chain._replace(emissions=zero_masked(energies, chain.mask)))

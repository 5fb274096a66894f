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
from attention_zoo.ops.masking import as_boolean_mask, combine_masks, to_front, zero_masked
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
    starts, ends = (ops.zeros((tags,)) if x is None else x for x in (starts, ends))
    starts, ends = ops.convert_to_tensor(starts), ops.convert_to_tensor(ends)
    check_shape("starts", starts.shape, (tags,))
    check_shape("ends", ends.shape, (tags,))
    all_positions = ops.ones_like(emissions[..., 0], dtype="bool")
    if mask is not None:
        mask = as_boolean_mask(mask, "mask", tuple(emissions.shape[:2]))
    mask = combine_masks(mask, all_positions)
    dtypes = [backend.standardize_dtype(x.dtype) for x in (emissions, transitions)]
    dtype = "float64" if "float64" in dtypes else "float32"  # JAX has no float64 in `result_type`
    emissions, transitions, starts, ends = (
        ops.maximum(ops.cast(x, dtype), FORBIDDEN)
        for x in (zero_masked(emissions, mask), transitions, starts, ends)
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
    rows = ops.broadcast_to(shared, (ops.shape(chain.emissions)[0], *shared.shape))
    return ops.concatenate([ops.concatenate([chain.emissions, counts], axis=-1), rows], axis=1)


def unpack(potentials: Tensor, name: str = "potentials") -> Chain:
    """Unpack a tensor returned by `pack`; raise ValueError if its shape is not one of `pack`."""
    shape = tuple(potentials.shape)
    tags = shape[-1] - 1 if len(shape) == 3 and shape[-1] else 0
    if tags < 1 or (shape[1] is not None and shape[1] < tags + 2):
        raise ValueError(
            f"{name} must be the output of a CRF layer, (batch, positions + tags + 2, tags + 1), "
            f"got shape {shape}"
        )
    positions = ops.shape(potentials)[1] - tags - 2
    # All batch rows have the same parameters; the sum is over one row, or none of an empty batch.
    shared = ops.sum(potentials[:1, positions:, :tags], axis=0)
    shared = ops.reshape(shared, (tags + 2, tags))
    rows = potentials[:, :positions]
    mask = rows[..., tags] > 0.5
    return make_chain(rows[..., :tags], shared[:tags], shared[tags], shared[tags + 1], mask)


# ------------------------------------------------------------------ recursions over time


class ForwardResult(NamedTuple):
    """Result of the forward recursion.

    Attributes:
        incoming: `(T, B, K)`, forward score of each tag at each position, without its emission.
        last: `(B, K)`, forward score of each tag at the last unmasked position, with its emission.
    """

    incoming: Tensor
    last: Tensor


def run_forward(chain: Chain, reduce: Callable[[Tensor], Tensor]) -> ForwardResult:
    """Run the forward recursion `incoming_t = reduce_i(incoming_i + emission_i + transition_ij)`.

    Args:
        chain: the energies.
        reduce: reduces `(B, K, K)` to `(B, K)`, over the previous tags, the middle axis.
    """
    is_unmasked, is_first, _ = split_positions(chain.mask)

    def step(state: Tensor, step_inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        energy, is_unmasked, is_first = step_inputs
        incoming = reduce(state[:, :, None] + chain.transitions)
        incoming = ops.where(is_first, chain.starts, ops.where(is_unmasked, incoming, state))
        return incoming + energy, incoming

    rows, _, tags = ops.shape(chain.emissions)
    zeros = ops.zeros((rows, tags), chain.emissions.dtype)
    inputs = (ops.swapaxes(chain.emissions, 0, 1), is_unmasked, is_first)
    last, incoming = scan(step, zeros, inputs, like=zeros)
    return ForwardResult(incoming, last)


def split_positions(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which positions are unmasked, the first of these, the others; `(T, B, 1)` each."""
    mask = ops.transpose(mask)[..., None]
    count = ops.cumsum(ops.cast(mask, "int32"), axis=0)
    return mask, ops.logical_and(mask, count == 1), ops.logical_and(mask, count > 1)


def reduce_max(x: Tensor) -> Tensor:
    """Return the maximum over the middle axis; without `initial`, empty batches fail."""
    return ops.max(x, axis=1, initial=float("-inf"))


def reduce_log_sum(x: Tensor) -> Tensor:
    """Return the log-sum-exp over the middle axis, of finite numbers."""
    top = reduce_max(x)
    return top + ops.log(ops.sum(ops.exp(x - top[:, None]), axis=1))


def _propagate_marginals(
    chain: Chain, forward_result: ForwardResult, end_marginals: Tensor
) -> tuple[Tensor, Tensor]:
    """Propagate the marginals of the last tags backward to all tags.

    The marginal of tag j at t is distributed over the previous tags i with the probabilities
    `exp(incoming_i + emission_i + transition_ij - incoming_j)`.

    Args:
        chain: the energies.
        forward_result: result of the forward recursion with `reduce_log_sum`.
        end_marginals: `(B, K)`, marginals of the last tags, or multiples of them.

    Returns:
        Marginals of the tags at each position, `(T, B, K)`, 0 at masked positions, and of adjacent
        pairs of tags, `(K, K)`, summed over positions and sentences.
    """
    is_unmasked, _, has_previous = split_positions(chain.mask)
    alphas = forward_result.incoming + ops.swapaxes(chain.emissions, 0, 1)
    transposed = ops.transpose(chain.transitions)
    has_previous = ops.logical_and(has_previous, forward_result.incoming > IMPOSSIBLE)

    def step(state: tuple[Tensor, ...], step_inputs: tuple[Tensor, ...]) -> Any:
        marginal, pairs = state
        previous, incoming, is_unmasked, has_previous = step_inputs
        candidates = previous[:, None, :] + transposed - incoming[:, :, None]  # (B, to, from)
        flow = ops.exp(ops.where(has_previous[:, :, None], candidates, 0))
        flow = flow * ops.where(has_previous, marginal, 0)[:, :, None]
        pairs = pairs + ops.sum(flow, axis=0)
        previous_marginal = ops.where(is_unmasked, ops.sum(flow, axis=1), marginal)
        return (previous_marginal, pairs), ops.where(is_unmasked, marginal, 0)

    inputs = (ops.roll(alphas, 1, axis=0), forward_result.incoming, is_unmasked, has_previous)
    state = (end_marginals, ops.zeros_like(transposed))
    (_, pairs), tag_marginals = scan(step, state, inputs, like=end_marginals, reverse=True)
    return tag_marginals, ops.transpose(pairs)


def _compute_end_marginals(chain: Chain, last: Tensor) -> Tensor:
    """Return the marginals of the last tag, `(B, K)`; 0 if there is none or all are forbidden."""
    energy = last + chain.ends
    top = ops.max(energy, axis=1, keepdims=True, initial=float("-inf"))
    tag_marginals = ops.exp(energy - top)
    tag_marginals = tag_marginals / ops.sum(tag_marginals, axis=1, keepdims=True)
    is_valid = ops.logical_and(ops.any(chain.mask, axis=1, keepdims=True), top > IMPOSSIBLE)
    return ops.where(is_valid, tag_marginals, 0)


# ------------------------------------------------------------------ partition function and scores


def log_partition(chain: Chain) -> Tensor:
    """Compute `log sum_y exp s(y)` over all tag sequences, `(B,)`; 0 for empty sentences.

    T steps of O(K^2) forward, and as many backward for the gradient, which is the marginals of tags
    and pairs. If all sequences are forbidden, the result is below `IMPOSSIBLE` and the gradient 0.
    """

    def run(*inputs: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        emissions, transitions, starts, ends, counts = inputs
        chain = Chain(emissions, transitions, starts, ends, counts > 0)
        forward_result = run_forward(chain, reduce_log_sum)
        total = reduce_log_sum((forward_result.last + chain.ends)[..., None])[:, 0]
        total = ops.where(ops.any(chain.mask, axis=1), total, 0)

        def gradient(*upstream_args: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
            upstream = upstream_args[0] if upstream is None else upstream
            end_marginals = _compute_end_marginals(chain, forward_result.last) * upstream[:, None]
            tag_marginals, pairs = _propagate_marginals(chain, forward_result, end_marginals)
            _, is_first, _ = split_positions(chain.mask)
            by_emissions = ops.swapaxes(tag_marginals, 0, 1)
            by_starts = ops.sum(ops.where(is_first, tag_marginals, 0), axis=(0, 1))
            by_ends = ops.sum(end_marginals, axis=0)
            return by_emissions, pairs, by_starts, by_ends, ops.zeros_like(counts)

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
    forward_result = run_forward(chain, reduce_log_sum)
    end_marginals = _compute_end_marginals(chain, forward_result.last)
    tag_marginals, _ = _propagate_marginals(chain, forward_result, end_marginals)
    return ops.swapaxes(tag_marginals, 0, 1)


def path_score(chain: Chain, tags: Tensor) -> Tensor:
    """Compute `s(y)` of one tag sequence per sentence, `(B,)`; 0 for empty sentences.

    Args:
        chain: the energies.
        tags: `(B, T)` integers, ignored at masked positions. A number outside of 0 .. K-1 makes the
            sequence forbidden.
    """
    size, positions = chain.starts.shape[0], ops.shape(tags)[1]
    is_tag = ops.logical_and(tags >= 0, tags < size)
    one_hot = ops.one_hot(ops.where(chain.mask, tags, -1), size, dtype=chain.emissions.dtype)
    score = ops.sum(one_hot * chain.emissions, axis=(1, 2))
    # Move unmasked positions to the front, and append one, so that a first position exists.
    tags = ops.take_along_axis(ops.where(is_tag, tags, 0), to_front(chain.mask), axis=1)
    tags = ops.pad(tags, ((0, 0), (0, 1)))
    count = ops.sum(ops.cast(chain.mask, "int32"), axis=1)
    steps = ops.take(ops.reshape(chain.transitions, (-1,)), tags[:, :-1] * size + tags[:, 1:])
    steps = ops.where(ops.arange(positions, dtype="int32") < count[:, None] - 1, steps, 0)
    last_tags = ops.take_along_axis(tags, ops.maximum(count - 1, 0)[:, None], axis=1)[:, 0]
    boundary_scores = ops.take(chain.starts, tags[:, 0]) + ops.take(chain.ends, last_tags)
    score = score + ops.sum(steps, axis=1) + ops.where(count > 0, boundary_scores, 0)
    is_invalid = ops.any(ops.logical_and(chain.mask, ops.logical_not(is_tag)), axis=1)
    return ops.where(is_invalid, FORBIDDEN, score)


def partial_score(chain: Chain, allowed: Tensor) -> Tensor:
    """Compute `log sum exp s(y)` over the sequences of allowed tags, `(B,)`.

    Args:
        chain: the energies.
        allowed: `(B, T, K)` booleans, the allowed tags at each position.
    """
    energies = ops.where(allowed, chain.emissions, FORBIDDEN)
    return log_partition(chain._replace(emissions=zero_masked(energies, chain.mask)))

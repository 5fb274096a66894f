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
from attention_zoo.ops.recurrence import scan, shift
from attention_zoo.typing import Tensor

FORBIDDEN = -1e30
"""Score of forbidden tags and transitions: below all others, but finite to avoid NaN gradients."""
IMPOSSIBLE = FORBIDDEN / 2
"""A sequence with a score below this contains a forbidden tag or transition."""


class Chain(NamedTuple):
    """Emission and transition scores of B sentences of T positions, created by `make_chain`.

    Attributes:
        emissions: `(B, T, K)`, 0 at masked positions.
        transitions: `(K, K)`, from the row's tag to the column's.
        starts, ends: `(K,)`, start scores of the first tag, end scores of the last tag.
        mask: `(B, T)` booleans. Padding may be anywhere; the chain skips masked positions.
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
    """Create a chain in at least float32; scores below `FORBIDDEN`, such as -inf, are raised to it.

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
        _clamp_scores(ops.cast(x, dtype))
        for x in (zero_masked(emissions, mask), transitions, starts, ends)
    )
    return Chain(emissions, transitions, starts, ends, mask)


def _clamp_scores(scores: Tensor) -> Tensor:
    """Clamp scores to at least `FORBIDDEN`; NaN stays NaN, unlike with `maximum` under XLA."""
    return ops.where(scores < FORBIDDEN, FORBIDDEN, scores)


def pack(chain: Chain) -> Tensor:
    """Pack a chain into one tensor `(B, T + K + 2, K + 1)`.

    In each batch row the first T lines are `[emissions, mask]`, the next K `[transitions, 0]`, and
    the last two `[starts, 0]` and `[ends, 0]`. Each batch row contains all parameters, so the
    tensor can be the output of a Keras model, which is split and concatenated over the batch.
    """
    dtype = chain.emissions.dtype
    float_mask = ops.cast(chain.mask, dtype)[..., None]
    shared = ops.concatenate([chain.transitions, chain.starts[None], chain.ends[None]], axis=0)
    shared = ops.pad(shared, ((0, 0), (0, 1)))
    rows = ops.broadcast_to(shared, (ops.shape(chain.emissions)[0], *shared.shape))
    return ops.concatenate([ops.concatenate([chain.emissions, float_mask], axis=-1), rows], axis=1)


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
    # All batch rows contain the same parameters. Take those of the first row; the sum makes them 0
    # for an empty batch.
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
    """Run the forward recursion.

    `incoming_{t,j} = reduce_i(incoming_{t-1,i} + emission_{t-1,i} + transition_{i,j})`, with
    `incoming_{1,j} = start_j`

    Args:
        chain: the scores.
        reduce: reduces `(B, K, K)` to `(B, K)`, over the previous tags, the middle axis.
    """
    is_unmasked, is_first, _ = split_positions(chain.mask)

    def step(state: Tensor, step_inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        emission, is_unmasked, is_first = step_inputs
        incoming = reduce(state[:, :, None] + chain.transitions)
        incoming = ops.where(is_first, chain.starts, ops.where(is_unmasked, incoming, state))
        return incoming + emission, incoming

    rows, _, tags = ops.shape(chain.emissions)
    zeros = ops.zeros((rows, tags), chain.emissions.dtype)
    inputs = (ops.swapaxes(chain.emissions, 0, 1), is_unmasked, is_first)
    last, incoming = scan(step, zeros, inputs, like=zeros)
    return ForwardResult(incoming, last)


def split_positions(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return masks `(T, B, 1)` of unmasked positions: all, the first, all later ones."""
    mask = ops.transpose(mask)[..., None]
    count = ops.cumsum(ops.cast(mask, "int32"), axis=0)
    return mask, ops.logical_and(mask, count == 1), ops.logical_and(mask, count > 1)


def reduce_max(x: Tensor) -> Tensor:
    """Return the maximum over the middle axis; without `initial`, empty batches fail."""
    return ops.max(x, axis=1, initial=float("-inf"))


def reduce_log_sum(x: Tensor) -> Tensor:
    """Return the log-sum-exp over the middle axis; `x` must be finite."""
    top = reduce_max(x)
    return top + ops.log(ops.sum(ops.exp(x - top[:, None]), axis=1))


def _propagate_marginals(
    chain: Chain, forward_result: ForwardResult, end_marginals: Tensor
) -> tuple[Tensor, Tensor]:
    """Propagate the marginals of the last tags backward to all tags.

    The marginal of tag j at t is distributed over the previous tags i with the probabilities
    `exp(incoming_{t-1,i} + emission_{t-1,i} + transition_{i,j} - incoming_{t,j})`.

    Args:
        chain: the scores.
        forward_result: result of the forward recursion with `reduce_log_sum`.
        end_marginals: `(B, K)`, marginals of the last tags, or multiples of them.

    Returns:
        Marginals of the tags at each position, `(T, B, K)`, 0 at masked positions, and of adjacent
        pairs of tags, `(K, K)`, summed over positions and sentences.
    """
    is_unmasked, _, has_previous = split_positions(chain.mask)
    # Forward scores alpha, with emissions.
    alphas = forward_result.incoming + ops.swapaxes(chain.emissions, 0, 1)
    transposed = ops.transpose(chain.transitions)
    incoming = forward_result.incoming
    # Not `logical_not(incoming <= IMPOSSIBLE)`: TensorFlow's graph optimizer would lose NaN.
    has_previous &= ops.logical_or(incoming > IMPOSSIBLE, ops.isnan(incoming))

    def step(state: tuple[Tensor, ...], step_inputs: tuple[Tensor, ...]) -> Any:
        marginal, pairs = state
        previous, incoming, is_unmasked, has_previous = step_inputs
        log_ratios = previous[:, None, :] + transposed - incoming[:, :, None]  # (B, to, from)
        pair_marginals = ops.exp(ops.where(has_previous[:, :, None], log_ratios, 0))
        pair_marginals = pair_marginals * ops.where(has_previous, marginal, 0)[:, :, None]
        pairs = pairs + ops.sum(pair_marginals, axis=0)
        previous_marginal = ops.where(is_unmasked, ops.sum(pair_marginals, axis=1), marginal)
        return (previous_marginal, pairs), ops.where(is_unmasked, marginal, 0)

    inputs = (shift(alphas, axis=0), forward_result.incoming, is_unmasked, has_previous)
    state = (end_marginals, ops.zeros_like(transposed))
    (_, pairs), tag_marginals = scan(step, state, inputs, like=end_marginals, reverse=True)
    return tag_marginals, ops.transpose(pairs)


def _compute_end_marginals(chain: Chain, last: Tensor) -> Tensor:
    """Return the marginals of the last tag, `(B, K)`.

    They are 0 for an empty sentence, or if all sequences are forbidden.
    """
    scores = last + chain.ends
    top = ops.max(scores, axis=1, keepdims=True, initial=float("-inf"))
    tag_marginals = ops.exp(scores - top)
    tag_marginals = tag_marginals / ops.sum(tag_marginals, axis=1, keepdims=True)
    is_empty = ops.logical_not(ops.any(chain.mask, axis=1, keepdims=True))
    return ops.where(ops.logical_or(is_empty, top <= IMPOSSIBLE), 0, tag_marginals)


# ------------------------------------------------------------------ partition function and scores


def log_partition(chain: Chain) -> Tensor:
    """Compute `log sum_y exp s(y)` over all tag sequences, `(B,)`; 0 for empty sentences.

    It takes T steps of O(K^2). The gradient takes as many: it consists of the marginals of the tags
    and of adjacent pairs of tags. If all sequences are forbidden, the result is below `IMPOSSIBLE`
    and the gradient 0.
    """

    def run(*inputs: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        emissions, transitions, starts, ends, float_mask = inputs
        chain = Chain(emissions, transitions, starts, ends, float_mask > 0)
        forward_result = run_forward(chain, reduce_log_sum)

        def gradient(*upstream_args: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
            upstream = upstream_args[0] if upstream is None else upstream
            by_scores = _differentiate_partition(chain, forward_result, upstream)
            return *by_scores, ops.zeros_like(float_mask)

        return _compute_log_partition(chain, forward_result), gradient

    # JAX requires differentiable arguments of a custom gradient: the mask is passed as floats.
    float_mask = ops.cast(chain.mask, chain.emissions.dtype)
    total: Tensor = ops.custom_gradient(run)(*chain[:4], float_mask)
    return total


def _compute_log_partition(chain: Chain, forward_result: ForwardResult) -> Tensor:
    """Compute the log partition function, `(B,)`, from the last forward scores."""
    total = reduce_log_sum((forward_result.last + chain.ends)[..., None])[:, 0]
    return ops.where(ops.any(chain.mask, axis=1), total, 0)


def _differentiate_partition(
    chain: Chain, forward_result: ForwardResult, upstream: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of emissions, transitions, starts and ends."""
    end_marginals = _compute_end_marginals(chain, forward_result.last) * upstream[:, None]
    tag_marginals, pairs = _propagate_marginals(chain, forward_result, end_marginals)
    _, is_first, _ = split_positions(chain.mask)
    by_starts = ops.sum(ops.where(is_first, tag_marginals, 0), axis=(0, 1))
    return ops.swapaxes(tag_marginals, 0, 1), pairs, by_starts, ops.sum(end_marginals, axis=0)


def marginals(chain: Chain) -> Tensor:
    """Compute the marginal probability of each tag at each position, `(B, T, K)`.

    It is 0 at masked positions, and for sentences whose sequences are all forbidden.
    """
    forward_result = run_forward(chain, reduce_log_sum)
    end_marginals = _compute_end_marginals(chain, forward_result.last)
    tag_marginals, _ = _propagate_marginals(chain, forward_result, end_marginals)
    return ops.swapaxes(tag_marginals, 0, 1)


class _Path(NamedTuple):
    """One tag sequence per sentence, one-hot encoded; 0 at masked positions.

    Attributes:
        tags: `(B, T, K)`. first, last: `(B, K)`.
        previous, next: `(B, T, K)`, the tags of adjacent unmasked positions, 0 after the last pair.
    """

    tags: Tensor
    first: Tensor
    last: Tensor
    previous: Tensor
    next: Tensor


def _make_path(tags: Tensor, mask: Tensor) -> _Path:
    """Create a path from its one-hot tags, `(B, T, K)`."""
    tags = zero_masked(tags, mask)
    # Move the tags of unmasked positions to the front; append a row of 0, so that `packed[:, 0]`
    # exists for T = 0.
    packed = ops.take_along_axis(tags, to_front(mask)[..., None], axis=1)
    packed = ops.pad(packed, ((0, 0), (0, 1), (0, 0)))
    positions = ops.arange(ops.shape(packed)[1], dtype="int32")[:, None]
    count = ops.sum(ops.cast(mask, "int32"), axis=1)[:, None, None]
    last = ops.sum(ops.where(positions == count - 1, packed, 0), axis=1)
    next_tags = packed[:, 1:]
    has_next = ops.any(next_tags > 0, axis=-1, keepdims=True)
    return _Path(tags, packed[:, 0], last, ops.where(has_next, packed[:, :-1], 0), next_tags)


def _score_path(chain: Chain, path: _Path) -> Tensor:
    """Compute `s(y)`, `(B,)`."""
    rows = ops.take(chain.transitions, ops.argmax(path.previous, axis=-1), axis=0)
    steps = ops.sum(rows * path.next, axis=(1, 2))
    ends = ops.sum(path.first * chain.starts + path.last * chain.ends, axis=1)
    score = ops.sum(path.tags * chain.emissions, axis=(1, 2)) + steps + ends
    return ops.where(
        ops.any(chain.mask, axis=1), score, 0
    )  # 0 for an empty sentence, even if parameters are NaN


def _differentiate_path(path: _Path, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of emissions, transitions, starts and ends."""
    column = upstream[:, None]
    # Products of 0 and 1 are exact, also on hardware that rounds the factors of matmul to TF32.
    counts = ops.matmul(ops.transpose(path.previous, (0, 2, 1)), path.next)  # (B, K, K)
    pairs = ops.sum(counts * column[..., None], axis=0)
    by_starts, by_ends = (ops.sum(x * column, axis=0) for x in (path.first, path.last))
    return path.tags * column[..., None], pairs, by_starts, by_ends


def path_score(chain: Chain, tags: Tensor) -> Tensor:
    """Compute `s(y)` of one tag sequence per sentence, `(B,)`; 0 for empty sentences.

    Args:
        chain: the scores.
        tags: `(B, T)` integers, ignored at masked positions. A number outside of 0 .. K-1 makes the
            sequence forbidden.
    """
    size = chain.starts.shape[0]
    is_tag = ops.logical_and(tags >= 0, tags < size)
    one_hot = ops.one_hot(ops.where(is_tag, tags, 0), size, dtype=chain.emissions.dtype)
    score = _score_path(chain, _make_path(one_hot, chain.mask))
    is_invalid = ops.any(ops.logical_and(chain.mask, ops.logical_not(is_tag)), axis=1)
    return ops.where(is_invalid, FORBIDDEN, score)


def partial_score(chain: Chain, allowed: Tensor) -> Tensor:
    """Compute `log sum exp s(y)` over the sequences of allowed tags, `(B,)`.

    If every unmasked position of the batch has exactly one allowed tag, the score and its gradient
    are computed without the forward recursion.

    Args:
        chain: the scores.
        allowed: `(B, T, K)` booleans, the allowed tags at each position.
    """

    def run(*inputs: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        emissions, transitions, starts, ends, float_mask, float_allowed = inputs
        chain = Chain(emissions, transitions, starts, ends, float_mask > 0)
        emissions = ops.where(float_allowed > 0, emissions, FORBIDDEN)
        restricted = chain._replace(emissions=zero_masked(emissions, chain.mask))
        has_one_tag = ops.logical_or(ops.sum(float_allowed, axis=-1) == 1, float_mask == 0)
        is_path = ops.all(has_one_tag)

        def score_path() -> Tensor:
            return _score_path(chain, _make_path(float_allowed, chain.mask))

        def score_sequences() -> Tensor:
            return _compute_log_partition(restricted, run_forward(restricted, reduce_log_sum))

        def gradient(*upstream_args: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
            upstream = upstream_args[0] if upstream is None else upstream

            def differentiate_path() -> tuple[Tensor, ...]:
                return _differentiate_path(_make_path(float_allowed, chain.mask), upstream)

            def differentiate_sequences() -> tuple[Tensor, ...]:
                forward_result = run_forward(restricted, reduce_log_sum)
                return _differentiate_partition(restricted, forward_result, upstream)

            by_scores = ops.cond(is_path, differentiate_path, differentiate_sequences)
            return *by_scores, ops.zeros_like(float_mask), ops.zeros_like(float_allowed)

        return ops.cond(is_path, score_path, score_sequences), gradient

    # XLA cannot compile the gradient of `ops.cond` with dynamic shapes: hence the custom gradient.
    float_mask, float_allowed = (ops.cast(x, chain.emissions.dtype) for x in (chain.mask, allowed))
    score: Tensor = ops.custom_gradient(run)(*chain[:4], float_mask, float_allowed)
    return score

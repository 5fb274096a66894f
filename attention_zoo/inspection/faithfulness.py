"""Faithfulness of attention and attributions: deletion and insertion curves, rank correlation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.ops.arguments import format_value, whole_number

BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Fractions of the tokens in rationales, of DeYoung et al. 2020, section 4."""
FRACTIONS = tuple(step / 10 for step in range(11))
"""Default fractions of the tokens that are deleted or inserted."""
REMOVE = "remove"
"""Value of `replacement` that removes tokens instead of replacing them."""


class PerturbationCurves(NamedTuple):
    """Effect of deleting and of inserting the tokens with the highest scores, of B examples.

    Attributes:
        fractions: `(K,)`, fractions of the tokens, from 0 to 1.
        deletion: `(B, K)`, outputs without these tokens.
        insertion: `(B, K)`, outputs with these tokens only.
        deletion_area: `(B,)`, area under the deletion curve; low if the scores are faithful.
        insertion_area: `(B,)`, area under the insertion curve; high if the scores are faithful.
        comprehensiveness: `(B,)`, mean decrease of the output without the rationale of each bin;
            high if the scores are faithful.
        sufficiency: `(B,)`, mean decrease of the output with the rationale of each bin only; low if
            the scores are faithful.
    """

    fractions: NDArray[Any]
    deletion: NDArray[Any]
    insertion: NDArray[Any]
    deletion_area: NDArray[Any]
    insertion_area: NDArray[Any]
    comprehensiveness: NDArray[Any]
    sufficiency: NDArray[Any]


def perturbation_curves(
    predict: Callable[[NDArray[Any]], Any],
    tokens: Any,
    scores: Mapping[str, Any],
    mask: Any = None,
    *,
    replacement: int | str = UNKNOWN,
    fractions: Sequence[float] = FRACTIONS,
    bins: Sequence[float] = BINS,
    padding_id: int = 0,
) -> dict[str, PerturbationCurves]:
    """Compute deletion and insertion curves, comprehensiveness and sufficiency of scores.

    With m the output, x the tokens, r_q the q n tokens with the highest scores of n tokens, rounded
    up (the rationale), and `x \\ r` the tokens without the rationale:

    - deletion: `m(x \\ r_q)` for each fraction q, insertion: `m(r_q)`; areas by the trapezoid rule;
    - `comprehensiveness = mean over the bins q of m(x) - m(x \\ r_q)`;
    - `sufficiency = mean over the bins q of m(x) - m(r_q)`.

    Of equal scores, the first position counts as the highest. Padding, and positions where `mask`
    is False, such as special tokens, are never deleted and do not count in n.

    Args:
        predict: maps token ids `(B, T)` to one number per example, `(B,)`, such as the probability
            of the class that the model predicts. It is called with all examples, in their order.
        tokens: token ids `(B, T)`.
        scores: scores `(B, T)` by name: of attention, rollout, attributions, `random_scores`. All
            are compared on the same examples.
        mask: `(B, T)`, True at tokens that may be deleted; by default, all except padding.
        replacement: id of the token in place of deleted tokens, the unknown token by default; or
            "remove": the remaining tokens move together, and padding follows.
        fractions: increasing fractions of the tokens for the curves, from 0 to 1.
        bins: fractions of the tokens for comprehensiveness and sufficiency.
        padding_id: id of padding.

    Returns:
        `PerturbationCurves` by name.

    Raises:
        ValueError: scores or a mask of another shape than the tokens, scores that are not finite,
            fractions outside 0..1, or outputs of another shape than `(B,)`.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.inspection.faithfulness import perturbation_curves
        >>> def count_sevens(tokens):
        ...     return (tokens == 7).sum(axis=1)
        >>> curves = perturbation_curves(
        ...     count_sevens, np.array([[5, 7]]), {"attention": [[0.1, 0.9]]}, fractions=(0, 0.5, 1)
        ... )
        >>> curves["attention"].deletion.tolist(), curves["attention"].insertion.tolist()
        ([[1.0, 0.0, 0.0]], [[0.0, 1.0, 1.0]])

    Reference:
        DeYoung et al. 2020, arXiv 1911.03429, section 4, equations 1 to 3. Equation 3 divides the
        sum over |B| bins and the empty rationale by |B| + 1; the authors' code computes the mean
        over the bins, as here. Curves: Petsiuk et al. 2018, arXiv 1806.07421: the deletion and
        insertion metrics.
    """
    tokens = np.asarray(tokens)
    if tokens.ndim != 2 or not np.issubdtype(tokens.dtype, np.integer) or not len(tokens):
        raise ValueError(
            f"tokens must be integers (B, T) with at least one example, got {tokens.dtype} of "
            f"shape {tokens.shape}"
        )
    if not isinstance(scores, Mapping) or not scores:
        raise ValueError(
            'scores must be a dict with at least one entry, such as {"attention": weights}, got '
            f"{format_value(scores)}"
        )
    points, thresholds = _check_fractions("fractions", fractions), _check_fractions("bins", bins)
    if points[0] != 0 or points[-1] != 1:
        raise ValueError(f"fractions must begin with 0 and end with 1, got {points.tolist()}")
    if replacement != REMOVE:
        whole_number('replacement, unless it is "remove",', replacement, 0)
    is_used = (tokens != padding_id) & _read_mask(mask, tokens.shape)
    perturb = _Perturbation(predict, tokens, is_used, replacement, padding_id)
    original = perturb.predict(np.zeros(tokens.shape, bool))
    return {
        name: _compute_curves(perturb, _rank(name, x, is_used), original, points, thresholds)
        for name, x in scores.items()
    }


def random_scores(shape: Sequence[int], seed: int = 0) -> NDArray[Any]:
    """Return uniform random scores in [0, 1), the baseline of faithfulness.

    Args:
        shape: shape of the scores, `(B, T)`.
        seed: seed of the generator; equal seeds give equal scores.

    Returns:
        Scores of that shape, float64.

    Raises:
        ValueError: a negative seed.

    Example:
        >>> from attention_zoo.inspection.faithfulness import random_scores
        >>> random_scores((2, 3), seed=1).shape
        (2, 3)

    Reference: this library.
    """
    return np.random.default_rng(whole_number("seed", seed, 0)).random(tuple(shape))


def kendall_tau(a: Any, b: Any, mask: Any = None) -> NDArray[Any]:
    """Compute Kendall's rank correlation tau-b of the scores of each example.

    `tau = (P - Q) / sqrt((P + Q + A) (P + Q + B))`, where P and Q are the numbers of concordant and
    of discordant pairs of positions, A and B those of pairs tied in a only and in b only.

    Args:
        a, b: scores `(..., T)`.
        mask: `(..., T)`, True at positions to compare; all by default.

    Returns:
        Correlations `(...)` float64, from -1 to 1; NaN if the scores of an example are all equal in
        a or in b, or if fewer than two positions are compared.

    Raises:
        ValueError: different shapes, or scores that are NaN.

    Example:
        >>> from attention_zoo.inspection.faithfulness import kendall_tau
        >>> round(float(kendall_tau([0.1, 0.2, 0.7], [1.0, 3.0, 2.0])), 4)
        0.3333

    Reference:
        Kendall 1945, "The treatment of ties in ranking problems"; compared with gradients in Jain
        and Wallace 2019, arXiv 1902.10186, section 4.1.
    """
    a, b = np.asarray(a, "float64"), np.asarray(b, "float64")
    if a.shape != b.shape or a.ndim < 1:
        raise ValueError(f"a and b must have one shape (..., T), got {a.shape} and {b.shape}")
    used = _read_mask(mask, a.shape)
    if np.isnan(a[used]).any() or np.isnan(b[used]).any():
        raise ValueError("a and b must not contain NaN. Mask these positions.")
    length = a.shape[-1]
    rows = zip(*(x.reshape(-1, length) for x in (a, b, used)), strict=True)
    return np.array([_tau(x[keep], y[keep]) for x, y, keep in rows]).reshape(a.shape[:-1])


def _tau(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return tau-b of the scores of one example."""
    upper = np.triu_indices(len(a), 1)
    signs_a, signs_b = (_compare(x)[upper] for x in (a, b))
    scale = np.sqrt(float(np.count_nonzero(signs_a)) * float(np.count_nonzero(signs_b)))
    return float((signs_a * signs_b).sum() / scale) if scale else float("nan")


def _compare(x: NDArray[Any]) -> NDArray[Any]:
    """Return -1, 0 or 1 for each pair of positions, int64."""
    return (x[:, None] > x).astype("int64") - (x[:, None] < x)


class _Perturbation:
    """Outputs of examples without some of their tokens."""

    def __init__(
        self,
        predict: Callable[[NDArray[Any]], Any],
        tokens: NDArray[Any],
        mask: NDArray[Any],
        replacement: int | str,
        padding_id: int,
    ) -> None:
        self._predict, self._tokens, self.mask = predict, tokens, mask
        self._replacement, self._padding_id = replacement, padding_id

    def predict(self, deleted: NDArray[Any]) -> NDArray[Any]:
        """Return the outputs `(B,)` without the tokens where `deleted (B, T)` is True."""
        if self._replacement == REMOVE:
            order = np.argsort(deleted, axis=1, kind="stable")
            tokens = np.where(deleted, self._padding_id, self._tokens)
            tokens = np.take_along_axis(tokens, order, axis=1)
        else:
            tokens = np.where(deleted, self._replacement, self._tokens)
        outputs = np.asarray(self._predict(tokens.astype(self._tokens.dtype)), "float64")
        if outputs.shape != (len(tokens),):
            raise ValueError(
                f"predict must return one number for each example, shape ({len(tokens)},), got "
                f"shape {outputs.shape}"
            )
        return outputs


def _rank(name: str, scores: Any, mask: NDArray[Any]) -> NDArray[Any]:
    """Return the rank of each position, 0 for the highest score; masked positions rank last."""
    scores = np.asarray(scores, "float64")
    if scores.shape != mask.shape:
        raise ValueError(
            f"scores of {name!r} must have the shape of the tokens, {mask.shape}, got "
            f"{scores.shape}"
        )
    if not np.isfinite(scores[mask]).all():
        raise ValueError(f"scores of {name!r} must be finite, got NaN or infinity at a token")
    order = np.argsort(np.where(mask, -scores, np.inf), axis=1, kind="stable")
    return np.argsort(order, axis=1)


def _compute_curves(
    perturb: _Perturbation,
    ranks: NDArray[Any],
    original: NDArray[Any],
    fractions: NDArray[Any],
    bins: NDArray[Any],
) -> PerturbationCurves:
    """Return the curves of scores with these ranks."""
    counts = perturb.mask.sum(axis=1, keepdims=True)

    def outputs_without(fraction: float, keep: bool) -> NDArray[Any]:
        # rounded, so that 0.1 of 10 tokens, or 0.07 of 100, is not one more
        size = np.ceil(np.round(fraction * counts, 9))
        is_top = ranks < size
        return perturb.predict((is_top != keep) & perturb.mask)

    deletion, insertion = (
        np.stack([outputs_without(q, keep) for q in fractions], axis=1) for keep in (False, True)
    )
    rest, rationale = (
        np.mean([outputs_without(q, keep) for q in bins], axis=0) for keep in (False, True)
    )
    return PerturbationCurves(
        fractions=fractions,
        deletion=deletion,
        insertion=insertion,
        deletion_area=np.trapezoid(deletion, fractions, axis=1),
        insertion_area=np.trapezoid(insertion, fractions, axis=1),
        comprehensiveness=original - rest,
        sufficiency=original - rationale,
    )


def _check_fractions(name: str, values: Sequence[float]) -> NDArray[Any]:
    """Return increasing fractions as an array; raise ValueError for others."""
    fractions = np.asarray(values, "float64")
    if fractions.ndim != 1 or not len(fractions):
        raise ValueError(f"{name} must be a list of numbers, got {format_value(values)}")
    is_increasing = (np.diff(fractions) > 0).all()
    if not is_increasing or fractions[0] < 0 or fractions[-1] > 1:
        raise ValueError(f"{name} must increase within 0..1, got {fractions.tolist()}")
    return fractions


def _read_mask(mask: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a boolean mask of a shape, True everywhere for None."""
    if mask is None:
        return np.ones(shape, bool)
    array = np.asarray(mask)
    if array.shape != shape or not np.isin(array, (0, 1)).all():
        raise ValueError(
            f"mask must be boolean of shape {shape}, got {array.dtype} of shape {array.shape}"
        )
    return array.astype(bool)

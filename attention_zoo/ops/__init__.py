"""Pure functions on tensors: no weights, no state, every supported Keras backend."""

import keras

from attention_zoo.ops.alignment_penalties import PENALTIES, mean_penalty
from attention_zoo.ops.arguments import (
    check_shape,
    finite_number,
    is_symbolic,
    number,
    rate,
    sizes_or,
    static_size,
    whole_number,
)
from attention_zoo.ops.backend import check_backend
from attention_zoo.ops.blocked_top_k import blocked_top_k
from attention_zoo.ops.blockwise import blockwise_attention, dropout_mask
from attention_zoo.ops.compact_gradients import (
    add_same_shape,
    layer_normalization,
    use_compact_gradients,
    where_or_zero,
)
from attention_zoo.ops.copied_cross_entropy import (
    CopyProjection,
    copied_cross_entropy,
    copied_log_probs,
    copied_share,
)
from attention_zoo.ops.empty_batch import pad_empty_batch
from attention_zoo.ops.gradients import gradient
from attention_zoo.ops.host import call_on_host, wait_for_host_calls
from attention_zoo.ops.linear_chain import (
    Chain,
    log_partition,
    make_chain,
    marginals,
    pack,
    partial_score,
    path_score,
    unpack,
)
from attention_zoo.ops.linear_chain_paths import best_path, best_paths, sample
from attention_zoo.ops.mask_pattern import FULL_ATTENTION, MaskPattern
from attention_zoo.ops.masking import (
    as_attention_bias,
    as_attention_mask,
    as_boolean_mask,
    at_least_float32,
    attach_mask,
    axis_size,
    broadcast_mask,
    causal_mask,
    combine_masks,
    has_few_pairs,
    implicit_mask,
    mask_scores,
    masked_softmax,
    match_batches,
    merge_masks,
    project,
    propagate_nan,
    refuse_float_mask,
    repeat_row,
    repeat_to_mask_batch,
    reshape_like,
    to_end,
    to_front,
    unmask_empty_rows,
    zero_masked,
)
from attention_zoo.ops.pairwise import additive_scores, inverse_distances
from attention_zoo.ops.positions import (
    angles,
    distance_buckets,
    distances,
    linear_slopes,
    rotate,
    shrink,
    sinusoids,
    skew,
    stretch,
    unskew,
)
from attention_zoo.ops.projected_cross_entropy import Projection, projected_cross_entropy
from attention_zoo.ops.recurrence import linear_recurrence, scan, shift
from attention_zoo.ops.reductions import max_or_nan
from attention_zoo.ops.sliding_windows import sliding_windows, sum_windows, widen_mask
from attention_zoo.ops.smoothed_cross_entropy import (
    check_label_smoothing,
    smoothed_cross_entropy,
)
from attention_zoo.ops.sparse_softmax import entmax, hardmax, sparsemax, top_k_mask
from attention_zoo.ops.tag_schemes import TAG_SCHEMES, TagConstraints, TagScheme, tag_constraints
from attention_zoo.ops.windows import Window, gather_positions, scatter_window, take_first

check_backend(keras.backend.backend())

__all__ = [
    "FULL_ATTENTION",
    "PENALTIES",
    "TAG_SCHEMES",
    "Chain",
    "CopyProjection",
    "MaskPattern",
    "Projection",
    "TagConstraints",
    "TagScheme",
    "Window",
    "add_same_shape",
    "additive_scores",
    "angles",
    "as_attention_bias",
    "as_attention_mask",
    "as_boolean_mask",
    "at_least_float32",
    "attach_mask",
    "axis_size",
    "best_path",
    "best_paths",
    "blocked_top_k",
    "blockwise_attention",
    "broadcast_mask",
    "call_on_host",
    "causal_mask",
    "check_label_smoothing",
    "check_shape",
    "combine_masks",
    "copied_cross_entropy",
    "copied_log_probs",
    "copied_share",
    "distance_buckets",
    "distances",
    "dropout_mask",
    "entmax",
    "finite_number",
    "gather_positions",
    "gradient",
    "hardmax",
    "has_few_pairs",
    "implicit_mask",
    "inverse_distances",
    "is_symbolic",
    "layer_normalization",
    "linear_recurrence",
    "linear_slopes",
    "log_partition",
    "make_chain",
    "marginals",
    "mask_scores",
    "masked_softmax",
    "match_batches",
    "max_or_nan",
    "mean_penalty",
    "merge_masks",
    "number",
    "pack",
    "pad_empty_batch",
    "partial_score",
    "path_score",
    "project",
    "projected_cross_entropy",
    "propagate_nan",
    "rate",
    "refuse_float_mask",
    "repeat_row",
    "repeat_to_mask_batch",
    "reshape_like",
    "rotate",
    "sample",
    "scan",
    "scatter_window",
    "shift",
    "shrink",
    "sinusoids",
    "sizes_or",
    "skew",
    "sliding_windows",
    "smoothed_cross_entropy",
    "sparsemax",
    "static_size",
    "stretch",
    "sum_windows",
    "tag_constraints",
    "take_first",
    "to_end",
    "to_front",
    "top_k_mask",
    "unmask_empty_rows",
    "unpack",
    "unskew",
    "use_compact_gradients",
    "wait_for_host_calls",
    "where_or_zero",
    "whole_number",
    "widen_mask",
    "zero_masked",
]

"""Pure functions on tensors: no weights, no state, any Keras backend."""

import inspect

from attention_zoo.ops.alignment_penalties import PENALTIES, mean_penalty
from attention_zoo.ops.arguments import check_shape, number, rate, sizes_or, whole_number
from attention_zoo.ops.blocked_top_k import blocked_top_k
from attention_zoo.ops.blockwise import blockwise_attention, dropout_mask
from attention_zoo.ops.copied_cross_entropy import (
    CopyProjection,
    copied_cross_entropy,
    copied_log_probs,
    copied_share,
)
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
    as_boolean_mask,
    at_least_float32,
    broadcast_mask,
    causal_mask,
    combine_masks,
    implicit_mask,
    masked_softmax,
    merge_masks,
    pass_mask_on,
    refuse_float_mask,
    to_end,
    to_front,
    unmask_empty_rows,
    zero_masked,
)
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
from attention_zoo.ops.recurrence import linear_recurrence, scan
from attention_zoo.ops.sliding_windows import sliding_windows
from attention_zoo.ops.smoothed_cross_entropy import (
    check_label_smoothing,
    smoothed_cross_entropy,
)
from attention_zoo.ops.sparse_softmax import entmax, hardmax, sparsemax, top_k_mask
from attention_zoo.ops.tag_schemes import TAG_SCHEMES, TagConstraints, TagScheme, tag_constraints
from attention_zoo.ops.windows import Window, gather_positions, scatter_window

# Every name imported above is public.
__all__ = [
    name for name, item in globals().items() if name[0] != "_" and not inspect.ismodule(item)
]

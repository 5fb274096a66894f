"""Attribution of generated tokens, one at a time, to the source of a model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from attention_zoo.inspection.attribution import Attribution, attribute
from attention_zoo.inspection.attribution_targets import token_log_probability
from attention_zoo.models.generation import END, PAD, START


def attribute_generation(
    model: keras.Model,
    source: Any,
    output_ids: Any,
    method: str = "integrated_gradients",
    **options: Any,
) -> list[Attribution]:
    """Attribute each generated token of a translator, summarizer or captioner to its source.

    The target of token t is `log p(y_t | y_<t, x)`, with the given tokens as prefix (forced
    decoding). With `input_name="target"`, the tokens are attributed to their prefix instead, the
    start token included.

    Args:
        model: a model with inputs "target" and "source", or "image".
        source: token ids `(B, S)`, images `(B, H, W, C)` or feature grids.
        output_ids: the generated tokens `(B, T)`, including the end token, padded with 0.
        method: see `attribute`.
        **options: further arguments of `attribute`.

    Returns:
        An `Attribution` for each of T tokens. The scores of examples whose token is padding are 0.

    Raises:
        ValueError: output ids of another shape, or see `attribute`.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.models import RNNSearch
        >>> from attention_zoo.inspection.generation_attribution import attribute_generation
        >>> model = RNNSearch(9, 9, embedding_dim=4, units=4)
        >>> results = attribute_generation(
        ...     model, np.array([[5, 6, 7]]), np.array([[4, 3]]), "gradient_x_input"
        ... )
        >>> [result.scores.shape for result in results]
        [(1, 3), (1, 3)]

    Reference: Ding et al. 2017, "Visualizing and understanding neural machine translation" (ACL
    P17-1106), section 3, which propagates relevance instead of gradients.
    """
    ids = np.asarray(output_ids)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(
            f"output_ids must be integers (B, T), got {ids.dtype} of shape {ids.shape}"
        )
    prefix = np.concatenate([np.full((len(ids), 1), START), ids], axis=1).astype("int32")
    name = getattr(model, "source_name", "source")
    options = {"input_name": name, **options}
    results = []
    for position, tokens in enumerate(ids.T):
        inputs = {name: source, "target": prefix[:, : position + 1]}
        target = token_log_probability(position, np.where(tokens == PAD, END, tokens))
        result = attribute(model, inputs, target, method, **options)
        is_token = (tokens != PAD).reshape(-1, *[1] * (result.scores.ndim - 1))
        results.append(result._replace(scores=np.where(is_token, result.scores, 0)))
    return results

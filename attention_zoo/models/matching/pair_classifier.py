"""A BERT that classifies text pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.language.bert import BERT, PAD, BERTBackboneMixin
from attention_zoo.models.matching.matcher import Matcher, TokenIds
from attention_zoo.models.presets import Config, collect_arguments, register_model
from attention_zoo.typing import Tensor

NUM_SPECIAL_TOKENS = 3


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class PairClassifier(BERTBackboneMixin, Matcher):
    """A BERT over `[CLS] first [SEP] second [SEP]`, two segments, that classifies the pair.

    `logits = drop(h_CLS) W + b`, where h are the BERT's hidden states

    Args:
        bert: a `BERT` with at least two segments, pretrained or new, or its arguments, with
            `use_pooler=False` by default.
        start_token: id of `[CLS]`, the first token.
        end_token: id of `[SEP]`, which follows both texts.
        classes: names of the K classes; None for one output, a number or a ranking score.
        dropout: dropout rate on h_CLS; the BERT has its own.

    Call arguments:
        inputs: `{"first": (B, S), "second": (B, T)}`, token ids without special tokens, integers;
            0 is padding. S + T is at most the BERT's `max_length` minus 3.
        training: enables dropout.
        return_attention_scores: whether to return the alignment of the two texts too.

    Returns:
        Logits `(B, K)`, float32, `(B, 1)` without classes; if requested, also the weights
        `(B, S, T)` from the tokens of the first text to those of the second: the mean over the
        heads of the last layer, without dropout. Rows sum to less than 1, since a token also
        attends to its own text and to the special tokens.

    Masking:
        Padding (0) may be anywhere, does not affect the logits and has weight 0. Only the special
        tokens remain of two empty texts.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 4.1 and figure 4a: h_CLS is C, W is W
        transposed. The released models apply another layer with tanh to C, the pooler.
    """

    head_options = ("dropout",)
    own_arguments = ("start_token", "end_token", "classes", "dropout", "name", "dtype")

    # layers

    def __init__(
        self,
        bert: BERT | Config,
        start_token: int,
        end_token: int,
        classes: Sequence[str] | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bert = bert = self.make_bert(bert)
        num_segments = bert.settings["num_segments"]
        if num_segments < 2:
            raise ValueError(
                f"bert must have num_segments of at least 2, got {num_segments}. Use another BERT."
            )
        self.init_settings({**collect_arguments(locals()), "bert": dict(bert.settings)})
        for name in ("start_token", "end_token"):
            zoo_ops.whole_number(name, self.settings[name], 1, self.vocabulary_size - 1)
        self.drop = Dropout(dropout, dtype=self.dtype_policy)
        self.build_head(bert.settings["embedding_dim"])

    # inputs

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.bert.settings["vocabulary_size"])

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of each text, that of both together."""
        return self.max_pair_length

    @property
    def max_pair_length(self) -> int:
        """Maximum number of tokens of both texts together."""
        return int(self.bert.settings["max_length"]) - NUM_SPECIAL_TOKENS

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """Embedding layer of the tokens, the BERT's."""
        return self.bert.token_embedding

    # computation

    def compare(
        self, first: TokenIds, second: TokenIds, training: bool, return_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        start, end = (
            ops.full_like(first.tokens[:, :1], self.settings[name])
            for name in ("start_token", "end_token")
        )
        tokens = ops.concatenate([start, first.tokens, end, second.tokens, end], axis=1)
        length = zoo_ops.static_size(tokens.shape[1])
        if length is not None and length - NUM_SPECIAL_TOKENS > self.max_pair_length:
            raise ValueError(
                f"first and second have {length - NUM_SPECIAL_TOKENS} positions, more than "
                f"max_pair_length={self.max_pair_length}. Truncate the texts."
            )
        num_first, num_second = ops.shape(first.tokens)[1], ops.shape(second.tokens)[1]
        is_second = ops.arange(ops.shape(tokens)[1], dtype="int32") >= num_first + 2
        segments = ops.zeros_like(tokens) + ops.cast(is_second, "int32")
        order = zoo_ops.to_front(ops.not_equal(tokens, PAD))
        inputs = {
            "tokens": ops.take_along_axis(tokens, order, axis=1),
            "segments": ops.take_along_axis(segments, order, axis=1),
        }
        hidden = self.bert(inputs, training=training)["hidden"]
        features = self.drop(hidden[:, 0], training=training)
        if not return_weights:
            return features, None
        weights = self._compute_weights(inputs)
        inverse_order = ops.argsort(order, axis=1)
        weights = ops.take_along_axis(weights, inverse_order[:, :, None], axis=1)
        weights = ops.take_along_axis(weights, inverse_order[:, None, :], axis=2)
        start_of_second = num_first + 2
        return features, weights[
            :, 1 : num_first + 1, start_of_second : start_of_second + num_second
        ]

    def _compute_weights(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the mean weights of the last layer's heads, `(B, P, P)`, in inference."""
        mask = ops.not_equal(inputs["tokens"], PAD)
        x = self.bert.norm(self.bert.embed(inputs["tokens"], mask, inputs["segments"]))
        *lower, last = self.bert.encoder
        for layer in lower:
            x = layer(x, mask=mask, training=False)
        _, weights = last(x, mask=mask, return_attention_scores=True, training=False)
        return ops.mean(weights, axis=1)

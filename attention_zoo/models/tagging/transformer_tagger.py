"""BERT tagger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from attention_zoo.layers.attention.expected_lengths import expect_long_sequences
from attention_zoo.layers.attention.steps import is_long_sequence
from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.language.bert import BERT, BERTBackboneMixin
from attention_zoo.models.presets import Config, collect_arguments, register_model
from attention_zoo.models.tagging.tagger import PAD, Inputs, Tagger, WeightList, gather_one_based
from attention_zoo.models.tagging.windows import make_windows
from attention_zoo.ops import whole_number
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

AGGREGATIONS = ("first", "average", "max")
MIN_PROBABILITY = 1e-30
"""Lower bound of probabilities before the logarithm."""


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class TransformerTagger(BERTBackboneMixin, Tagger):
    """A BERT that tags each word from its first token or from all its tokens: softmax or CRF.

    `emissions_w = drop(h_{start_w}) W + b`, where h are the BERT's hidden states; with
    `aggregation="average"`, `emissions_w = log mean_t softmax(drop(h_t) W + b)` over the tokens t
    of the word; with "max", `log softmax(drop(h_t) W + b)` at one of them

    Args:
        bert: a `BERT`, pretrained or new, or its arguments, with `use_pooler=False` by default.
        tags: names of the K tags, in the order of their ids.
        head: any of "kind" ("softmax", the default, or "crf") and "tag_scheme", whose forbidden
            sequences are never decoded and, with "crf", have probability 0 in training too.
        dropout: dropout rate on h; the BERT has its own.
        marks: whether the inputs contain a predicate indicator per token (semantic role labeling),
            which the BERT takes as segment ids. A window without the predicate has no mark.
        class_token: whether a class token precedes each sentence and an end token follows it, as in
            the released models; a task adds them.
        aggregation: the probabilities of a word's tags: "first", those at its first token;
            "average", their mean over its tokens; "max", those at the token with the largest
            probability of any tag. A CRF head requires "first".
        window: maximum number of tokens of a window, at most the BERT's `max_length`; longer
            sentences are split into windows that overlap by half, each with the class token and the
            end token, if there are any. The state of a token is that of the window in whose middle
            it is, or of the first or last window at the ends of the sentence. None: sentences
            longer than the BERT's `max_length` raise an error.

    Call arguments:
        inputs: integers. `"tokens" (B, P)`, 0 is padding, P at most the BERT's `max_length`
            without `window`. `"starts" (B, W)`, the position of each word's first token, counted
            from 1, or 0 for padding; if absent, every token is a word. `"marks" (B, P)`, 1 at the
            predicate and else 0, with `marks`.
        training: enables dropout.

    Returns:
        Potentials `(B, W + K + 2, K + 1)`: emissions, mask and transition scores in one tensor, see
        `ops.pack`; the input of `decode`, `marginals` and the loss of `make_loss()`.

    Masking:
        Padding (0) may be anywhere, does not affect other positions and is not a word.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 5.3 and figure 4d: a word is represented by
        its first token. Marks as segments are this library's addition. The other aggregations are
        those of the token classification pipeline of `transformers`.
    """

    head_options = ("head", "dropout", "marks", "class_token", "aggregation", "window")
    own_arguments = ("tags", *head_options, "name", "dtype")

    # layers

    def __init__(
        self,
        bert: BERT | Config,
        tags: Sequence[str],
        head: Config | None = None,
        dropout: float = 0.1,
        marks: bool = False,
        class_token: bool = False,
        aggregation: str = "first",
        window: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bert = bert = self.make_bert(bert)
        num_segments = bert.settings["num_segments"]
        if marks and num_segments < 2:
            raise ValueError(
                f"marks need a bert with num_segments of at least 2, got {num_segments=}"
            )
        self.init_settings({**collect_arguments(locals()), "bert": dict(bert.settings)})
        check_choice("aggregation", aggregation, AGGREGATIONS)
        if window is not None:
            whole_number("window", window, 4, bert.settings["max_length"])
        kind = self.settings["head"]["kind"]
        if aggregation != "first" and kind != "softmax":
            raise ValueError(
                f"aggregation must be 'first' with a {kind} head, got {aggregation!r}; set it to"
                " 'first', or use the head 'softmax'"
            )
        self.drop = Dropout(dropout, dtype=self.dtype_policy)
        self.build_head(bert.settings["embedding_dim"])

    # inputs

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.bert.settings["vocabulary_size"])

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of a sentence; None for no limit."""
        return None if self.settings["window"] else int(self.bert.settings["max_length"])

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """Embedding layer of the tokens, the BERT's."""
        return self.bert.token_embedding

    @property
    def has_class_token(self) -> bool:
        """Whether the model expects a class token before a sentence, and an end token after it."""
        return bool(self.settings["class_token"])

    # computation

    def encode(
        self, inputs: Inputs, mask: Tensor, training: bool, attention_weights: WeightList = None
    ) -> Tensor:
        window = self.settings["window"]
        if window is None:
            return self._encode_rows(inputs, mask, training, attention_weights)
        windows = make_windows(mask, window, self.has_class_token)
        rows = {name: windows.split(x) for name, x in inputs.items()}
        weights: WeightList = None if attention_weights is None else []
        with expect_long_sequences(is_long_sequence(window)):  # the sentence may be longer
            states = self._encode_rows(rows, rows["tokens"] != PAD, training, weights)
        if attention_weights is not None:
            attention_weights += map(windows.join_weights, weights or [])
        return windows.join(states)

    def _encode_rows(
        self, inputs: Inputs, mask: Tensor, training: bool, attention_weights: WeightList
    ) -> Tensor:
        """Return the states of sentences or windows, encoded as a whole; see `encode`."""
        bert_inputs = {"tokens": inputs["tokens"]}
        if self.settings["marks"]:
            bert_inputs["segments"] = inputs["marks"]
        if attention_weights is not None:
            self._append_attention_weights(bert_inputs, mask, attention_weights)
        return self.drop(self.bert(bert_inputs, training=training)["hidden"], training=training)

    def _append_attention_weights(
        self, bert_inputs: dict[str, Tensor], mask: Tensor, attention_weights: list[Tensor]
    ) -> None:
        """Append each BERT layer's attention weights to `attention_weights`, in inference.

        Padding must be at the end.
        """
        segments = bert_inputs.get("segments")
        x = self.bert.norm(self.bert.embed(bert_inputs["tokens"], mask, segments))
        for layer in self.bert.encoder:
            x, weights = layer(x, mask=mask, return_attention_scores=True, training=False)
            attention_weights.append(weights)

    def compute_potentials(self, states: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        aggregation = self.settings["aggregation"]
        if aggregation == "first":
            return super().compute_potentials(states, mask, positions)
        probabilities = ops.softmax(ops.cast(self.head.emit(states), "float32"), axis=-1)
        token_mask = self._mask_word_tokens(mask, positions)
        if aggregation == "max":
            # `ops.max` rejects empty tensors. NaN counts as the largest, so that it is returned.
            tags = ops.argmax(probabilities, axis=-1)[..., None]
            scores = ops.take_along_axis(probabilities, tags, axis=-1)[:, None, :, 0]
            scores = ops.where(ops.isnan(scores), float("inf"), scores)
            scores = ops.pad(ops.where(token_mask, scores, 0.0), ((0, 0), (0, 0), (1, 0)))
            words = gather_one_based(probabilities, ops.argmax(scores, axis=-1))
        else:
            weights = ops.cast(token_mask, "float32")
            counts = ops.maximum(ops.sum(weights, axis=-1, keepdims=True), 1.0)
            words = ops.matmul(weights / counts, probabilities)
        return self.head.pack(ops.log(ops.maximum(words, MIN_PROBABILITY)), positions > 0)

    def _mask_word_tokens(self, mask: Tensor, positions: Tensor) -> Tensor:
        """Return the mask of each word's tokens, `(B, W, P)`; arguments as in `compute_potentials`.

        A word extends to the start of the next one; the last word, to the end token or the end of
        the row.
        """
        tokens = ops.arange(1, ops.shape(mask)[1] + 1, dtype="int32")
        is_word = positions[..., None] > 0
        is_start = ops.logical_and(positions[..., None] == tokens, is_word)
        word_of_token = ops.cumsum(ops.cast(ops.any(is_start, axis=1), "int32"), axis=1)
        word_numbers = ops.cumsum(ops.cast(positions > 0, "int32"), axis=1)
        token_mask = ops.logical_and(word_of_token[:, None] == word_numbers[..., None], is_word)
        token_mask = ops.logical_and(token_mask, mask[:, None])
        if self.settings["class_token"]:
            is_end = tokens == ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
            is_end = ops.logical_and(is_end[:, None], ops.logical_not(is_start))
            token_mask = ops.logical_and(token_mask, ops.logical_not(is_end))
        return token_mask

"""BERT tagger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from attention_zoo.layers.transformer.dropout import Dropout
from attention_zoo.models.language.bert import BERT, BERTBackboneMixin
from attention_zoo.models.presets import Config, collect_arguments, register_model
from attention_zoo.models.tagging.tagger import Inputs, Tagger, WeightList
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class TransformerTagger(BERTBackboneMixin, Tagger):
    """A BERT that tags every word by its first token, with a softmax or CRF output.

    `emissions_w = drop(h_{start_w}) W + b`, where h are the BERT's hidden states

    Args:
        bert: a `BERT`, pretrained or new, or its arguments, with `use_pooler=False` by default.
        tags: names of the K tags, in the order of their ids.
        head: any of "kind" ("softmax", the default, or "crf") and "tag_scheme", whose forbidden
            sequences are never decoded and, with "crf", have probability 0 in training too.
        dropout: dropout rate on h; the BERT has its own.
        marks: whether the inputs contain a predicate indicator per token (semantic role labeling),
            which the BERT takes as segment ids.

    Call arguments:
        inputs: integers. `"tokens" (B, P)`, 0 is padding, P at most the BERT's `max_length`.
            `"starts" (B, W)`, the position of each word's first token, counted from 1, or 0
            for padding; if absent, every token is a word. `"marks" (B, P)`, 1 at the
            predicate and else 0, with `marks`.
        training: enables dropout.

    Returns:
        Potentials `(B, W + K + 2, K + 1)`: emissions, mask and transition scores in one tensor, see
        `ops.pack`; the input of `decode`, `marginals` and the loss of `make_loss()`.

    Masking:
        Padding (0) may be anywhere, does not affect other positions and is not a word.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 5.3 and figure 4d: a word is represented by
        its first token. Marks as segments are this library's addition.
    """

    own_arguments = ("tags", "head", "dropout", "marks", "name", "dtype")

    # layers

    def __init__(
        self,
        bert: BERT | Config,
        tags: Sequence[str],
        head: Config | None = None,
        dropout: float = 0.1,
        marks: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bert = bert = self.make_bert(bert)
        if marks and bert.settings["num_segments"] < 2:
            raise ValueError(
                "marks need a bert with num_segments of at least 2, got num_segments=1"
            )
        self.init_settings({**collect_arguments(locals()), "bert": dict(bert.settings)})
        self.drop = Dropout(dropout, dtype=self.dtype_policy)
        self.build_head(bert.settings["embedding_dim"])

    # inputs

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.bert.settings["vocabulary_size"])

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a sentence."""
        return int(self.bert.settings["max_length"])

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """Embedding layer of the tokens, the BERT's."""
        return self.bert.token_embedding

    # computation

    def encode(
        self, inputs: Inputs, mask: Tensor, training: bool, attention_weights: WeightList = None
    ) -> Tensor:
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

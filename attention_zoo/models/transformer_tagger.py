"""A BERT that tags words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from attention_zoo.layers.dropout import Dropout
from attention_zoo.models import presets
from attention_zoo.models.bert import BERT
from attention_zoo.models.presets import Config, model
from attention_zoo.models.tagger import Tagger

Tensor = Any

OWN = ("tags", "head", "dropout", "marks", "name", "dtype")
"""Arguments of the tagger; all others of `from_preset` are the BERT's."""


@model
@keras.saving.register_keras_serializable("attention_zoo")
class TransformerTagger(Tagger):
    """A BERT, and a tag for every word by its first token; softmax or CRF above.

    `emissions_w = drop(h_{start_w}) W + b`, h what the BERT makes of the tokens

    Args:
        bert: a `BERT`, perhaps a trained one, or the arguments of one, without a pooled output
            unless they say so.
        tags: K names, by number.
        head: any of "kind", "softmax" unless said or "crf", and "tag_scheme", of the tags: what it
            forbids is never decoded, and with "crf" not learned either.
        dropout: rate on h, in training; the BERT has its own.
        marks: whether the inputs mark tokens, such as a predicate; the BERT reads marks as
            segments.

    Call arguments:
        inputs: integers. `"tokens" (B, P)`, 0 is padding, at most as many tokens as the BERT has
            places. `"starts" (B, W)`, for each word the place of its first token, counted from 1, 0
            where there is no word; without it every token is a word. `"marks" (B, P)`, 0 or 1,
            where asked for.
        training: switches dropout on.

    Returns:
        Potentials `(B, W + K + 2, K + 1)`, as of `layers.CRF`, which `decode`, `marginals` and
        `make_loss()` read.

    Masking:
        Padding (0) changes nothing at the other positions, wherever it stands; it is no word.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 5.3 and figure 4d: a word's first token stands
        for it. Marks as segments are ours.
    """

    core, decides = "bert", ("use_pooler",)
    """The argument that is the model inside, and arguments of that which are decided here."""

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
        if isinstance(bert, dict) and "class_name" in bert:
            bert = keras.saving.deserialize_keras_object(bert)
        if isinstance(bert, dict):
            bert = BERT(**{"use_pooler": False, **bert, "dtype": self.dtype_policy})
        if not isinstance(bert, BERT):
            raise ValueError(f"bert must be a BERT or its arguments, got {bert!r}")
        self.bert = bert
        if marks and bert.settings["num_segments"] < 2:
            raise ValueError("marks are read as segments, but the bert has num_segments=1")
        self.begin({"tags": tags, "head": head, "dropout": dropout, "marks": bool(marks)})
        self.settings["bert"] = dict(bert.settings)
        self.drop = Dropout(dropout, dtype=self.dtype_policy)
        self.finish(bert.settings["embedding_dim"])

    def build(self, input_shape: Any = None) -> None:
        self.built = True

    # what it reads

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are."""
        return int(self.bert.settings["vocabulary_size"])

    @property
    def max_length(self) -> int:
        """How many tokens a sentence may have."""
        return int(self.bert.settings["max_length"])

    @property
    def token_embedding(self) -> keras.layers.Embedding:
        """The layer that embeds tokens: the BERT's."""
        made: keras.layers.Embedding = self.bert.token_embedding
        return made

    # computation

    def encode(
        self,
        inputs: dict[str, Tensor],
        mask: Tensor,
        training: bool,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        given = {"tokens": inputs["tokens"]}
        if self.settings["marks"]:
            given["segments"] = inputs["marks"]
        if seen is not None:
            self._look(given, mask, seen)
        return self.drop(self.bert(given, training=training)["hidden"], training=training)

    def _look(self, given: dict[str, Tensor], mask: Tensor, seen: list[Tensor]) -> None:
        """Adds the weights of every layer of the BERT, in inference; padding stands at the end."""
        x = self.bert.norm(self.bert.embed(given["tokens"], mask, given.get("segments")))
        for layer in self.bert.encoder:
            x, weights = layer(x, mask=mask, return_attention_scores=True, training=False)
            seen.append(weights)

    # config

    def get_config(self) -> Config:
        return {**super().get_config(), "bert": keras.saving.serialize_keras_object(self.bert)}

    @classmethod
    def from_preset(cls, name_or_folder: str | Path, **overrides: Any) -> Any:
        """A model of this class from a folder, or around a BERT's preset, a name.

        Args:
            name_or_folder: see `models.from_preset`.
            **overrides: arguments of this class, of which `tags` are needed around a preset; all
                others are the BERT's. `dtype` is the whole model's.
        """
        own: Config = {key: overrides.pop(key) for key in OWN if key in overrides}
        if str(name_or_folder) in presets.PRESETS:
            inside: Config = {"use_pooler": False, **overrides}
            inside |= {"dtype": own["dtype"]} if "dtype" in own else {}
            return cls(BERT.from_preset(name_or_folder, **inside), **own)
        given = {"bert": overrides} if overrides else {}
        return presets.from_preset_of(cls, name_or_folder, **given, **own)

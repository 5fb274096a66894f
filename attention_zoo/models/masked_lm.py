"""A BERT that says which tokens stand at masked places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.layers.feed_forward import GATED, NAMED
from attention_zoo.layers.residual import NORMS
from attention_zoo.models import presets
from attention_zoo.models.bert import BERT
from attention_zoo.models.presets import Config, model
from attention_zoo.ops import Projection

Tensor = Any


@model
@keras.saving.register_keras_serializable("attention_zoo")
class MaskedLM(keras.Model):
    """A BERT and a head that scores the vocabulary at every position.

    `logits_t = norm(act(h_t W + b)) E^T + c`, E the BERT's token embeddings

    Args:
        bert: a `BERT`, or the arguments of one, without a pooled output unless they say so.
            Activation and norm of the head are those of its layers.

    Call arguments:
        inputs: those of `BERT`.
        training: switches dropout on.
        project: False for the `ops.Projection` that the logits are of, in place of them.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        As in `BERT`; what stands at padding is finite and means nothing.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 3.1, task 1; the head is as released.
    """

    core, decides = "bert", ("use_pooler",)
    """The argument that is the model inside, and arguments of that which are decided here."""

    projects = True  # `project=False` is known to the training step

    # layers

    def __init__(self, bert: BERT | Config, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(bert, dict) and "class_name" in bert:
            bert = keras.saving.deserialize_keras_object(bert)
        if isinstance(bert, dict):
            bert = BERT(**{"use_pooler": False, **bert, "dtype": self.dtype_policy})
        self.bert = bert
        if not isinstance(self.bert, BERT):
            raise ValueError(f"bert must be a BERT or its arguments, got {bert!r}")
        style: dict[str, Any] = self.bert.settings["layer"]
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        bend = style.get("activation", "relu")
        bend = GATED.get(bend, NAMED.get(bend, bend))
        self.dense = layers.Dense(self.bert.settings["embedding_dim"], bend, **own)
        self.norm = NORMS.get(style.get("norm", "layer"))(epsilon=style.get("epsilon", 1e-6), **own)
        self.build()

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.bert.settings["embedding_dim"])
        self.dense.build(shape)
        self.norm.build(shape)
        self.bias = self.add_weight(
            shape=(self.bert.settings["vocabulary_size"],), initializer="zeros", name="bias"
        )
        self.built = True

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, plainly."""
        return {"bert": dict(self.bert.settings)}

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        of = self.projection(self.bert(inputs, training=training)["hidden"])
        return of.logits() if project else of

    def projection(self, hidden: Tensor) -> Projection:
        """What the logits `(..., V)` are of what the BERT put out."""
        table = ops.transpose(self.bert.token_embedding.embeddings)
        return Projection(self.norm(self.dense(hidden)), table, self.bias)

    # config

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "bert": keras.saving.serialize_keras_object(self.bert)}

    @classmethod
    def from_preset(cls, name_or_folder: str | Path, **overrides: Any) -> Any:
        """A model of this class from a folder, or around a BERT's preset, a name.

        Args:
            name_or_folder: see `models.from_preset`.
            **overrides: arguments of the BERT; `name` and `dtype` are the whole model's.
        """
        own: Config = {key: overrides.pop(key) for key in ("name", "dtype") if key in overrides}
        if str(name_or_folder) in presets.PRESETS:
            inside: Config = {"use_pooler": False, **overrides}
            inside |= {"dtype": own["dtype"]} if "dtype" in own else {}
            return cls(BERT.from_preset(name_or_folder, **inside), **own)
        given = {"bert": overrides} if overrides else {}
        return presets.from_preset_of(cls, name_or_folder, **given, **own)

    def save_to_preset(self, folder: str | Path) -> None:
        """Writes config, weights and their sha256 into a folder that `from_preset` reads."""
        presets.save_to_preset(self, folder)

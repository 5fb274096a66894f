"""Masked language model: a BERT that predicts the tokens at masked positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import keras
from keras import layers, ops

from attention_zoo.layers.transformer.feed_forward import CUSTOM_ACTIVATIONS, GATED_ACTIVATIONS
from attention_zoo.layers.transformer.residual import NORMS
from attention_zoo.models import presets
from attention_zoo.models.language.bert import BERT
from attention_zoo.models.presets import Config, model
from attention_zoo.ops import Projection
from attention_zoo.typing import Tensor


@model
@keras.saving.register_keras_serializable("attention_zoo")
class MaskedLM(presets.PresetMixin, keras.Model):
    """A BERT with a head that computes vocabulary logits at every position.

    `logits_t = norm(act(h_t W + b)) E^T + c`, where E are the BERT's token embeddings

    Args:
        bert: a `BERT`, or its arguments, with `use_pooler=False` by default. The head has the
            activation and norm of its layers.

    Call arguments:
        inputs: as in `BERT`.
        training: enables dropout.
        project: if False, return the `ops.Projection` that computes the logits.

    Returns:
        Logits `(B, T, V)`.

    Masking:
        As in `BERT`; logits at padding are finite and meaningless.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 3.1, task 1; the head is as released.
    """

    backbone_name, backbone_fixed = "bert", ("use_pooler",)
    free_settings: ClassVar[tuple[str, ...]] = ()  # the inner BERT has its own

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
        layer_options: dict[str, Any] = self.bert.settings["layer"]
        model_options: dict[str, Any] = {"dtype": self.dtype_policy}
        activation = layer_options.get("activation", "relu")
        activation = GATED_ACTIVATIONS.get(
            activation, CUSTOM_ACTIVATIONS.get(activation, activation)
        )
        self.dense = layers.Dense(self.bert.settings["embedding_dim"], activation, **model_options)
        self.norm = NORMS.get(layer_options.get("norm", "layer"))(
            epsilon=layer_options.get("epsilon", 1e-6), **model_options
        )
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
    def settings(self) -> dict[str, Any]:  # type: ignore[override]
        """The constructor's arguments as plain data."""
        return {"bert": dict(self.bert.settings)}

    # computation

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, project: bool = True
    ) -> Any:
        projection = self.projection(self.bert(inputs, training=training)["hidden"])
        return projection.logits() if project else projection

    def projection(self, hidden: Tensor) -> Projection:
        """Return the output projection of the BERT's hidden states; its logits are `(..., V)`."""
        table = ops.transpose(self.bert.token_embedding.embeddings)
        return Projection(self.norm(self.dense(hidden)), table, self.bias)

    # config

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "bert": keras.saving.serialize_keras_object(self.bert)}

    @classmethod
    def from_preset(cls, name_or_folder: str | Path, **overrides: Any) -> Any:
        """Load a model of this class from a folder, or build one around a BERT preset.

        Args:
            name_or_folder: see `models.from_preset`.
            **overrides: arguments of the BERT; `name` and `dtype` apply to the whole model.
        """
        model_options: Config = {
            key: overrides.pop(key) for key in ("name", "dtype") if key in overrides
        }
        if str(name_or_folder) in presets.PRESETS:
            bert_arguments: Config = {"use_pooler": False, **overrides}
            bert_arguments |= {"dtype": model_options["dtype"]} if "dtype" in model_options else {}
            return cls(BERT.from_preset(name_or_folder, **bert_arguments), **model_options)
        arguments = {"bert": overrides} if overrides else {}
        return presets.load_preset_as(cls, name_or_folder, **arguments, **model_options)

"""Masked language model: a BERT that predicts the tokens at masked positions."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import layers, ops

from attention_zoo.layers.quantization import get_float_embeddings
from attention_zoo.layers.transformer.feed_forward import CUSTOM_ACTIVATIONS, GATED_ACTIVATIONS
from attention_zoo.layers.transformer.residual import make_final_norm
from attention_zoo.models.language.bert import BERT, BERTBackboneMixin
from attention_zoo.models.prebuilt import PrebuiltModel
from attention_zoo.models.presets import Config, register_model
from attention_zoo.ops import Projection
from attention_zoo.typing import Tensor


@register_model
@keras.saving.register_keras_serializable("attention_zoo")
class MaskedLM(BERTBackboneMixin, PrebuiltModel):
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

    free_settings: ClassVar[tuple[str, ...]] = ()  # the inner BERT has its own

    # layers

    def __init__(self, bert: BERT | Config, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bert = self.make_bert(bert)
        layer_options = {**self.bert.settings["layer"], "norm_first": True}
        common: dict[str, Any] = {"dtype": self.dtype_policy}
        activation = layer_options.get("activation", "relu")
        activation = {**CUSTOM_ACTIVATIONS, **GATED_ACTIVATIONS}.get(activation, activation)
        self.dense = layers.Dense(self.bert.settings["embedding_dim"], activation, **common)
        self.norm = make_final_norm(**layer_options, **common)
        self.build()

    def build_layers(self) -> None:
        shape = (None, None, self.bert.settings["embedding_dim"])
        self.dense.build(shape)
        self.norm.build(shape)
        words = self.bert.settings["vocabulary_size"]
        self.bias = self.add_weight(shape=(words,), initializer="zeros", name="bias")

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        return self.bert.input_specs

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
        table = ops.transpose(get_float_embeddings(self.bert.token_embedding))
        return Projection(self.norm(self.dense(hidden)), table, self.bias)

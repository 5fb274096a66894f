"""Model that returns the attention weights of another model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import tree

from attention_zoo.inspection.attention_layers import attention_hooks, find_attention_layers
from attention_zoo.inspection.record import expand_heads
from attention_zoo.typing import Tensor

IN_A_LOOP = (
    "attention layer {path} runs in a loop over time or in a `tf.function` of its own, from which "
    "weights cannot be returned; use `record`, which collects those of each step"
)


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionModel(keras.Model):
    """Model that returns the attention weights of another model; see `attention_model`.

    Args:
        model: the model.
        layers: paths, patterns of paths, or layers; all attention layers if None.

    Call arguments:
        inputs: the inputs of the model.

    Returns:
        A dict of `(B, H, T, S)` by layer path. Calls of one layer after the first have the keys
        `path:1`, `path:2` and so on.
    """

    def __init__(
        self, model: keras.Model, layers: Sequence[Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.paths = list(find_attention_layers(model, layers))

    def build(self, input_shape: Any) -> None:
        if not self.model.built:
            self.model.build(input_shape)

    def call(self, inputs: Any) -> dict[str, Tensor]:
        layers = find_attention_layers(self.model, self.paths)
        paths = {id(layer): path for path, layer in layers.items()}
        calls: dict[str, list[Tensor]] = {path: [] for path in layers}

        scope = _get_scope(tree.flatten(inputs)[0])

        def collect(layer: Any, weights: Tensor, mask: Tensor | None, output: Tensor) -> Tensor:
            path = paths[id(layer)]
            if _get_scope(weights) is not scope:
                raise ValueError(IN_A_LOOP.format(path=path))
            calls[path].append(expand_heads(weights))
            return output

        with attention_hooks(list(layers.values()), collect):
            self.model(inputs)
        outputs = {
            f"{path}:{number}" if number else path: weights
            for path, recorded in calls.items()
            for number, weights in enumerate(recorded)
        }
        if not outputs:
            raise ValueError(
                f"no attention layer of {self.model.name} ran. Call the model on inputs that reach "
                "them, or use `record`."
            )
        return outputs

    def get_config(self) -> dict[str, Any]:
        model = keras.saving.serialize_keras_object(self.model)
        return {**super().get_config(), "model": model, "layers": self.paths}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> AttentionModel:
        model = keras.saving.deserialize_keras_object(config["model"], custom_objects)
        return cls(**{**config, "model": model})


def _get_scope(x: Tensor) -> Any:
    """Return the graph (TensorFlow) or the trace (JAX) of a tensor, None for concrete values."""
    return getattr(x, "graph", getattr(x, "_trace", None))


def attention_model(model: keras.Model, layers: Sequence[Any] | None = None) -> AttentionModel:
    """Return a model of the same inputs that returns the attention weights.

    It also runs under XLA. It does not support layers that attend in a loop over time, such as
    those of recurrent decoders: use `record` for them.

    Args:
        model: any Keras model.
        layers: paths, patterns of paths such as `"decoder/*"`, or layers; all if None.

    Returns:
        A Keras model, which shares the layers of `model`; see `AttentionModel`.

    Raises:
        ValueError: the model has no attention layer, or an entry of `layers` matches none.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.inspection import attention_model
        >>> x = keras.Input((None, 8))
        >>> model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x))
        >>> weights = attention_model(model).predict(np.ones((1, 5, 8), "float32"), verbose=0)
        >>> weights["attention"].shape
        (1, 2, 5, 5)

    Reference: this library.
    """
    return AttentionModel(model, layers)

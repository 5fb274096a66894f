"""Base class of the models: a `keras.Model` whose inputs are known before the first call."""

from __future__ import annotations

from typing import Any

import keras

# Keras has no public API for its `default` decorator.
from keras.src.utils.python_utils import default

from attention_zoo.models.presets import PresetMixin

Specs = Any
"""A dict of `keras.InputSpec` by name, or one `keras.InputSpec`."""


class PrebuiltModel(PresetMixin, keras.Model):
    """Base class of the models, built by their constructor; Keras's methods work without a call.

    The constructor of a model passes `**kwargs` on to this class, sets
    `self.settings = collect_arguments(locals())`, creates its layers and ends in `self.build()`. A
    model defines

    - `input_specs`, the specs of the inputs of `call`;
    - `build_layers`, which builds all layers by their input shapes;
    - `call(inputs, training=None)`.

    Tasks need more than this class: translation an `EncoderDecoder` (or a model with
    `GenerationMixin` and the same inputs), summarization a `CopyingMixin`, captioning a
    `Captioner`, tagging a `Tagger`, classification a `Classifier`, matching a `Matcher`,
    language modeling a `GPT`, and masked language modeling a `MaskedLM`. Recipes name a model by
    its presets: decorate the class with `register_model` and call `add_presets`.
    """

    @property
    def input_specs(self) -> Specs:
        """Specs of the inputs by name, or of the only input; `optional` ones may be absent."""
        raise TypeError(f"{type(self).__name__} does not define `input_specs`")

    @property
    def layers_by_depth(self) -> list[list[keras.layers.Layer]]:
        """Groups of layers from the input (embeddings) to the top, without the output layers.

        `training.layer_decay` decreases the learning rate from group to group. By default, those of
        the backbone; empty for a model whose layers have no such order.
        """
        return [] if self.backbone_name is None else self.get_backbone().layers_by_depth

    def build_layers(self) -> None:
        """Build all layers; by default none, for models whose layers build themselves."""

    def build(self, input_shape: Any = None) -> None:
        """Build the model unless it is built; `input_shape` is ignored."""
        if not self.built:
            self.build_layers()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = args[0] if args else kwargs.get(self.call_signature_parameters[0])
        if isinstance(self.input_specs, dict):
            self.check_input_names(inputs)
        outputs = super().__call__(*args, **kwargs)
        # Not as an attribute, which Keras would track.
        self.__dict__["_input_dtypes"] = keras.tree.map_structure(_get_dtype, inputs)
        return outputs

    def check_input_names(self, inputs: Any) -> list[str]:
        """Return the names of the required inputs; raise ValueError if one is missing."""
        names = [name for name, spec in self.input_specs.items() if not spec.optional]
        for name in names:
            if not isinstance(inputs, dict) or inputs.get(name) is None:
                raise ValueError(
                    f"inputs must be a dict with {', '.join(names)}, but {name} is missing"
                )
        return names

    @default  # so that Keras traces `call` for symbolic outputs, which may be nested
    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the output shapes from the input shapes, both with the structure of the call."""
        specs = self.input_specs
        if isinstance(specs, dict):
            inputs = {name: _make_tensor(specs[name], x) for name, x in input_shape.items()}
        else:
            inputs = _make_tensor(specs, input_shape)
        return keras.tree.map_structure(lambda x: x.shape, self.compute_output_spec(inputs))

    def get_input_signature(self) -> Specs:
        """Return the specs of the inputs that `export` uses by default.

        All axes are dynamic, except those whose size the model fixes. Optional inputs are included
        if the last call had them. Token ids are int32; images have the dtype of the last call, or
        else uint8 (precomputed features: float32).
        """
        specs, dtypes = self.input_specs, self.__dict__.get("_input_dtypes")
        if not isinstance(specs, dict):
            return _with_dtype(specs, dtypes)
        dtypes = {name: dtype for name, dtype in (dtypes or {}).items() if dtype is not None}
        return {
            name: _with_dtype(spec, dtypes.get(name))
            for name, spec in specs.items()
            if not spec.optional or name in dtypes
        }

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Export the forward pass, as `keras.Model.export` does; no call is needed before.

        Args:
            filepath, format, verbose, **kwargs: see `keras.Model.export`.
            input_signature: `[specs]`, where specs has the structure of the call's inputs;
                `[get_input_signature()]` by default.
        """
        if input_signature is None:
            input_signature = [self.get_input_signature()]
        super().export(filepath, format, verbose, input_signature, **kwargs)


def make_token_spec(name: str, rank: int = 2, optional: bool = False) -> keras.InputSpec:
    """Return the spec of an int32 input whose axes are all dynamic."""
    return keras.InputSpec("int32", shape=(None,) * rank, name=name, optional=optional)


def _get_dtype(x: Any) -> str | None:
    return None if x is None else keras.backend.standardize_dtype(x.dtype)


def _with_dtype(spec: keras.InputSpec, dtype: str | None) -> keras.InputSpec:
    """Return the spec with the dtype of a call, except that token ids stay int32."""
    dtype = spec.dtype if dtype is None or spec.dtype == "int32" else dtype
    return keras.InputSpec(dtype, shape=spec.shape, name=spec.name)


def _make_tensor(spec: keras.InputSpec, shape: Any) -> keras.KerasTensor:
    return keras.KerasTensor(shape, dtype=spec.dtype)

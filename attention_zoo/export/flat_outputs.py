"""Flat outputs of functional models, which Keras can export."""

from __future__ import annotations

import keras


def flatten_outputs(model: keras.Model) -> keras.Model:
    """Return a functional model with the same layers whose outputs are a flat dict.

    `keras.Model.export` fails for nested outputs, also for those of Keras's own layers. Export the
    returned model: `flatten_outputs(model).export(folder)`.

    Args:
        model: a functional model, with outputs of any structure, such as `(memory, states)` of a
            `layers.RecurrentEncoder`.

    Returns:
        A model with the weights of `model`. The name of an output is its path: `output_1_0` is
        `outputs[1][0]`, `states_0` is `outputs["states"][0]`.

    Raises:
        ValueError: the model is not functional, or two outputs would have the same name.
    """
    if not isinstance(model, keras.Model) or not hasattr(model, "inputs"):
        raise ValueError(
            f"model must be a functional keras.Model, got {model!r}; pass "
            "keras.Model(inputs, outputs)"
        )
    outputs = {}
    for path, tensor in keras.tree.flatten_with_path(model.output):
        name = "_".join(map(str, path))
        name = name if path and isinstance(path[0], str) else f"output_{name or 0}"
        if name in outputs:
            raise ValueError(f"two outputs would be named {name!r}; rename a key of the outputs")
        outputs[name] = tensor
    return keras.Model(model.input, outputs, name=model.name)

"""Every layer, saved in a functional model, loads in a process that only imports the package."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

from attention_zoo.layers import (
    AdditiveAttention,
    AttentionCell,
    MultiplicativeAttention,
    RecurrentDecoder,
)
from tests.layers.attention_case import AttentionCase
from tests.layers.cases import cases
from tests.layers.layer_case import LayerCase, flatten
from tests.layers.running import JAX, JAX_EXCEPTIONS, in_fresh_process, randomise

LOAD = """
import sys
from pathlib import Path
import attention_zoo
import keras
import numpy as np
for path in sorted(Path(sys.argv[1]).glob("*.keras")):
    model = keras.models.load_model(path)
    with np.load(path.with_suffix(".npz")) as data:
        inputs = [data[f"in_{i}"] for i in range(len(model.inputs))]
        expected_outputs = [data[f"out_{i}"] for i in range(len(model.outputs))]
    outputs = keras.tree.flatten(model(inputs))
    for output, want in zip(outputs, expected_outputs, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(output), want, path.stem)
    print(path.stem)
"""


def decoder_with_everything() -> tuple[keras.Model, list[np.ndarray]]:
    """Two attentions over two masked memories, a stack of cells, a bridge, embeddings."""
    rng = np.random.default_rng(0)
    target, source = keras.Input((4,), dtype="int32"), keras.Input((5,), dtype="int32")
    second, vector = keras.Input((2, 3)), keras.Input((9,))
    embed = layers.Embedding(8, 6, mask_zero=True)
    cell = AttentionCell(
        [layers.GRUCell(5), layers.LSTMCell(6)],
        [AdditiveAttention(8, normalize=True), MultiplicativeAttention(scale=True)],
        attention_layer_size=5,
        attention_activation="tanh",
    )
    decoder = RecurrentDecoder(cell, bridge=True, alignment_history=True, return_state=True)
    outputs = decoder(embed(target), [embed(source), second], vector)
    model = keras.Model([target, source, second, vector], flatten(outputs))
    ids = [rng.integers(0, 8, size=(3, n)).astype("int32") for n in (4, 5)]
    rest = [rng.normal(size=shape).astype("float32") for shape in ((3, 2, 3), (3, 9))]
    return model, [*ids, *rest]


def write(folder: Path, name: str, model: keras.Model, tensors: list[np.ndarray]) -> None:
    randomise(model)
    outputs = [keras.ops.convert_to_numpy(x) for x in flatten(model(tensors))]
    model.save(folder / f"{name}.keras")
    np.savez(
        folder / f"{name}.npz",
        **{f"in_{i}": x for i, x in enumerate(tensors)},
        **{f"out_{i}": x for i, x in enumerate(outputs)},
    )


@pytest.mark.full
@pytest.mark.skipif(JAX, reason=JAX_EXCEPTIONS["a file in a fresh process"])
def test_every_layer_loads_in_a_fresh_process(tmp_path: Path) -> None:
    expected = []
    for case in cases("layers"):
        if issubclass(case, LayerCase):
            _, model = case().make_functional()
            name = f"{len(expected):02d}_{case.__name__}"
            write(tmp_path, name, model, list(case().tensors()))
            expected.append(name)
    assert any(issubclass(case, AttentionCase) for case in cases("layers"))
    model, tensors = decoder_with_everything()
    write(tmp_path, "decoder_with_everything", model, tensors)
    expected.append("decoder_with_everything")
    assert in_fresh_process(LOAD, tmp_path).split() == expected

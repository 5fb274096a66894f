"""Every model's `.keras` file loads in a process that only imports the package."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

from attention_zoo.losses import SequenceCrossEntropy
from tests.layers.cases import cases
from tests.layers.running import JAX, JAX_EXCEPTIONS, in_fresh_process, randomise
from tests.models.generation_conformance import SOURCE, TARGET
from tests.models.language import test_gpt
from tests.models.translation import test_transformer

T5 = {"positions": "t5"}

LOAD = """
import sys
from pathlib import Path
import attention_zoo
import keras
import numpy as np
for path in sorted(Path(sys.argv[1]).glob("*.keras")):
    with np.load(path.with_suffix(".npz")) as data:
        model = keras.models.load_model(path)
        inputs = {key[3:]: data[key] for key in data.files if key.startswith("in.")}
        inputs = inputs.get("", inputs)
        for number, output in enumerate(keras.tree.flatten(model(inputs))):
            want = data[f"out.{number}"]
            np.testing.assert_array_equal(keras.ops.convert_to_numpy(output), want)
        assert model.optimizer is not None and model.loss.label_smoothing == 0.1
    print(path.stem)
"""


@pytest.mark.full
@pytest.mark.skipif(JAX, reason=JAX_EXCEPTIONS["a file in a fresh process"])
def test_every_model_loads_in_a_fresh_process(tmp_path: Path) -> None:
    expected = []
    saved = [(case, {}) for case in cases("models")]
    for case, options in [*saved, (test_gpt.TestGPT, T5), (test_transformer.TestTransformer, T5)]:
        model, title = case().make(**options), case.__name__ + "".join(options)
        randomise(model)
        model.compile("adam", SequenceCrossEntropy(0.1))
        inputs = (
            case().inputs() if hasattr(case, "inputs") else {"source": SOURCE, "target": TARGET}
        )
        named = (
            inputs if isinstance(inputs, dict) else {"": inputs}
        )  # one tensor, or several by name
        saved = {f"in.{name}": value for name, value in named.items()}
        for number, output in enumerate(keras.tree.flatten(model(inputs))):
            saved[f"out.{number}"] = keras.ops.convert_to_numpy(output)
        model.save(tmp_path / f"{title}.keras")
        np.savez(tmp_path / f"{title}.npz", **saved)
        expected.append(title)
    assert in_fresh_process(LOAD, tmp_path).split() == sorted(expected)

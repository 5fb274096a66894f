"""`keras.Model.export` of every model, without a call before it, and its input signature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from tests.layers.cases import cases
from tests.layers.running import JAX, in_fresh_process
from tests.models.encoder_conformance import TOKENS
from tests.models.language.test_bert import TINY
from tests.models.vision import test_show_attend_tell

SERVE = """
import sys
from pathlib import Path
import numpy as np
import tensorflow as tf
for path in sorted(Path(sys.argv[1]).glob("*.npz")):
    with np.load(path) as data:
        inputs = {key[3:]: tf.constant(data[key]) for key in data.files if key.startswith("in.")}
        loaded = tf.saved_model.load(str(path.with_suffix("")))
        outputs = loaded.serve(inputs.get("", inputs))
        for number, output in enumerate(tf.nest.flatten(outputs)):
            want = data[f"out.{number}"]
            np.testing.assert_allclose(output, want, atol=1e-5 * max(1, np.abs(want).max()))
    assert "attention_zoo" not in sys.modules
    print(path.stem)
"""


def describe(signature: Any) -> Any:
    """Return dtype and shape of each input."""
    return keras.tree.map_structure(lambda spec: f"{spec.dtype} {spec.shape}", signature)


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="exports need TensorFlow")
def test_every_model_exports_without_a_call(tmp_path: Path) -> None:
    """Served in a process with TensorFlow alone, with other sizes than those of any call."""
    expected = []
    for case in cases("models"):
        model, inputs = case().make(), case().inputs()
        assert not model._called
        model.export(tmp_path / case.__name__, verbose=False)
        named = inputs if isinstance(inputs, dict) else {"": inputs}
        arrays = {f"in.{name}": value for name, value in named.items()}
        for number, output in enumerate(keras.tree.flatten(model(inputs))):
            arrays[f"out.{number}"] = keras.ops.convert_to_numpy(output)
        np.savez(tmp_path / f"{case.__name__}.npz", **arrays)
        expected.append(case.__name__)
    assert in_fresh_process(SERVE, tmp_path).split() == sorted(expected)


def test_signature_has_the_inputs_and_dtypes_of_the_last_call() -> None:
    tokens = {"tokens": "int32 (None, None)"}
    bert = az.models.BERT(**TINY)
    assert describe(bert.get_input_signature()) == tokens
    bert({"tokens": TOKENS.astype("int64"), "segments": np.zeros_like(TOKENS)})
    assert describe(bert.get_input_signature()) == {**tokens, "segments": "int32 (None, None)"}
    bert({"tokens": TOKENS, "segments": None})
    assert describe(bert.get_input_signature()) == tokens


def test_signature_of_images() -> None:
    case = test_show_attend_tell.TestShowAttendTell()
    captioner = case.make()
    target = {"target": "int32 (None, None)"}
    pixels = "(None, None, None, 3)"
    assert describe(captioner.get_input_signature()) == {"image": f"uint8 {pixels}", **target}
    inputs = case.inputs()
    captioner({**inputs, "image": inputs["image"].astype("float32")})
    assert describe(captioner.get_input_signature()) == {"image": f"float32 {pixels}", **target}
    features = case.make(encoder={"kind": "features", "width": 5})
    grid = "float32 (None, None, None, 5)"
    assert describe(features.get_input_signature()) == {"image": grid, **target}


def test_preset_prints_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    az.models.BERT.from_preset("bert_tiny", vocabulary_size=50).summary(line_length=100)
    printed = capsys.readouterr().out
    assert 'Model: "bert' in printed
    assert "(None, None, 128)" in printed

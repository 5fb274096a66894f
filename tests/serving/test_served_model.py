"""A served model computes the rows of requests like the export does."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.json_format import ParseDict
from PIL import Image
from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap

from attention_zoo.files import write_manifest
from attention_zoo.serving.responses import format_response
from attention_zoo.serving.rest import TensorSpec, parse_request
from attention_zoo.serving.served_model import BatchKey, RejectedInputError, ServedModel, load_model

TEXTS = tf.TensorSpec([None], tf.string, name="text")


class Repeat(tf.Module):
    """Repeats texts, and sums numbers."""

    @tf.function(autograph=False)
    def repeat(self, text: tf.Tensor, times: tf.Tensor, mark: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.assert_positive(times, "must be positive")]):
            parts = tf.repeat(text[:, None], times, axis=1)
        return {"text": tf.strings.reduce_join(parts, 1) + mark, "length": tf.strings.length(text)}

    @tf.function
    def total(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"total": tf.reduce_sum(x, 1)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    folder, module = tmp_path_factory.mktemp("exports") / "repeat", Repeat()
    options = tf.TensorSpec([], tf.int32, "times"), tf.TensorSpec([], tf.string, "mark")
    signatures = {
        "serving_default": module.repeat.get_concrete_function(TEXTS, *options),
        "total": module.total.get_concrete_function(tf.TensorSpec([None, None], name="x")),
    }
    tf.saved_model.save(module, str(folder), signatures=signatures)
    write_manifest(folder)
    return ServedModel(folder)


def answer(model: ServedModel, content: Any) -> Any:
    request = parse_request(json.dumps(content).encode(), model.signatures)
    (key,) = {*model.get_batch_keys(request)}
    return json.loads(format_response(model.run(key, request.rows), request.is_by_row))


def test_inputs_of_signatures(model: ServedModel) -> None:
    assert model.signatures.keys() == {"serving_default", "total"}
    specs = model.signatures["serving_default"]
    assert (specs["text"].dtype, specs["text"].shape) == (np.dtype(object), (None,))
    assert (specs["times"].dtype, specs["times"].shape) == (np.dtype("int32"), ())
    assert model.signatures["total"]["x"].shape == (None, None)


def test_metadata_are_those_of_tensorflow_serving(model: ServedModel) -> None:
    """Its client library parses them."""
    parsed = ParseDict({"signature_def": model.metadata}, SignatureDefMap()).signature_def
    assert parsed.keys() == {"serving_default", "total"}
    definition = parsed["serving_default"]
    assert definition.method_name == "tensorflow/serving/predict"
    assert {*definition.inputs} == {"text", "times", "mark"}
    text = definition.inputs["text"]
    assert (text.dtype, [dim.size for dim in text.tensor_shape.dim]) == (tf.string, [-1])
    assert {*definition.outputs} == {"text", "length"}


def test_all_signatures_are_warmed_up(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[BatchKey] = []

    def run(key: BatchKey, rows: Any) -> Any:
        keys.append(key)
        if key.signature == "total":
            raise tf.errors.InternalError(None, None, "")
        raise RejectedInputError

    monkeypatch.setattr(model, "run", run)
    with pytest.raises(
        ValueError, match="signature 'total' fails in the warm-up call: InternalError"
    ):
        model.warm_up()
    monkeypatch.undo()
    model.warm_up()
    assert {key.signature for key in keys} == {"serving_default", "total"}


def test_texts_of_similar_lengths_share_a_batch(model: ServedModel) -> None:
    def find_length(text: str) -> int:
        inputs = {"text": [text], "times": 1, "mark": ""}
        request = parse_request(json.dumps({"inputs": inputs}).encode(), model.signatures)
        (key,) = model.get_batch_keys(request)
        return key.length

    lengths = [find_length("a" * count) for count in (0, 1, 256, 257, 1024, 1025)]
    assert lengths == [256, 256, 256, 1024, 1024, 4096]


def test_joint_signatures_have_columns_of_different_lengths(model: ServedModel) -> None:
    """Their requests share no batch."""
    specs = {
        "joint": {
            "x": TensorSpec(np.dtype("f4"), (None,)),
            "y": TensorSpec(np.dtype("f4"), (None,)),
        }
    }
    content = {"signature_name": "joint", "inputs": {"x": [1, 2, 3], "y": [4]}}
    body = json.dumps(content).encode()
    request = parse_request(body, specs, joint_signatures={"joint"})
    assert request.is_joint
    (row,) = request.rows
    assert (row["x"].tolist(), row["y"].tolist()) == ([1, 2, 3], [4])
    first, second = model.get_batch_keys(request), model.get_batch_keys(request)
    assert first != second
    outputs = [{"z": np.zeros([3, 1]), "n": np.array([1])}]
    expected = {"outputs": {"z": [[0], [0], [0]], "n": [1]}}
    assert json.loads(format_response(outputs, False, True)) == expected
    with pytest.raises(ValueError, match="'joint' does not accept instances; send inputs"):
        parse_request(
            b'{"signature_name": "joint", "instances": [1]}', specs, joint_signatures={"joint"}
        )


def test_rows_and_options(model: ServedModel) -> None:
    inputs = {"text": ["a", "bc"], "times": 2, "mark": "!"}
    expected = {"outputs": {"text": ["aa!", "bcbc!"], "length": [1, 2]}}
    assert answer(model, {"inputs": inputs}) == expected
    assert answer(model, {"signature_name": "total", "instances": [[1, 2], [3, 4.5]]}) == {
        "predictions": [3.0, 7.5]
    }


def test_keys_of_rows_that_may_share_a_batch(model: ServedModel) -> None:
    def keys(**content: Any) -> list[Any]:
        request = parse_request(json.dumps(content).encode(), model.signatures)
        return model.get_batch_keys(request)

    first, second = keys(inputs={"text": ["a", "b"], "times": 1, "mark": ""})
    assert first == second
    assert hash(first) == hash(second)
    assert keys(inputs={"text": ["c"], "times": 1, "mark": ""}) == [first]
    for other in ({"times": 2, "mark": ""}, {"times": 1, "mark": "!"}):
        assert keys(inputs={"text": ["a"], **other}) != [first]
    short, long = keys(signature_name="total", instances=[[1, 2], [3, 4, 5]])
    assert short != long


def test_the_graph_rejects_a_value(model: ServedModel) -> None:
    with pytest.raises(ValueError, match=r"^assertion failed: \[must be positive") as error:
        answer(model, {"inputs": {"text": ["a"], "times": 0, "mark": ""}})
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_translator_is_served_like_its_task(tmp_path: Path) -> None:
    from attention_zoo import load
    from attention_zoo.export import export

    folder = Path(__file__).parents[2] / "models" / "translation" / "rnnsearch_small.dates_en_fr"
    task = load(folder)
    model = ServedModel(export(task, tmp_path / "served"))
    texts = ["at 5:04 PM.", "they arrive on March 3.", ""]
    *served, invalid = answer(model, {"instances": texts})["predictions"]
    for result, row in zip(task.predict(texts[:2]), served, strict=True):
        assert row["text"] == [result.text]
        np.testing.assert_allclose(row["scores"], [result.score], atol=1e-5)
    assert (invalid["ok"], invalid["scores"]) == (False, [None])
    optional = {"text": texts[:1], "max_length": 3}
    short = answer(model, {"signature_name": "serve_with_options", "inputs": optional})["outputs"]
    assert short["finished"] == [[False]]
    assert short["lengths"] == [[3]]


@pytest.mark.slow
def test_a_retriever_ranks_the_images_of_one_request(tmp_path: Path) -> None:
    """Its images and texts have different numbers, and requests share no batch."""
    from attention_zoo import load
    from attention_zoo.data import generate_scenes
    from attention_zoo.export import export

    task = load("cross_attention_retriever_small.scenes")
    model = load_model(export(task, tmp_path / "served"))
    assert model.joint_signatures == {"serving_default", "rank"}
    scenes = generate_scenes(3, "test")
    images = []
    for pixels in scenes.images:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        images.append(base64.b64encode(file.getvalue()).decode())
    texts = [captions[0] for captions in scenes.captions[:2]]
    content = {"inputs": {"image": [{"b64": image} for image in images], "text": texts}}
    body = json.dumps(content).encode()
    request = parse_request(body, model.signatures, joint_signatures=model.joint_signatures)
    assert len({*model.get_batch_keys(request), *model.get_batch_keys(request)}) == 2
    (key,) = model.get_batch_keys(request)
    served = json.loads(format_response(model.run(key, request.rows), False, True))["outputs"]
    index = task.build_index(list(scenes.images), ["0", "1", "2"])
    expected = task.similarities(index, texts)
    np.testing.assert_allclose(served["similarities"], expected, atol=1e-4)
    assert served["ok"] == [True, True]
    assert [row[0] for row in served["image_indices"]] == np.argmax(expected, axis=0).tolist()

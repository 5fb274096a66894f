"""Served predictions of one zoo entry of each task: equality with `task.predict`, and capacity.

Inputs come from the test split of the entry's recipe. With concurrent clients, requests share
batches; with one client, none do. Retrieval ranks in the client: the server encodes images and
texts, since a text searches all images of a call. Language models continue the first half of a
line; masked ones fill in its middle word.
"""

from __future__ import annotations

import base64
import io
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from PIL import Image
from serving_load import Load, Response, percentile, run_load
from serving_processes import Kind, Server, start_server
from side_by_side import describe_device

import attention_zoo as az
from attention_zoo import zoo

ENTRIES = (
    "rnnsearch_small.dates_en_fr",
    "pointer_generator_small.reports",
    "show_attend_tell_small.scenes",
    "bilstm_cnn_crf_constrained.orders",
    "han_small.reviews",
    "esim_small.claims",
    "gpt_tiny.dates_en",
    "bert_tiny.dates_en",
    "cross_attention_retriever_small.scenes",
    "ram_mnist.digits",
)
NUM_CLIENTS = 16
TEXT_FIELDS = ["words", "mask", "lengths"]  # outputs of the signature encode_texts
NUM_ONE_BY_ONE = 100  # inputs that `task.predict` gets one at a time
TOLERANCE = 1e-5


class Prediction(NamedTuple):
    """The main output for one input.

    Attributes:
        label: text, class or tags; None without a response.
        score: its score.
    """

    label: Any
    score: float


class Difference(NamedTuple):
    """Difference of predictions from the expected ones.

    Attributes:
        labels: number of different labels, with those without a response.
        score: maximum difference of scores with equal labels.
    """

    labels: int
    score: float


def compare(expected: Sequence[Prediction], got: Sequence[Prediction]) -> Difference:
    """Compare predictions with the expected ones, in order."""
    pairs = list(zip(expected, got, strict=True))
    equal = [(a.score, b.score) for a, b in pairs if a.label == b.label]
    scores = [0.0 if a == b else abs(a - b) for a, b in equal]
    return Difference(len(pairs) - len(equal), max(scores, default=0.0))


def read_prediction(response: Response) -> Prediction:
    """Return the label and the score of a response; tags without padding."""
    values = response.values
    if not values:
        return Prediction(None, math.nan)
    label = values["tags"][: values["lengths"]] if "tags" in values else values["text"]
    score = values["scores"]
    if isinstance(score, list):  # one for each of `search.n_best` results
        label, score = label[0], score[0]
    return Prediction(label, -math.inf if score is None else score)


def export_entry(name: str, folder: Path) -> Path:
    """Return the export of an entry in a folder, written if it does not exist."""
    export = folder / name
    if not export.exists():
        command = [sys.executable, "-m", "attention_zoo", "export", name, str(export)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return export


def read_examples(name: str, size: int) -> Any:
    """Return the first examples of the test split of an entry's recipe."""
    recipe = az.training.read_recipe(zoo.find_recipe(name), [f"data.test_size={size}"])
    return recipe.data.read("test")


def encode_image(pixels: np.ndarray) -> bytes:
    """Return an image `(H, W, 1)` or `(H, W, 3)` as a PNG file."""
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "png")
    return file.getvalue()


def make_prompt(line: str, is_masked: bool) -> str:
    """Return the first half of a line, or the line with its middle word masked."""
    words = line.split()
    middle = len(words) // 2
    rest = ["[MASK]", *words[middle + 1 :]] if is_masked else []
    return " ".join([*words[:middle], *rest])


def make_inputs(task: Any, examples: Any) -> list[Any]:
    """Return the inputs of `task.predict`: texts, pairs or image files."""
    if hasattr(examples, "images"):
        return [encode_image(image) for image in examples.images]
    if task.name == "tagging":
        return [" ".join(words) for words in examples.words]
    if task.name.endswith("language_modeling"):
        return [make_prompt(line, task.name.startswith("masked")) for line in examples.texts]
    return list(task.get_predict_inputs(examples))


def make_instance(value: Any) -> Any:
    """Return an input as the entry of `instances`."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return {"first": value[0], "second": value[1]} if isinstance(value, tuple) else value


def send(
    server: Server, signature: str, inputs: Sequence[Any], fields: Sequence[str], num_clients: int
) -> tuple[float, list[Response]]:
    """Send a request for each input; return the seconds, and the responses."""
    bodies = [
        json.dumps({"signature_name": signature, "instances": [make_instance(value)]})
        for value in inputs
    ]
    seconds, responses = run_load(Load(server.port, server.path, bodies, fields, num_clients))
    return seconds, [one for one in responses if one is not None]


def get_fields(task: Any) -> list[str]:
    """Return the names of the outputs with the label and the score."""
    return ["scores", "text"] if task.name != "tagging" else ["scores", "tags", "lengths"]


def predict_served(
    server: Server, task: Any, inputs: Sequence[Any], num_clients: int
) -> list[Prediction]:
    """Return the predictions of a server."""
    _, responses = send(server, "serving_default", inputs, get_fields(task), num_clients)
    return list(map(read_prediction, responses))


def predict_in_process(task: Any, inputs: Sequence[Any], **options: Any) -> list[Prediction]:
    """Return the predictions of the task."""
    results = task.predict(inputs, on_error="skip", **options)
    is_tagging = task.name == "tagging"
    return [Prediction(list(one.tags) if is_tagging else one.text, one.score) for one in results]


def predict_one_by_one(task: Any, inputs: Sequence[Any], **options: Any) -> list[Prediction]:
    """Return the predictions of the task, called with one input at a time."""
    return [predict_in_process(task, [value], **options)[0] for value in inputs]


def measure_task(task: Any, examples: Any, server: Server) -> list[Difference]:
    """Compare the predictions of concurrent clients, one client, and the task one by one."""
    inputs = make_inputs(task, examples)
    served = [predict_served(server, task, inputs, number) for number in (NUM_CLIENTS, 1)]
    return compare_all(task, inputs, served)


def measure_retrieval(task: Any, examples: Any, server: Server, export: Path) -> list[Difference]:
    """Compare the best image of each text; the first caption of each image is a text."""
    images, texts = make_inputs(task, examples), [captions[0] for captions in examples.captions]
    names = [str(number) for number in range(len(images))]
    module = tf.saved_model.load(str(export))  # the signature has no reference to it
    served = []
    for num_clients in (NUM_CLIENTS, 1):
        _, encoded = send(server, "encode_images", images, ["regions"], num_clients)
        regions = np.array([one.values["regions"] for one in encoded], "float32")
        _, encoded = send(server, "encode_texts", texts, TEXT_FIELDS, num_clients)
        served.append([rank(module, regions, names, one.values) for one in encoded])
    return compare_all(task, texts, served, index=task.build_index(images, names))


def compare_all(
    task: Any, inputs: Sequence[Any], served: Sequence[Sequence[Prediction]], **options: Any
) -> list[Difference]:
    """Compare served predictions, and those of the task one by one, with those of the task.

    One by one are the first inputs, and those with another label when served.
    """
    expected = predict_in_process(task, inputs, **options)
    different = {
        number
        for predictions in served
        for number, pair in enumerate(zip(expected, predictions, strict=True))
        if pair[0].label != pair[1].label
    }
    chosen = sorted({*range(min(NUM_ONE_BY_ONE, len(inputs)))} | different)
    alone = predict_one_by_one(task, [inputs[number] for number in chosen], **options)
    return [
        *(compare(expected, predictions) for predictions in served),
        compare([expected[number] for number in chosen], alone),
    ]


def rank(
    module: Any, regions: np.ndarray, names: Sequence[str], text: dict[str, Any]
) -> Prediction:
    """Return the best image for an encoded text, without its padding."""
    words, mask = (np.array([text[name][: text["lengths"]]]) for name in ("words", "mask"))
    ranked = module.signatures["rank"](
        regions=tf.constant(regions), words=tf.constant(words, "float32"), mask=tf.constant(mask)
    )
    index, score = (int(ranked["image_indices"][0, 0]), float(ranked["scores"][0, 0]))
    return Prediction(names[index], score)


def measure_equality(size: int, exports: Path) -> list[str]:
    """Return a table of the differences of all tasks.

    Args:
        size: number of inputs for each task.
        exports: folder of exports by name; missing ones are written.
    """
    lines = [
        f"| task | entry | inputs | {NUM_CLIENTS} clients | score | 1 client | score"
        " | predict, one by one | score |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in ENTRIES:
        export, task = export_entry(name, exports), az.load(name)
        examples = read_examples(name, size)
        with start_server(Kind("attention_zoo"), export) as server:
            if task.name == "retrieval":
                differences = measure_retrieval(task, examples, server, export)
            else:
                differences = measure_task(task, examples, server)
        cells = " | ".join(f"{one.labels} | {one.score:.1e}" for one in differences)
        lines.append(f"| {task.name.replace('_', ' ')} | `{name}` | {len(examples):,} | {cells} |")
        print(lines[-1], flush=True)
    return [
        *lines,
        "",
        "Number of predictions whose text, class or tags differ from those of one call of"
        " `task.predict` with all inputs, with those without a response, and maximum difference of"
        f" the scores of the others. Targets: 0, and at most {TOLERANCE:.0e}. The last columns are"
        " the differences of `task.predict` with itself, called with one input at a time, for the"
        f" first {NUM_ONE_BY_ONE} inputs and those with another label when served: float32 rounding"
        " depends on the batch, and a search may choose another one of two almost equal results."
        " Retrieval: the best of all images for the first caption of each, ranked by the client.",
    ]


def measure_capacity(size: int, exports: Path) -> list[str]:
    """Return a table of requests per second, latency and memory of all tasks.

    Args:
        size: number of inputs for each task.
        exports: folder of exports by name; missing ones are written.
    """
    lines = [
        f"| task | entry | requests/s, 1 client | {NUM_CLIENTS} clients | p50, ms | p99, ms"
        " | memory, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ENTRIES:
        export, task = export_entry(name, exports), az.load(name)
        examples = read_examples(name, size)
        inputs, signature, fields = make_inputs(task, examples), "serving_default", get_fields(task)
        if task.name == "retrieval":
            inputs = [captions[0] for captions in examples.captions]
            signature, fields = "encode_texts", TEXT_FIELDS
        with start_server(Kind("attention_zoo"), export) as server:
            send(server, signature, inputs[:50], fields, NUM_CLIENTS)  # warm-up
            single, _ = send(server, signature, inputs, fields, 1)
            concurrent, responses = send(server, signature, inputs, fields, NUM_CLIENTS)
            memory = server.measure_memory() / 10**6
        if any(response.status != 200 for response in responses):
            raise RuntimeError(f"{name}: a request failed")
        times = [1000 * response.seconds for response in responses]
        cells = f"{len(inputs) / single:.0f} | {len(inputs) / concurrent:.0f}"
        cells += f" | {percentile(times, 0.5):.0f} | {percentile(times, 0.99):.0f} | {memory:,.0f}"
        lines.append(f"| {task.name.replace('_', ' ')} | `{name}` | {cells} |")
        print(lines[-1], flush=True)
    return [
        *lines,
        "",
        f"{size:,} inputs of the test split of each entry, one for each request;"
        f" {describe_device()}. The latency is that with {NUM_CLIENTS} clients. Retrieval: requests"
        " that encode a text. Memory: resident set size of the server after the requests.",
    ]

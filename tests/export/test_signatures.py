"""Signatures of all tasks: documented, and without operations that only XLA runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from attention_zoo.export import export
from tests.export import (
    test_served_captioning,
    test_served_classification,
    test_served_glimpses,
    test_served_masked_language_modeling,
    test_served_matching,
    test_served_retrieval,
    test_served_summarization,
    test_served_tagging,
)
from tests.export.test_saved_model import translator
from tests.tasks.test_language_modeling import make_task

TASKS: dict[str, Any] = {
    "rnnsearch": lambda: translator(beam_width=2),
    "transformer": lambda: translator("transformer_tiny", method="sampling", seed=1),
    "contrastive": lambda: translator("transformer_tiny", method="contrastive"),
    "language model": make_task,
    "masked language model": lambda: test_served_masked_language_modeling.task("word"),
    "summarization": lambda: test_served_summarization.task("pointer generator"),
    "captioning": lambda: test_served_captioning.task("soft"),
    "glimpses": lambda: test_served_glimpses.task("grey"),
    "retrieval": lambda: test_served_retrieval.task("words attend"),
    "tagging": lambda: test_served_tagging.task("self-attention"),
    "classification": lambda: test_served_classification.task("lstm"),
    "documents": lambda: test_served_classification.task("several"),
    "matching": lambda: test_served_matching.task("decomposable"),
    "similarity": lambda: test_served_matching.task("regression"),
}


PAGE = Path(__file__).parents[2] / "docs" / "signatures.md"
ROW = re.compile(r"^\| (\w+) \| `(\w+)` \| (\w+) \| `\((.*)\)` \| (.*) \|$", re.M)
TITLES = dict.fromkeys(("rnnsearch", "transformer", "contrastive"), "translation")
TITLES |= {
    "language model": "language modeling",
    "masked language model": "masked language modeling",
    "documents": "classification of documents",
    "similarity": "matching",
}
"""Tasks of the cases, where their names differ."""


@pytest.fixture(scope="module", params=TASKS)
def case(request: pytest.FixtureRequest) -> str:
    """Return the name of a case."""
    return request.param


@pytest.fixture(scope="module")
def graph(case: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the graph of an export, with its signatures."""
    folder = export(TASKS[case](), tmp_path_factory.mktemp("served") / "task")
    return SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]


@pytest.mark.full
def test_no_operation_needs_xla(graph: Any) -> None:
    functions = [function.node_def for function in graph.graph_def.library.function]
    operations = {node.op for nodes in (graph.graph_def.node, *functions) for node in nodes}
    assert not [name for name in operations if name.startswith("Xla")]


def read_documented(title: str) -> dict[str, dict[str, Any]]:
    """Return the inputs and outputs of each signature of a task on the page of signatures.

    An input or output is a type, a rank, and whether only some exports have it.
    """
    section = PAGE.read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    signatures: dict[str, dict[str, Any]] = {}
    for heading, rows in re.findall(r"^### (.*)\n((?:(?!###).*\n?)*)", section, re.M):
        tables: dict[str, dict[str, Any]] = {"input": {}, "option": {}, "output": {}}
        for role, name, dtype, shape, meaning in ROW.findall(rows):
            rank = len([size for size in shape.split(",") if size.strip()])
            tables[role][name] = (dtype, rank, meaning.startswith("if "))
        for name in re.findall(r"`(\w+)`", heading):
            options = tables["option"] if name == "serve_with_options" else {}
            inputs = {**tables["input"], **options}
            signatures[name] = {"inputs": inputs, "outputs": tables["output"]}
    return signatures


def describe(tensors: Any) -> dict[str, tuple[str, int]]:
    """Return type and rank of the inputs or outputs of a signature."""
    return {
        name: (tf.as_dtype(info.dtype).name, len(info.tensor_shape.dim))
        for name, info in tensors.items()
    }


@pytest.mark.full
def test_signatures_are_documented(case: str, graph: Any) -> None:
    documented = read_documented(TITLES.get(case, case).capitalize())
    exported = {name: s for name, s in graph.signature_def.items() if not name.startswith("__")}
    assert set(exported) == set(documented)
    for name, signature in exported.items():
        for side in ("inputs", "outputs"):
            actual = describe(getattr(signature, side))
            expected = {
                key: (dtype, rank) for key, (dtype, rank, _) in documented[name][side].items()
            }
            optional = {
                key for key, (_, _, is_optional) in documented[name][side].items() if is_optional
            }
            assert actual.items() <= expected.items(), (name, side)
            assert set(expected) - set(actual) <= optional, (name, side)


def test_the_page_of_signatures_is_read() -> None:
    documented = read_documented("Tagging")["serving_default"]
    assert documented["inputs"] == {"text": ("string", 1, False)}
    assert documented["outputs"]["spans"] == ("int32", 3, True)
    assert set(read_documented("Retrieval")) >= {"encode_images", "rank"}

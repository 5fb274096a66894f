"""Signatures of all tasks: documented, and without operations that only XLA runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from attention_zoo.export import export
from tests.export import (
    test_served_captioning,
    test_served_glimpses,
    test_served_masked_language_modeling,
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
}


@pytest.fixture(scope="module", params=TASKS)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the graph of an export, with its signatures."""
    folder = export(TASKS[request.param](), tmp_path_factory.mktemp("served") / "task")
    return SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0]


@pytest.mark.full
def test_no_operation_needs_xla(graph: Any) -> None:
    functions = [function.node_def for function in graph.graph_def.library.function]
    operations = {node.op for nodes in (graph.graph_def.node, *functions) for node in nodes}
    assert not [name for name in operations if name.startswith("Xla")]


@pytest.mark.full
def test_signatures_are_documented(graph: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "search-and-export.md").read_text("utf-8")
    documented = set(re.findall(r"`(\w+)`", page[page.index("## Export") :]))
    for name, signature in graph.signature_def.items():
        if not name.startswith("__"):
            assert {name, *signature.inputs, *signature.outputs} <= documented

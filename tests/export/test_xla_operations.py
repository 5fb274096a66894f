"""Exported graphs, which are not compiled, have no operation that only XLA runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from attention_zoo.export import export
from tests.export import (
    test_served_captioning,
    test_served_glimpses,
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
    "summarization": lambda: test_served_summarization.task("pointer generator"),
    "captioning": lambda: test_served_captioning.task("soft"),
    "glimpses": lambda: test_served_glimpses.task("grey"),
    "retrieval": lambda: test_served_retrieval.task("words attend"),
    "tagging": lambda: test_served_tagging.task("self-attention"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", TASKS)
def test_no_operation_needs_xla(name: str, tmp_path: Path) -> None:
    folder = export(TASKS[name](), tmp_path / "served")
    graph = SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    functions = [function.node_def for function in graph.library.function]
    operations = {node.op for nodes in (graph.node, *functions) for node in nodes}
    assert not [name for name in operations if name.startswith("Xla")]

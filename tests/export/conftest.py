"""Fixtures: eager execution in the fast tier, and outputs of exports."""

import pytest

from attention_zoo.export.graph_tokenizer import GraphTokenizer
from tests.eager import eager_in_fast_tier
from tests.export.alone import ExportedOutputs
from tests.export.test_graph_tokenizer import tokenizer

__all__ = ["eager_in_fast_tier"]


@pytest.fixture(scope="session")
def character_tables() -> None:
    """Compute the tables of Unicode characters that all graph tokenizers share."""
    GraphTokenizer(tokenizer("word", False))


@pytest.fixture(scope="module")
def exported_outputs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ExportedOutputs:
    """Outputs of the exports of a test module for its batches."""
    return ExportedOutputs(request.module, tmp_path_factory.mktemp("served"))

"""Modules and predictions run eagerly in the fast tier."""

import pytest

from attention_zoo.export.graph_tokenizer import GraphTokenizer
from tests.eager import eager_in_fast_tier
from tests.export.alone import Answers
from tests.export.test_graph_tokenizer import tokenizer

__all__ = ["eager_in_fast_tier"]


@pytest.fixture(scope="session")
def character_tables() -> None:
    """Computes the tables of Unicode characters that all graph tokenizers share."""
    GraphTokenizer(tokenizer("word", False))


@pytest.fixture(scope="module")
def answered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What exports of all tasks of a test module answer to all its batches."""
    return Answers(request.module, tmp_path_factory.mktemp("served"))

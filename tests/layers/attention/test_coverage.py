"""Every public or registered class has a conformance case."""

from __future__ import annotations

import inspect
from types import ModuleType

import keras

import attention_zoo as az
from attention_zoo.layers import ALIGNMENTS, SCORES, Alignment, RelativePositions, Score
from attention_zoo.models import (
    MODELS,
    Classifier,
    EncoderDecoder,
    Matcher,
    PrebuiltModel,
    Tagger,
    WordFeatures,
)
from attention_zoo.registry import Registry
from tests.layers.cases import cases, missing
from tests.layers.conformance import AlignmentConformance, ScoreConformance

BASES = {
    Alignment,
    Classifier,
    EncoderDecoder,
    Matcher,
    PrebuiltModel,
    RelativePositions,
    Score,
    Tagger,
}
"""Base classes without a computation."""
PARTS = {WordFeatures}
"""Layers that are tested in every model that contains them (`TaggerConformance`)."""
KINDS = (keras.layers.Layer, keras.losses.Loss)


def public(module: ModuleType) -> set[type]:
    """Return layers, losses and models that a module exports."""
    exported = (getattr(module, name) for name in module.__all__)
    return {x for x in exported if inspect.isclass(x) and issubclass(x, KINDS)} - BASES - PARTS


def registered(registry: Registry) -> set[type]:
    return {registry.get(name) for name in registry.names()}


def test_every_layer_has_a_case() -> None:
    assert missing(public(az.layers), cases("layers")) == []


def test_every_score_and_alignment_has_a_case_of_its_kind() -> None:
    result = cases("layers")
    of_scores = [case for case in result if issubclass(case, ScoreConformance)]
    of_alignments = [case for case in result if issubclass(case, AlignmentConformance)]
    assert missing(registered(SCORES), of_scores) == []
    assert missing(registered(ALIGNMENTS), of_alignments) == []


def test_every_model_has_a_case() -> None:
    result = cases("models")
    assert missing(public(az.models), result) == []
    assert missing({MODELS.get(name) for name in MODELS.names()}, result) == []


def test_every_loss_has_a_case() -> None:
    assert missing(public(az.losses), cases("losses")) == []


def test_missing_case_is_detected() -> None:
    class NewScore(Score):
        """A score without a case."""

    mine = Registry("score")
    mine.register("new")(NewScore)
    assert missing(registered(mine), cases("layers")) == ["NewScore"]
    for module, folder in ((az.layers, "layers"), (az.models, "models"), (az.losses, "losses")):
        result = cases(folder)
        for cls in public(module):
            others = [case for case in result if case.covers is not cls]
            assert missing(public(module), others) == [cls.__name__]

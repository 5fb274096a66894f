"""Registries of factories by name, and suggestions for misspelled names."""

from __future__ import annotations

import pytest

from attention_zoo.registry import Registry, did_you_mean


@pytest.fixture
def scores() -> Registry:
    registry = Registry("score")

    @registry.register("general")
    class General:
        pass

    @registry.register("dot")
    def dot() -> str:
        return "a dot score"

    return registry


def test_get_returns_the_factory(scores: Registry) -> None:
    assert scores.get("dot")() == "a dot score"
    assert scores.get("general").__name__ == "General"


def test_register_returns_the_factory(scores: Registry) -> None:
    def additive() -> None:
        pass

    assert scores.register("additive")(additive) is additive


def test_names_are_sorted_and_membership_is_by_name(scores: Registry) -> None:
    assert scores.names() == ["dot", "general"]
    assert "dot" in scores
    assert "cosine" not in scores
    assert None not in scores


def test_duplicate_name_raises(scores: Registry) -> None:
    first = scores.get("dot")
    with pytest.raises(ValueError, match=r"^score 'dot' is registered already$"):
        scores.register("dot")(lambda: None)
    assert scores.get("dot") is first


def test_unknown_name_suggests_the_closest(scores: Registry) -> None:
    with pytest.raises(ValueError) as caught:
        scores.get("generl")
    message = str(caught.value)
    assert message == ("unknown score 'generl'; did you mean 'general'? (known: dot, general)")


def test_unknown_name_without_suggestion(scores: Registry) -> None:
    with pytest.raises(ValueError, match=r"^unknown score 'xyzzy' \(known: dot, general\)$"):
        scores.get("xyzzy")


def test_other_types_are_unknown_names(scores: Registry) -> None:
    assert ["dot"] not in scores
    with pytest.raises(ValueError, match=r"^unknown score \['dot'\]"):
        scores.get(["dot"])  # type: ignore[arg-type]


def test_registries_are_independent(scores: Registry) -> None:
    assert Registry("alignment").names() == []
    assert len(scores.names()) == 2


def test_did_you_mean_accepts_any_object() -> None:
    assert did_you_mean(3, ["dot"]) == ""
    assert did_you_mean("unit", ["units", "seed"]) == "; did you mean 'units'?"

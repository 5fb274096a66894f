"""Registries of factories by name, and suggestions for misspelled names."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import attention_zoo as az
from attention_zoo.registry import Registry, check_choice, check_known, did_you_mean


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
    by = r"tests\.test_registry\.scores\.<locals>\.dot"
    message = rf"^score 'dot' is registered already, by {by}; use another name$"
    for other in (lambda: None, functools.partial(first), scores.get("general")):
        with pytest.raises(ValueError, match=message):
            scores.register("dot")(other)
    assert scores.get("dot") is first


def test_a_factory_replaces_an_earlier_version_of_itself(scores: Registry) -> None:
    """The same function is defined again when a notebook cell runs again."""
    versions: list[Callable[[], int]] = []
    for number in range(2):

        @scores.register("additive")
        def additive(number: int = number) -> int:
            return number

        versions.append(additive)
    assert scores.get("additive") is versions[1]
    scores.register("partial")(functools.partial(int, 3))
    with pytest.raises(ValueError, match=r"registered already, by functools\.partial\("):
        scores.register("partial")(functools.partial(int, 4))


def test_suggestions_ignore_case() -> None:
    assert did_you_mean("EN", ["fr", "en"]) == "; did you mean 'en'?"
    assert did_you_mean("vgg_16", ["resnet50", "VGG16"]) == "; did you mean 'VGG16'?"
    assert did_you_mean(3, ["fr"]) == ""


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


def test_exports_are_the_factories_by_their_own_names(scores: Registry) -> None:
    assert scores.exports() == {"General": scores.get("general"), "dot": scores.get("dot")}


INIT = """
from attention_zoo.registry import Registry, import_modules
FRUITS = Registry("fruit")
import_modules(__name__)
"""
MODULE = """
from fruits import FRUITS
@FRUITS.register("{0}")
class {0}: ...
"""


def test_modules_of_a_package_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file is all that a new class needs; an error in it is not swallowed."""
    folder = tmp_path / "fruits"
    (folder / "exotic").mkdir(parents=True)
    (folder / "__init__.py").write_text(INIT)
    (folder / "apple.py").write_text(MODULE.format("Apple"))
    (folder / "exotic" / "__init__.py").write_text("")
    (folder / "exotic" / "mango.py").write_text(MODULE.format("Mango"))
    monkeypatch.syspath_prepend(tmp_path)
    fruits = importlib.import_module("fruits").FRUITS
    assert list(fruits.exports()) == fruits.names() == ["Apple", "Mango"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "fruits"]:
        del sys.modules[name]
    (folder / "exotic" / "__init__.py").write_text("import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        importlib.import_module("fruits")


def test_registered_classes_are_public() -> None:
    for registry in (az.layers.SCORES, az.layers.ALIGNMENTS, az.layers.POSITIONS):
        for name, cls in registry.exports().items():
            assert getattr(az.layers, name) is cls
            assert name in az.layers.__all__
    for name, cls in az.models.MODELS.exports().items():
        assert getattr(az.models, name) is cls
        assert name in az.models.__all__


def test_check_known_names_the_first_unknown_name() -> None:
    known = {"units": 1, "dropout": 2}
    check_known("no option", ["dropout", "units"], known)
    message = r"^no option 'unit'; did you mean 'units'\? \(known: units, dropout\)$"
    with pytest.raises(ValueError, match=message):
        check_known("no option", ["dropout", "unit", "rate"], known)
    with pytest.raises(ValueError, match=r"no option \['q'\] \(known: units, dropout\)"):
        check_known("no option", [["q"]], known)


@pytest.mark.parametrize(
    ("value", "got"), [("sofft", "'sofft'; did you mean 'soft'"), (None, "None")]
)
def test_check_choice_lists_the_choices(value: object, got: str) -> None:
    check_choice("kind", "hard", iter(["soft", "hard"]))
    with pytest.raises(ValueError, match=f"^kind must be one of soft, hard, got {got}"):
        check_choice("kind", value, iter(["soft", "hard"]))

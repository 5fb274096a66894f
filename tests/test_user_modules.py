"""Modules of users: import by name, messages for those that cannot be or are not imported."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import attention_zoo as az
from attention_zoo.files import MANIFEST, write_manifest
from attention_zoo.models.presets import MODELS
from attention_zoo.registry import UnknownNameError
from attention_zoo.user_modules import import_user_modules, name_missing_modules
from tests.refusals import refuses

MODEL = """
import attention_zoo as az

@az.models.register_model
class {name}(az.models.RNNSearch):
    pass

az.models.add_presets({name}, {preset}={{"units": {units}}})
"""


def write_module(folder: Path, name: str = "Mine", units: int = 8, preset: str = "mine") -> None:
    """Write `my_module.py`, which registers a model and a preset."""
    text = MODEL.format(name=name, units=units, preset=preset)
    (folder / "my_module.py").write_text(text)


def test_modules_of_the_current_folder_are_imported_once(user_folder: Path) -> None:
    write_module(user_folder)
    (user_folder / "parts").mkdir()
    (user_folder / "parts" / "scores.py").write_text("")
    assert str(user_folder) not in sys.path
    import_user_modules(["my_module", "parts.scores"])
    first = sys.modules["my_module"]
    assert {"my_module", "parts.scores"} <= {*sys.modules}
    assert az.models.preset_class("mine") is first.Mine
    import_user_modules(["my_module", "my_module"])
    assert sys.modules["my_module"] is first
    assert sys.path.count(str(user_folder)) == 1


def test_a_reloaded_module_replaces_model_and_presets(user_folder: Path) -> None:
    write_module(user_folder)
    import_user_modules(["my_module"])
    module = sys.modules["my_module"]
    before = module.Mine
    write_module(user_folder, units=16)
    importlib.reload(module)
    assert module.Mine is not before
    assert (MODELS.get("Mine"), az.models.preset_class("mine")) == (module.Mine, module.Mine)
    assert az.models.preset_config("mine") == {"units": 16}
    az.models.register_model(before)  # a cell that defines the class alone runs again
    assert az.models.preset_class("mine") is before


def test_the_running_script_is_not_imported_again(
    user_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(user_folder)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "my_module.py", raising=False)
    import_user_modules(["my_module"])
    assert "my_module" not in sys.modules


@refuses(
    ("", "my_modul", r"^imports: no module 'my_modul' in .*sys\.path; did you mean 'my_module'\?$"),
    ("", "my_module.x", r"^imports: no module 'my_module\.x' in the current folder"),
    (
        "",
        "my_module.py",
        r"^imports: expected a module name .*, got 'my_module\.py'; use my_module$",
    ),
    ("", "./parts/x.py", r"got '\./parts/x\.py'; use parts\.x$"),
    ("", "../x.py", r"got '\.\./x\.py'; use x, and add its folder to PYTHONPATH or make it"),
    ("", "my module", r"expected a module name such as my_module, got 'my module'$"),
    ("", ".x", r"expected a module name such as my_module, got '\.x'$"),
    (
        "\n1 / 0",
        "my_module",
        r"^imports: importing my_module failed: /.*/my_module\.py:2: Zero.*zero$",
    ),
    (
        "x = (",
        "my_module",
        r"^imports: importing my_module failed: SyntaxError: .*my_module\.py, l",
    ),
    ("import nowhere", "my_module", r"my_module\.py:1: ModuleNotFoundError: No .* 'nowhere'$"),
    ("exit(3)", "my_module", r"importing my_module failed: /.*/my_module\.py:1: SystemExit: 3$"),
    (
        MODEL.format(name="RNNSearch", units=1, preset="mine"),
        "my_module",
        r"my_module\.py:4: ValueError: model 'RNNSearch' is registered already, by"
        r" attention_zoo\.models\.translation\.rnnsearch\.RNNSearch; use another name$",
    ),
    (
        MODEL.format(name="Mine", units=1, preset="rnnsearch_small"),
        "my_module",
        r"my_module\.py:8: ValueError: preset 'rnnsearch_small' is registered already, by atten",
    ),
    (
        MODEL.replace("@az.models.register_model", "").format(name="Mine", units=1, preset="mine"),
        "my_module",
        r"my_module\.py:8: ValueError: Mine is not registered, .* with @register_model$",
    ),
)
def test_modules_that_cannot_be_imported(content: Any, name: str, user_folder: Path) -> None:
    (user_folder / "my_module.py").write_text(content)
    import_user_modules([name])


@pytest.mark.parametrize("name", ["copy", "time"])
def test_a_file_with_the_name_of_an_imported_module_is_reported(
    name: str, user_folder: Path
) -> None:
    (user_folder / f"{name}.py").write_text("")
    with pytest.raises(ValueError, match=f"^imports: {name}.py is not imported, because the mod"):
        import_user_modules([name])


def test_names_must_be_a_list() -> None:
    with pytest.raises(ValueError, match=r"^--import must be a list of .* pass \['my_module'\]$"):
        import_user_modules("my_module", "--import")


@pytest.mark.parametrize("wrapped", [False, True])
def test_missing_modules_of_a_run_are_named(wrapped: bool, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoints" / "step-00000004"
    checkpoint.mkdir(parents=True)

    def load(folder: Path) -> None:
        error = UnknownNameError("unknown model 'Mine'", " (known: RNNSearch)")
        with name_missing_modules(folder):
            if not wrapped:
                raise error
            raise ValueError(f"{error}, in this run") from error

    def fail(folder: Path) -> str:
        with pytest.raises(ValueError, match=r"^unknown model") as caught:
            load(folder)
        return str(caught.value)

    unchanged = fail(tmp_path)
    assert unchanged.startswith("unknown model 'Mine' (known: RNNSearch)")
    recipe = tmp_path / "recipe.yaml"
    for text in (
        "imports: [sys]",
        "imports: []",
        "imports:",
        "imports: 3",
        "[",
        "x",
        "imports: [a b]",
    ):
        recipe.write_text(text)
        assert fail(tmp_path) == unchanged
    recipe.write_text("imports: [my_module, sys]")
    begin = "unknown model 'Mine'; this run was trained with imports: "
    end = "in Python before az.load"
    expected = f"{begin}[my_module]: pass --import my_module, or import it {end}"
    assert fail(tmp_path) == fail(checkpoint) == expected
    recipe.write_text("imports: [mine.a, mine.b]")
    options = "--import mine.a --import mine.b"
    assert fail(tmp_path) == f"{begin}[mine.a, mine.b]: pass {options}, or import them {end}"


def test_a_saved_name_without_a_recipe_is_not_only_called_outdated(tmp_path: Path) -> None:
    az.models.LuongTranslator(9, 9, units=4, embedding_dim=4).save_to_preset(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"general"', '"mine"'))
    (tmp_path / MANIFEST).unlink()
    write_manifest(tmp_path)
    message = (
        r"config\.json: unknown score 'mine'.*; import the module that registers it first \(on the"
        r" command line, --import MODULE\); without such a module the file is outdated or edited"
    )
    with pytest.raises(ValueError, match=message):
        az.models.from_preset(tmp_path)


def test_other_errors_are_not_changed(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("imports: [my_module]")
    with pytest.raises(ValueError, match=r"^damaged$"), name_missing_modules(tmp_path):
        raise ValueError("damaged")

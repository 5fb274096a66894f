"""The wheels of the package and of the trained models: their files, and an installation."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import attention_zoo

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
ENTRY = "rnnsearch_small.dates_en_fr"
SENTENCE = "they arrive on Monday, March 3, 2031; dinner is at 5:04 PM."


def list_files(top: str, pattern: str = "**/*") -> set[str]:
    """Return the paths of a folder's files, relative to the root, without build outputs."""
    files = (path for path in (ROOT / top).glob(pattern) if path.is_file())
    names = {path.relative_to(ROOT).as_posix() for path in files}
    return {name for name in names if "__pycache__" not in name and "/build/" not in name}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two wheels by their name, built from a copy as `make wheel` builds them."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("attention_zoo", "models", "training", "tests"):
        ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist"]
    command = [sys.executable, "-m", "pip", *build, ".", "./models"]
    subprocess.run(command, cwd=copy, check=True)
    return {path.name.partition("-")[0]: path for path in (copy / "dist").iterdir()}


def read_names(wheel: Path) -> set[str]:
    """Return the files of a wheel without those of its metadata."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name}


def test_the_package_holds_its_modules_and_the_recipes(wheels: dict[str, Path]) -> None:
    recipes = {
        name.replace("training/", "attention_zoo/recipes/", 1)
        for name in list_files("training", "*/*.*.yaml")
    }
    assert f"attention_zoo/recipes/translation/{ENTRY}.yaml" in recipes
    assert read_names(wheels["attention_zoo"]) == list_files("attention_zoo") | recipes


def test_the_models_hold_cards_and_weights(wheels: dict[str, Path]) -> None:
    files = {name for name in list_files("models", "*/*/**/*") if not name.endswith(".png")}
    expected = {name.replace("models/", "attention_zoo_models/", 1) for name in files}
    assert f"attention_zoo_models/translation/{ENTRY}/model/model.weights.h5" in expected
    assert read_names(wheels["attention_zoo_models"]) == expected


def test_both_have_the_same_version() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "models" / "setup.cfg")
    assert metadata["metadata"]["version"] == attention_zoo.__version__


def test_weights_are_small() -> None:
    sizes = {path: path.stat().st_size for path in (ROOT / "models").rglob("*.h5")}
    assert max(sizes.values()) <= 10e6
    assert sum(sizes.values()) <= 60e6


def test_installed_wheels_work_by_name(wheels: dict[str, Path], tmp_path: Path) -> None:
    """In an empty environment with Python alone, from another folder."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *map(str, wheels.values())], check=True)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    hidden = ("PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}

    def run(*words: str, text: str = "", code: int = 0) -> tuple[str, str]:
        command = [python.with_name("attention-zoo"), *words]
        streams = {"input": text, "capture_output": True, "encoding": "utf-8"}
        done = subprocess.run(command, cwd=folder, env=environment, check=False, **streams)
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    rows = json.loads(run("list", "--json")[0])
    assert any(row["name"] == ENTRY and row["weights"] for row in rows)
    assert "le lundi 3 mars 2031" in run("predict", ENTRY, text=SENTENCE + "\n")[0]
    _, error = run("train", ENTRY, "training.steps=5", code=2)
    assert "run `pip install 'attention-zoo[dates]'`" in error
    subprocess.run([*install, "attention-zoo[dates]"], cwd=folder, check=True)
    steps = ("training.steps=5", "training.evaluate_every=5", "data.size=200")
    assert f"evaluate runs/{ENTRY}" in run("train", ENTRY, *steps)[0]
    _, error = run("evaluate", f"runs/{ENTRY}", "data.test_size=5", code=2)
    assert "run `pip install 'attention-zoo[metrics]'`" in error
    package = ("uninstall", "--quiet", "--yes", "attention-zoo-models")
    subprocess.run([python, "-m", "pip", *package], check=True)
    _, error = run("predict", ENTRY, text=SENTENCE, code=2)
    assert "run `pip install attention-zoo-models`" in error

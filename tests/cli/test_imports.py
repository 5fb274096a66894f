"""`--import` and `imports`: modules of users on the command line."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from attention_zoo import models, tasks
from attention_zoo.models.presets import MODELS
from tests.cli.test_main import Capture, output, refused
from tests.tasks import letter_task
from tests.tasks.test_entry_point import RECIPE
from tests.training.small import contents, copy_of_small_run, write_recipe

MODULE = """
from attention_zoo.models import MODELS, RNNSearch

MODELS.register("RNNSearch")(RNNSearch)
"""


@pytest.fixture
def run_folder(user_folder: Path) -> Path:
    """Folder of a run whose model `my_module.py` registers; the module is not imported."""
    folder = copy_of_small_run(user_folder)
    recipe = (folder / "recipe.yaml").read_text()
    assert "imports: []" in recipe
    (folder / "recipe.yaml").write_text(recipe.replace("imports: []", "imports: [my_module]"))
    (user_folder / "my_module.py").write_text(MODULE)
    del MODELS._factories["RNNSearch"]
    return folder


@pytest.fixture
def task_folder(user_folder: Path) -> Path:
    """Folder with `letter_task.py`, which registers the task letters."""
    shutil.copy(letter_task.__file__, user_folder)
    del tasks.TASKS._factories["letters"]
    return user_folder


@pytest.mark.parametrize(
    "words",
    [
        "evaluate run",
        "predict run my_module.py",
        "export run new",
        "average run -o new",
        "train small.yaml run=run training.steps=41 --allow training.steps",
        "train small.yaml run=new init=run model=null tokenizer=null",
    ],
)
def test_commands_name_the_module_to_import(words: str, run_folder: Path, capsys: Capture) -> None:
    write_recipe(Path())
    (run_folder / "lock").unlink()
    before = contents(Path())
    assert refused(capsys, *words.split()) == (
        "attention-zoo: error: unknown model 'RNNSearch'; this run was trained with imports:"
        " [my_module]: pass --import my_module, or import it in Python before az.load\n"
    )
    assert "my_module" not in sys.modules
    message = refused(capsys, *words.split(), "--import", "my_modul")
    assert "error: --import: no module 'my_modul' in the current folder or on sys.path;" in message
    after = {path: data for path, data in contents(Path()).items() if not path.endswith("/lock")}
    assert after == before


def test_evaluate_and_average_import_the_module(
    run_folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.Translation, "evaluate", lambda *_, **__: {"bleu": 12.5})
    assert "bleu          12.5000" in output(capsys, "evaluate", "run", "--import", "my_module")
    lines = output(capsys, "average", "run", "-o", "new", "--import", "my_module").splitlines()
    assert lines[-1] == "  attention-zoo evaluate ./new --import my_module"


def test_evaluate_names_the_module_of_a_corpus(run_folder: Path, capsys: Capture) -> None:
    MODELS.register("RNNSearch")(models.RNNSearch)
    path = run_folder / "recipe.yaml"
    path.write_text(path.read_text().replace("corpus: dates", "corpus: mine"))
    message = "error: unknown data.corpus 'mine'; this run was trained with imports: [my_module]: "
    assert message in refused(capsys, "evaluate", "run")


def test_python_names_the_module_to_import(run_folder: Path) -> None:
    for folder in (run_folder, run_folder / "checkpoints" / "step-00000040"):
        with pytest.raises(ValueError, match=r"^unknown model 'RNNSearch'; .* \[my_module\]: pass"):
            tasks.load(folder)
    (run_folder / "recipe.yaml").unlink()
    with pytest.raises(ValueError, match=r"^unknown model 'RNNSearch'; import the module that re"):
        tasks.load(run_folder)


@pytest.mark.usefixtures("task_folder")
def test_keys_of_a_task_of_a_module(capsys: Capture) -> None:
    keys = output(capsys, "train", "--help-keys", "letters", "--import", "letter_task")
    assert "data.corpus=random_letters  # Random strings of the letters a and b" in keys


@pytest.mark.slow
def test_every_command_accepts_a_task_of_a_module(task_folder: Path, capsys: Capture) -> None:
    (task_folder / "recipe.yaml").write_text(f"imports: [letter_task]\n{RECIPE}")
    (task_folder / "texts").write_text("aab\nabbb\n")
    option = ("--import", "letter_task")
    assert output(capsys, "train", "recipe.yaml", "run=run").endswith("run --import letter_task\n")
    assert {*output(capsys, "predict", "run", "texts", *option).split()} <= {"a", "b"}
    assert "accuracy" in output(capsys, "evaluate", "run", *option)
    output(capsys, "export", "run", "served", *option)
    assert Path("served/saved_model.pb").is_file()
    del tasks.TASKS._factories["letters"], sys.modules["letter_task"]
    message = "error: unknown task 'letters'; this run was trained with imports: [letter_task]: "
    assert message in refused(capsys, "evaluate", "run")

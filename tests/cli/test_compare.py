"""`compare` on run folders that the code of the training loop writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import pytest

from attention_zoo.checkpoints.folder import CheckpointFolder
from attention_zoo.cli.compare import MAX_WIDTH, shorten_cells
from attention_zoo.models.weights_file import WEIGHTS, count_saved_parameters, serialize_weights
from attention_zoo.training.recipe import format_recipe, read_recipe
from attention_zoo.training.run_folder import RunState, write_state
from tests.cli.test_main import Capture, output, refused
from tests.tasks.captioners import make_untrained_task
from tests.training.small import write_recipe

METRICS = {"sentences": 20, "bleu": 51.25, "confusion": [{"a": 1}]}


def make_run(folder: Path, *overrides: str, units: int = 3, **state: Any) -> Path:
    """Write a run with one checkpoint: its recipe, state and a model of `5 * units` weights."""
    folder.mkdir()
    recipe = read_recipe(write_recipe(folder.parent), overrides)
    (folder / "recipe.yaml").write_text(format_recipe(recipe), encoding="utf-8")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units)])

    def write(checkpoint: Path) -> None:
        (checkpoint / "model").mkdir()
        (checkpoint / "model" / WEIGHTS).write_bytes(serialize_weights(model))
        (checkpoint / "task.json").write_text("{}")
        write_state(checkpoint, RunState(**{"step": 40, **state}))

    CheckpointFolder(folder / "checkpoints").save(40, write)
    return folder


def rows_of(out: str) -> dict[str, list[str]]:
    """Return the cells of a table by the name of the row; cells are two spaces apart."""
    lines = [line.split("  ") for line in out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    return {"": cells[0], **{name: values for name, *values in cells[1:]}}


def test_table_of_two_runs(tmp_path: Path, capsys: Capture) -> None:
    one = make_run(tmp_path / "one", best=2.5, best_step=20, seconds=75.0)
    changed = ["training.learning_rate=0.5", "model.units=32", "training.monitor=bleu"]
    other = make_run(
        tmp_path / "other", *changed, "run=elsewhere", units=300, best=31.0, best_step=40
    )
    results = {"evaluations": [{"split": "test", "metrics": METRICS}]}
    (other / "results.json").write_text(json.dumps({"format_version": 1, **results}))
    rows = rows_of(output(capsys, "compare", one, other))
    assert rows.pop("")[0].endswith("one")
    assert rows == {
        "parameters": ["15", "1,500"],
        "best": ["loss 2.5000 at step 20", "bleu 31.0000 at step 40"],
        "steps": ["40", "40"],
        "training time": ["1 min 15 s", "0 s"],
        "test bleu": ["-", "51.2500"],
        "model.units": ["16", "32"],
        "training.learning_rate": ["0.01", "0.5"],
        "training.monitor": ["loss", "bleu"],
    }


def test_json_has_one_object_for_each_run(tmp_path: Path, capsys: Capture) -> None:
    """Keys of another corpus are missing; texts are not shortened."""
    long = "data/" + "x" * 60
    files = ["data.corpus=tsv", f"data.train={long}", "data.source=en", "data.target=fr"]
    runs = [
        make_run(tmp_path / "one"),
        make_run(tmp_path / "two", *files, best=1.0, best_step=7),
        make_run(tmp_path / "three"),
    ]
    one, two, three = json.loads(output(capsys, "compare", "--json", *runs))
    assert [one["run"], two["run"]] == list(map(str, runs[:2]))
    assert (one["task"], one["parameters"], one["monitor"]) == ("translation", 15, "loss")
    assert (two["best"], two["best_step"], two["step"], two["seconds"]) == (1.0, 7, 40, 0.0)
    assert one["best"] is one["best_step"] is one["evaluation"] is None
    assert one["recipe"] == three["recipe"]
    assert one["recipe"]["data.size"] == 300
    assert two["recipe"]["data.train"] == long
    assert "data.train" not in one["recipe"]
    assert "data.size" not in two["recipe"]
    assert "training.steps" not in one["recipe"]


def test_zoo_entries_are_compared(capsys: Capture) -> None:
    """They contain no training state, but results.json with the number of steps and the time."""
    rows = rows_of(
        output(capsys, "compare", "luong_small.dates_en_fr", "rnnsearch_small.dates_en_fr")
    )
    assert rows["parameters"] == ["481,840", "469,056"]
    assert rows["steps"] == ["1,200", "1,050"]
    assert rows["test bleu"] == ["99.9104", "99.9405"]
    assert rows["model.preset"] == ["luong_small", "rnnsearch_small"]
    assert "best" not in rows


def test_invalid_runs_are_refused(tmp_path: Path, capsys: Capture) -> None:
    one = make_run(tmp_path / "one")
    assert "compare needs at least two runs, got 1" in refused(capsys, "compare", one)
    assert f"runs must be distinct, got {one}/ twice. Remove one." in refused(
        capsys, "compare", one, f"{one}/"
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"{empty}: not a run folder" in refused(capsys, "compare", one, empty)
    started = tmp_path / "started"
    started.mkdir()
    (started / "recipe.yaml").write_text((one / "recipe.yaml").read_text())
    assert f"{started}: this run has no checkpoint yet" in refused(capsys, "compare", started, one)
    assert f"{tmp_path}/none: no such folder" in refused(capsys, "compare", one, f"{tmp_path}/none")
    assert "no entry of the zoo has this name" in refused(capsys, "compare", one, "unknown_name")
    task = tmp_path / "task"
    task.mkdir()
    (task / "task.json").write_text("{}")
    assert f"{task}: has no recipe.yaml to compare" in refused(capsys, "compare", one, task)
    error = refused(capsys, "compare", one, "han_small.reviews")
    assert f"one task to be compared, got translation ({one}), classification (han_small" in error
    (one / "results.json").write_text("{")
    other = make_run(tmp_path / "other")
    assert f"{one}/results.json: damaged" in refused(capsys, "compare", other, one)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["a", "b" * MAX_WIDTH], ["a", "b" * MAX_WIDTH]),
        (["a", "b" * 41], ["a", "b" * 37 + "..."]),
        (["x" * 60 + "one", "x" * 60 + "two"], ["...xxxxxxxxone", "...xxxxxxxxtwo"]),
        (["x" * 60, "x" * 60 + "/" + "y" * 50], ["...xxxxxxxx", "...xxxxxxxx/" + "y" * 25 + "..."]),
    ],
)
def test_long_cells_show_their_first_difference(cells: list[str], expected: list[str]) -> None:
    assert shorten_cells(cells) == expected
    assert max(map(len, expected)) <= MAX_WIDTH


def test_saved_parameters_are_those_of_the_model(tmp_path: Path) -> None:
    """The states of random seeds, which the file contains too, do not count."""
    model = make_untrained_task().model
    (tmp_path / WEIGHTS).write_bytes(serialize_weights(model))
    assert len(model.variables) > len(model.weights)
    assert count_saved_parameters(tmp_path / WEIGHTS) == model.count_params()

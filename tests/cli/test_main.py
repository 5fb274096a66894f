"""The commands on a small run: what they print, and one line and code 2 for every mistake."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attention_zoo import tasks, training
from attention_zoo.cli import main
from attention_zoo.cli.main import COMMANDS
from tests.tasks.captioners import encoded
from tests.training.small import copy_of_small_run, small_run, write_recipe

Capture = pytest.CaptureFixture[str]
PROGRAM = "import sys; from attention_zoo.cli import main; sys.exit(main())"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
GLIMPSES = """
task: glimpses
data: {corpus: classes, train: images, validation: images, image_size: 8}
model: {preset: ram_mnist, glimpse_size: 3, glimpses: 2, glimpse_units: 4, units: 6}
training: {steps: 2, evaluate_every: 2, batch_size: 2, jit: false}
"""


def attention_zoo(*words: object, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program in a subprocess."""
    # -P: like the installed program, it does not have the current folder on `sys.path`.
    command = [sys.executable, "-P", "-c", PROGRAM, *map(str, words)]
    streams = {"input": text, "capture_output": True, "encoding": "utf-8", "timeout": 120}
    return subprocess.run(command, **streams, env=ENVIRONMENT, check=False)


def run(capsys: Capture, *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    return code, *capsys.readouterr()


def output(capsys: Capture, *words: object) -> str:
    """Return the output of a command that succeeds."""
    code, out, err = run(capsys, *words)
    assert code == 0, err
    return out


def refused(capsys: Capture, *words: object) -> str:
    """Return the one-line error of a command that fails."""
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("attention-zoo: error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.full
def test_process_trains_predicts_and_fails(tmp_path: Path) -> None:
    path, folder = write_recipe(tmp_path), tmp_path / "run"
    words = ("train", path, f"run={folder}", "training.steps=2", "training.evaluate_every=1")
    trained = attention_zoo(*words)
    assert trained.returncode == 0, trained.stderr
    assert "parameters" in trained.stdout.splitlines()[0]
    assert "step 2/2" in trained.stdout
    answered = attention_zoo("predict", folder, text="it is five\nit is six\n")
    assert answered.returncode == 0, answered.stderr
    assert answered.stdout.count("\n") == 2
    failed = attention_zoo("train", path, "training.stepps=3")
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr.splitlines()[-1] == (
        "attention-zoo: error: training.stepps=3: unknown key 'training.stepps';"
        " did you mean 'steps'?"
    )
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str, capsys: Capture) -> None:
    assert f"attention-zoo {name}" in output(capsys, name, "--help")
    assert name in output(capsys, "--help")


def test_version(capsys: Capture) -> None:
    assert run(capsys, "--version")[0] == 0


def test_train_resumes_with_the_same_command(tmp_path: Path, capsys: Capture) -> None:
    out = output(capsys, "train", write_recipe(tmp_path), f"run={small_run()}")
    assert "nothing to do" in out
    assert f"attention-zoo evaluate {small_run()}" in out


def test_evaluate_aligns_the_metrics(tmp_path: Path, capsys: Capture) -> None:
    folder = copy_of_small_run(tmp_path)
    head, *lines = output(
        capsys, "evaluate", folder, "data.test_size=1", "search.max_length=2"
    ).splitlines()
    assert head.startswith("test: ")
    (entry,) = json.loads((folder / "results.json").read_text())["evaluations"]
    values = {name: value for name, value in entry["metrics"].items() if type(value) is not list}
    width = max(map(len, entry["metrics"])) + 2
    assert [line[:width].rstrip() for line in lines if line[0] != " "] == list(values)
    assert f"{'bleu':{width}}{values['bleu']:.4f}" in lines


@pytest.mark.full
def test_evaluate_writes_results(tmp_path: Path, capsys: Capture) -> None:
    folder = copy_of_small_run(tmp_path)
    for words in ((), ("data.split=validation", "search.beam_width=2"), ()):
        out = output(capsys, "evaluate", folder, *words)
        assert "exact_match" in out
        assert "bleu" in out
    results = json.loads((folder / "results.json").read_text())
    first, second = results["evaluations"]
    assert (second["split"], second["search"]["beam_width"]) == ("test", 1)
    assert (first["split"], first["search"]["beam_width"]) == ("validation", 2)
    assert first["metrics"]["sentences"] == 40
    assert second["metrics"]["sentences"] == 20
    assert (results["seed"], results["step"], results["preset"]) == (1, 40, "rnnsearch_small")
    assert results["parameters"] > 1000
    assert results["versions"]["keras"]
    assert results["training_seconds"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("predit", "unknown command 'predit'; did you mean 'predict'"),
        ("list --all", "unrecognized arguments: --all"),
        ("train", "the following arguments are required: RECIPE"),
        ("train nowhere.yaml", "nowhere.yaml: no such recipe"),
        ("train a.yaml steps", "steps: expected key=value"),
        ("predict nowhere", "nowhere: no such folder"),
        ("evaluate RUN data.split=tets", "unknown split; did you mean 'test'"),
        ("evaluate RUN training.steps=3", "evaluate takes data.* and search.* options only"),
        ("evaluate there", "there: not a run folder"),
        ("evaluate RUN/checkpoints/step-00000040", "has no recipe.yaml"),
        ("evaluate RUN search.beam=2", "unknown key 'search.beam'"),
        ("average RUN", "the following arguments are required: -o/--out"),
        ("average RUN -o there", "there: already exists; choose another folder"),
        ("average RUN --last 1 -o new", "last must be at least 2, got 1"),
        ("average RUN --last 9 -o new", "expected 9 intact checkpoints to average, found 2"),
        ("average RUN --last x -o new", "invalid int value: 'x'"),
        ("export RUN", "export expects one output folder, got 0"),
        ("export RUN a b", "export expects one output folder, got 2"),
        ("export RUN there", "there: already exists; choose another folder"),
        ("export RUN new training.steps=2", "training.steps=2: export takes search."),
        ("export RUN new search.beam=2", "search.beam=2: unknown key 'search.beam'"),
        (
            "export RUN new search.n_best=2",
            "n_best must be at most beam_width, got n_best=2, beam_width=1",
        ),
        pytest.param(
            "export RUN deep/er/new search.banned_tokens=[99999]",
            "error: banned_tokens must be ids",
            marks=pytest.mark.full,
        ),
        ("export RUN deep/new --format onnx", "unknown export format 'onnx'"),
        ("export RUN there.txt/new", "there.txt: is a file; use another folder"),
        ("average RUN -o there.txt/new", "there.txt: is a file; use another folder"),
        ("train recipe.yaml run=there.txt/new", "there.txt: is a file; use another folder"),
        ("predict RUN --attention there.txt/a.png", "there.txt is a file; use another folder"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    words: str, message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = str(small_run().resolve())
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    Path("there.txt").touch()
    write_recipe(tmp_path).rename("recipe.yaml")
    before = sorted(tmp_path.iterdir())
    assert message in refused(capsys, *words.replace("RUN", run_folder).split())
    assert sorted(tmp_path.iterdir()) == before


def test_keys_are_listed_with_defaults_and_descriptions(capsys: Capture) -> None:
    lines = output(capsys, "train", "--help-keys", "translation").splitlines()
    assert "training.steps=10000  # total number of updates" in lines
    begins = ("training.optimizer={name: adam}  # a name in", "data.corpus=tsv  # Tab-separated")
    assert all(any(line.startswith(begin) for line in lines) for begin in begins)
    assert not [line for line in lines if line and "  # " not in line]
    assert not [line for line in lines if "corpus=conll" in line]
    every = output(capsys, "train", "--help-keys").splitlines()
    assert {*lines} < {*every}
    assert [line for line in every if line.startswith("data.corpus=conll ")]
    assert "unknown task 'translate'; did you" in refused(
        capsys, "train", "--help-keys", "translate"
    )


METRICS = {"bleu": 12.5, "exact_match": 50.0, "truncated": 0, "invalid": 2}


@pytest.fixture
def quick_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.Translation, "evaluate", lambda *_, **__: METRICS)


@pytest.mark.usefixtures("quick_evaluation")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", ": damaged (Expecting property name"),
        ("[]", ": damaged (expected a JSON object, got list)"),
        ('{"step": 40}', ": outdated or edited ('evaluations' is missing)"),
        ('{"step": 40, "evaluations": [3]}', ": outdated or edited ("),
        ('{"format_version": 2}', " has format_version 2, but this version of attention_zoo reads"),
    ],
)
def test_figures_are_printed_before_a_damaged_file_is_reported(
    content: str, problem: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = copy_of_small_run(tmp_path)
    (folder / "results.json").write_text(content)
    code, out, err = run(capsys, "evaluate", folder)
    assert (code, err.count("\n"), "bleu          12.5000" in out) == (2, 1, True)
    assert f"{folder}/results.json{problem}" in err
    assert ("this evaluation was not written to it" in err) == ("has format" not in problem)
    assert (folder / "results.json").read_text() == content


@pytest.mark.usefixtures("quick_evaluation")
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), PermissionError(13, "Permission denied")]
)
def test_figures_are_printed_before_a_failed_write(
    error: OSError, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("attention_zoo.training.evaluation.replace_file", fail)
    folder = copy_of_small_run(tmp_path)
    code, out, err = run(capsys, "evaluate", folder)
    assert (code, "bleu          12.5000" in out) == (2, True)
    message = f"{error.strerror}, so this evaluation was not written to it"
    assert err == f"attention-zoo: error: {folder}/results.json: {message}\n"


@pytest.mark.usefixtures("quick_evaluation")
def test_metrics_have_units(tmp_path: Path, capsys: Capture) -> None:
    lines = output(capsys, "evaluate", copy_of_small_run(tmp_path)).splitlines()
    assert lines[1:] == [
        "bleu          12.5000",
        "exact_match   50.0000 %",
        "truncated     0 outputs without an end token",
        "invalid       2 sentences with an invalid tag sequence",
    ]


def test_divergence_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    result = training.RunResult(tmp_path, 40, 10_050.0, 20, 1.0, diverged=True)
    monkeypatch.setattr("attention_zoo.training.fit", lambda *_, **__: result)
    code, out, err = run(capsys, "train", write_recipe(tmp_path))
    assert (code, "step 20" in out) == (0, True)
    assert "warning: the training loss rose" in err
    assert "lower training.learning_rate" in err
    result = training.RunResult(tmp_path, 40, None, 0, 1.0, diverged=True)
    _, out, _ = run(capsys, "train", write_recipe(tmp_path))
    assert "step 0" not in out
    assert out.startswith("no best checkpoint: no evaluation returned a finite value")


def test_no_arguments(capsys: Capture) -> None:
    code, out, _ = run(capsys)
    assert (code, "usage: attention-zoo" in out) == (2, True)


def test_interrupt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attention_zoo.training.fit", stop)
    code, _, err = run(capsys, "train", write_recipe(tmp_path))
    assert (code, err) == (130, "attention-zoo: interrupted\n")


def test_changes_are_allowed_by_name(tmp_path: Path, capsys: Capture) -> None:
    path, folder = write_recipe(tmp_path), copy_of_small_run(tmp_path)
    capsys.readouterr()
    words = ("train", path, f"run={folder}", "training.patience=1", "data.test_size=9")
    message = refused(capsys, *words)
    assert message.endswith("--allow data.test_size,training.patience\n")
    out = output(capsys, *words, "--allow", "data.test_size,training.patience")
    assert "nothing to do" in out
    assert "--allow patience: unknown recipe key" in refused(capsys, *words, "--allow", "patience")


def test_full_disk_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr("attention_zoo.training.fit", full)
    message = refused(capsys, "train", write_recipe(tmp_path))
    assert message.endswith("runs/x: No space left on device\n")


@pytest.mark.full
def test_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-c", PROGRAM, "--help"]
    process = subprocess.Popen(command, stdout=-1, stderr=-1, env=ENVIRONMENT)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 0
    assert "Traceback" not in errors
    assert "BrokenPipeError" not in errors


@pytest.mark.full
def test_glimpses_from_a_folder_of_images_to_a_plot_of_the_path(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, level in (("dark/a", 20), ("dark/b", 40), ("light/c", 220), ("light/d", 250)):
        Path(f"images/{name}.png").parent.mkdir(parents=True, exist_ok=True)
        Path(f"images/{name}.png").write_bytes(encoded(np.full((9, 8, 3), level, np.uint8)))
    Path("recipe.yaml").write_text(GLIMPSES)
    whole = Path("images/light/d.png").read_bytes()
    for raw, message in (
        (whole[:-9], "images/light/d.png: the PNG data is damaged or truncated; download it again"),
        (b"", "images/light/d.png: is empty; give a JPEG, PNG or WebP image"),
    ):
        Path("images/light/d.png").write_bytes(raw)
        assert message in refused(capsys, "train", "recipe.yaml", "run=run")
    Path("images/light/d.png").write_bytes(whole)
    Path("images/light/e.png").write_bytes(b"")
    out = output(capsys, "train", "recipe.yaml", "run=run", "data.skip_bad=1")
    assert "step 2/2" in out
    assert "; 4 training images (1 bad dropped), 4 validation images (1 bad dropped);" in out
    assert "e.png: is empty" in refused(
        capsys, "evaluate", "run", "data.split=validation", "data.skip_bad=0"
    )
    Path("images/light/e.png").unlink()
    out = output(capsys, "evaluate", "run", "data.split=validation")
    assert "accuracy" in out
    assert "error" in out
    Path("paths.txt").write_text("images/dark/a.png\nimages/light/d.png\n")
    for name, begin in (("path.png", b"\x89PNG"), ("path.gif", b"GIF8")):
        code, out, err = run(capsys, "predict", "run", "paths.txt", "--attention", name)
        assert (code, set(out.split()) <= {"dark", "light"}, err) == (0, True, "")
        assert out.count("\n") == 2
        for number in (1, 2):
            path = Path(name)
            assert path.with_stem(f"{path.stem}-{number}").read_bytes().startswith(begin)
    Path("paths.txt").write_text("images/dark/a.png\nimages/dark/f.png\n")
    message = refused(capsys, "predict", "run", "paths.txt", "--strict")
    assert message.endswith("paths.txt:2: images/dark/f.png: No such file or directory\n")


def test_stdin_is_the_default(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    content = io.TextIOWrapper(io.BytesIO(b"it is five\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", content)
    assert output(capsys, "predict", small_run(), "--allow-unknown").count("\n") == 1

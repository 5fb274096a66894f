"""Loaders reject malicious files with a one-line error and execute nothing.

They need at most 2 CPU seconds and 200 MB.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.cli import main
from attention_zoo.data import read_jsonl, read_lines, read_npz_images
from attention_zoo.data.images.image_files import list_image_files
from attention_zoo.data.images.labelled_images import read_npz_pixels
from attention_zoo.models import from_preset
from attention_zoo.training.tensorboard import trim_events
from tests.models.public.checkpoints import change_config
from tests.security.corpus import (
    CASES,
    Workspace,
    rewrite_manifest,
    run_case,
    save_task,
    write_zip,
)
from tests.security.hostile_data import write_events
from tests.security.hostile_models import make_lambda
from tests.security.run_corpus import MODULES

MAX_SECONDS, MAX_MEGABYTES = 2.0, 200.0


@pytest.fixture(autouse=True, scope="module")
def eager() -> Iterator[None]:
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_task(tmp_path_factory.mktemp("saved") / "task")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", CASES)
def test_file_is_refused(name: str, saved: Path, tmp_path: Path) -> None:
    outcome = run_case(CASES[name], tmp_path, saved)
    assert outcome.seconds < MAX_SECONDS
    assert outcome.megabytes < MAX_MEGABYTES


@pytest.mark.slow
def test_corpus_is_refused_in_a_fresh_process(tmp_path: Path) -> None:
    """The memory is that beyond a process with TensorFlow, whose allocator holds no free memory."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.security.run_corpus", str(tmp_path)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=400, check=True
    )
    outcomes = [json.loads(line) for line in run.stdout.splitlines()]
    assert {outcome["case"] for outcome in outcomes} == {*CASES}
    errors = {outcome["case"]: outcome["error"] for outcome in outcomes if "error" in outcome}
    assert errors == {}
    slow = {x["case"]: x["seconds"] for x in outcomes if x["seconds"] >= MAX_SECONDS}
    large = {x["case"]: x["megabytes"] for x in outcomes if x["megabytes"] >= MAX_MEGABYTES}
    assert (slow, large) == ({}, {})


def test_all_modules_have_cases() -> None:
    assert len(MODULES) == 3
    assert len(CASES) > 350


def test_cases_fail_for_good_files(saved: Path, tmp_path: Path) -> None:
    """A case whose file is loaded fails, as it does if a check of a loader is missing."""
    case = CASES["task: other task"]
    with pytest.raises(AssertionError, match="the file was loaded"):
        run_case(type(case)(lambda _: saved, case.load, case.message), tmp_path, saved)


COMMANDS = {
    "predict": (
        "model: weights: declares 1 GiB",
        "model: nested Popen",
        "task: manifest of /dev/zero",
    ),
    "evaluate": ("task: depth of task.json", "bert: tensors: header of 209715200"),
    "train": ("recipe: object", "recipe: aliases", "recipe: pipe"),
}


@pytest.mark.parametrize(
    ("command", "name"), [(c, n) for c, names in COMMANDS.items() for n in names]
)
def test_command_line_refuses_in_one_line(
    command: str, name: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (case,) = [case for title, case in CASES.items() if title.startswith(name)]
    path = case.write(Workspace(tmp_path, saved))
    assert main([command, str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("attention-zoo: error: ")
    assert output.err.count("\n") == 1


def test_payload_is_executed_without_checks(saved: Path, tmp_path: Path) -> None:
    """The marker shows execution: the same payloads create it if they are loaded unsafely."""
    import keras

    workspace = Workspace(tmp_path, saved)
    layer = keras.saving.deserialize_keras_object(make_lambda(workspace), safe_mode=False)
    layer.function(0)
    assert workspace.marker.is_dir()


@pytest.mark.parametrize("size", [3, 1 << 32, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_events_of_false_size_are_removed(size: int, tmp_path: Path) -> None:
    """TensorFlow crashes if it reads such a record."""
    path = write_events(tmp_path, size, b"\xff\xff\xff")
    trim_events(tmp_path, 1)
    assert not path.exists()


def test_genuine_files_are_read(tmp_path: Path) -> None:
    """Real texts and images compress far less than the limits, at any size."""
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(50)]
    rows = [
        json.dumps({"source": " ".join(rng.choice(words, 5)), "target": "the same target"})
        for _ in range(5_000)
    ]
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    assert len(read_jsonl(path, "source", "target")) == 5_000
    (tmp_path / "long").write_bytes(b"a" * 10_000_000)
    assert len(read_lines(tmp_path / "long").texts[0]) == 10_000_000
    (tmp_path / "same.gz").write_bytes(gzip.compress(b"a b\n" * 50_000))
    assert len(read_lines(tmp_path / "same.gz")) == 50_000
    images = np.zeros((2000, 28, 28), "uint8")
    np.savez_compressed(tmp_path / "a.npz", x_train=images, y_train=np.zeros(2000, "int64"))
    assert read_npz_images(tmp_path / "a.npz").images.shape == (2000, 28, 28, 1)


def test_npz_files_of_python_2_are_read(tmp_path: Path) -> None:
    """Python 2 on Windows wrote integers with the suffix L into headers."""
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 1L, 3L)}\n"
    npy = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(range(6))
    path = write_zip(tmp_path / "a.npz", ("x.npy", npy))
    with pytest.warns(UserWarning, match="Python 2"):
        assert read_npz_pixels(path).tolist() == [[[[0], [1], [2]]], [[[3], [4], [5]]]]


def test_names_of_classes_are_not_arguments(tmp_path: Path) -> None:
    """Class ids may exceed the number of tensors, also for a class with "blocks" in its name."""
    folder = Workspace(tmp_path, tmp_path).copy_checkpoint("vit_gpt2")
    encoder = json.loads((folder / "config.json").read_text())["encoder"]
    encoder |= {"id2label": {"5000": "city blocks"}, "label2id": {"city blocks": 5000}}
    change_config(folder, encoder=encoder)
    assert from_preset(folder).count_params() > 0


def test_models_in_other_formats_are_built_within_their_weights(saved: Path) -> None:
    """The limit of the size is that of the file, whatever the overrides."""
    assert from_preset(saved / "model").count_params() > 0
    with pytest.raises(ValueError, match="does not fit the layers of this Seq2Seq"):
        from_preset(saved / "model", embedding_dim=1 << 40)
    with pytest.raises(ValueError, match="has no argument"):
        from_preset(saved / "model", size=3)


def test_models_with_rewritten_manifests_load(saved: Path, tmp_path: Path) -> None:
    """The corpus changes a model that loads, and its new manifest is valid."""
    folder = Workspace(tmp_path, saved).copy_task()
    rewrite_manifest(folder / "model")
    assert from_preset(folder / "model").count_params() > 0


def test_absolute_names_in_a_zip_of_images_are_only_names(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("/cat/1.png", b"x")
    with list_image_files(tmp_path / "a.zip") as files:
        assert [*files] == ["cat/1.png"]
        assert files["cat/1.png"]() == b"x"

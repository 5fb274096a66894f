"""Pickled weights become safetensors, and nothing else is read from them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.checkpoints.convert import CONVERTED, INDEX, PICKLED, main
from attention_zoo.models.public.tensors import Tensors
from tests.models.public.checkpoints import GOLDEN, ROOT, copy_of, find_transformers
from tests.refusals import refuses

WRITE = """
import sys, torch
from safetensors.torch import load_file
tensors = load_file(sys.argv[1] + "/model.safetensors")
tensors["tied"] = tensors["bert.embeddings.word_embeddings.weight"]
names = sorted(tensors)
torch.save({name: tensors[name] for name in names[:9]}, sys.argv[1] + "/one.bin")
torch.save({name: tensors[name] for name in names[9:]}, sys.argv[1] + "/two.bin")
torch.save(tensors, sys.argv[1] + "/pytorch_model.bin")
torch.save({"a": print}, sys.argv[1] + "/code.bin")
torch.save({"a": [1]}, sys.argv[1] + "/list.bin")
"""


def convert(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in the environment with torch, which has no Keras."""
    command = [find_transformers(), "-m", "attention_zoo.checkpoints.convert", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.mark.zoo
def test_converted_weights_are_equal(tmp_path: Path) -> None:
    folder = copy_of("bert", tmp_path)
    subprocess.run([find_transformers(), "-c", WRITE, str(folder)], check=True, timeout=300)
    done = convert(folder)
    assert (done.returncode, "exists already; remove it" in done.stderr) == (2, True)
    for names in (["pytorch_model.bin"], ["one.bin", "two.bin"]):
        (folder / CONVERTED).unlink()
        weight_map = {str(number): name for number, name in enumerate(names)}
        (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
        done = convert(folder)
        assert (done.returncode, done.stdout.strip()) == (0, str(folder / CONVERTED)), done.stderr
        tensors, want = Tensors(folder), Tensors(GOLDEN / "bert")
        assert set(tensors) == {*want, "tied"}
        for name in want:
            np.testing.assert_array_equal(tensors[name], want[name])
        (folder / PICKLED).unlink(missing_ok=True)
    (folder / CONVERTED).unlink()
    for name, message in (
        ("code.bin", "is damaged, or contains other objects than tensors"),
        ("list.bin", "must contain tensors by name, got other objects"),
    ):
        (folder / name).replace(folder / PICKLED)
        done = convert(folder)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert message in done.stderr
    assert not (folder / CONVERTED).exists()
    with pytest.raises(ValueError, match=r"is pickled Python code .*checkpoints.convert"):
        models.from_public(folder)


@refuses(
    ({}, "contains neither pytorch_model.bin nor pytorch_model.bin.index.json; download one"),
    ({INDEX: "{"}, "index.json: is not an index of tensors"),
    ({INDEX: '{"weight_map": {"a": "../a.bin"}}'}, "it names files in other folders"),
    ({INDEX: '{"weight_map": {"a": "a.bin"}}'}, "a.bin: no such file, but .*index.json names it"),
    ({PICKLED: "", CONVERTED: ""}, "model.safetensors: exists already; remove it"),
)
def test_bad_folders(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert main([str(tmp_path)]) == 2
    raise ValueError(capsys.readouterr().err.strip())

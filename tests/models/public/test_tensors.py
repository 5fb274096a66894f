"""Safetensors files are read correctly, and damaged files give one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from attention_zoo.models.public.tensors import FILE, INDEX, Tensors
from tests.models.public.checkpoints import GOLDEN, write_safetensors

RNG = np.random.default_rng(0)
SOME = {
    "a": RNG.normal(size=(2, 3)).astype("float32"),
    "b": RNG.normal(size=(4,)).astype("float16"),
    "c": np.arange(3, dtype="int64"),
    "empty": np.zeros((0, 5), "float32"),
    "one": np.float32(2.5).reshape(()),
}


def test_saved_tensors_are_read_back(tmp_path: Path) -> None:
    write_safetensors(tmp_path / FILE, SOME)
    result = Tensors(tmp_path)
    assert list(result) == list(SOME)
    assert len(result) == 5
    for name, array in SOME.items():
        assert result[name].dtype == array.dtype
        np.testing.assert_array_equal(result[name], array)


def test_bfloat16_is_read_as_the_upper_half_of_float32(tmp_path: Path) -> None:
    halves = np.array([0x3F80, 0xC000, 0x3EAB], "uint16")  # 1, -2, about a third
    write_safetensors(tmp_path / FILE, {"x": halves})
    result = Tensors(tmp_path)["x"]
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.float32([1.0, -2.0, 0.333984375]))


def test_reads_a_file_of_the_safetensors_library() -> None:
    result = Tensors(GOLDEN / "bert")
    assert result["bert.embeddings.word_embeddings.weight"].shape == (37, 16)
    assert all(np.isfinite(array).all() for array in result.values())


def test_shards(tmp_path: Path) -> None:
    names = list(SOME)
    files = {"model-1.safetensors": names[:2], "model-2.safetensors": names[2:]}
    for file, held in files.items():
        write_safetensors(tmp_path / file, {name: SOME[name] for name in held})
    index = {name: file for file, held in files.items() for name in held}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": index}))
    result = Tensors(tmp_path)
    assert sorted(result) == sorted(SOME)
    np.testing.assert_array_equal(result["a"], SOME["a"])
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model-2.safetensors: no such file, but model.*names it"):
        Tensors(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "../model-1.safetensors"}}))
    with pytest.raises(ValueError, match=r"is not an index of tensors .*in other folders"):
        Tensors(tmp_path)
    (tmp_path / INDEX).write_text("[]")
    with pytest.raises(ValueError, match="is not an index of tensors"):
        Tensors(tmp_path)


def test_renamed(tmp_path: Path) -> None:
    write_safetensors(tmp_path / FILE, SOME)
    result = Tensors(tmp_path)
    assert list(result.renamed(str.upper)) == ["A", "B", "C", "EMPTY", "ONE"]
    assert list(result) == list(SOME)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no model.safetensors$"):
        Tensors(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(ValueError, match=r"pytorch_model.bin is pickled Python, which is never"):
        Tensors(tmp_path)


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / FILE
    write_safetensors(path, {"a": SOME["a"]})
    sound = path.read_bytes()
    for data in (b"", b"\x05", sound[:12], b"\xff" * 8 + sound[8:], sound[:8] + b"[" + sound[9:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="is not a safetensors file"):
            Tensors(tmp_path)
    path.write_bytes(sound[:-1])
    with pytest.raises(ValueError, match="tensor a is truncated or damaged"):
        Tensors(tmp_path)["a"]
    for old, new in ((b'"F32"', b'"X32"'), (b"[2, 3]", b'"2,3x"')):
        path.write_bytes(sound.replace(old, new))
        with pytest.raises(ValueError, match="tensor a has an unsupported or damaged header"):
            Tensors(tmp_path)["a"]
    path.write_bytes(sound.replace(b"[2, 3]", b"[2, 4]"))
    with pytest.raises(ValueError, match="tensor a is truncated or damaged"):
        Tensors(tmp_path)["a"]

"""Safetensors files: contents, shards, and one-line errors for damaged files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from attention_zoo.models.public import tensors
from attention_zoo.models.public.tensors import FILE, INDEX, Tensors
from tests.models.public.checkpoints import GOLDEN, write_safetensors

RNG = np.random.default_rng(0)
TENSORS = {
    "a": RNG.normal(size=(2, 3)).astype("float32"),
    "b": RNG.normal(size=(4,)).astype("float16"),
    "c": np.arange(3, dtype="int64"),
    "empty": np.zeros((0, 5), "float32"),
    "one": np.float32(2.5).reshape(()),
}


def test_saved_tensors_are_read_back(tmp_path: Path) -> None:
    write_safetensors(tmp_path / FILE, TENSORS)
    result = Tensors(tmp_path)
    assert list(result) == list(TENSORS)
    assert len(result) == 5
    for name, array in TENSORS.items():
        assert result[name].dtype == array.dtype
        np.testing.assert_array_equal(result[name], array)


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    # Bit patterns of 1, -2 and about a third; `write_safetensors` stores uint16 as BF16.
    bits = np.array([0x3F80, 0xC000, 0x3EAB], "uint16")
    write_safetensors(tmp_path / FILE, {"x": bits})
    result = Tensors(tmp_path)["x"]
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.float32([1.0, -2.0, 0.333984375]))


def test_reads_a_file_of_the_safetensors_library() -> None:
    result = Tensors(GOLDEN / "bert")
    assert result["bert.embeddings.word_embeddings.weight"].shape == (37, 16)
    assert all(np.isfinite(array).all() for array in result.values())


def test_shards(tmp_path: Path) -> None:
    all_names = list(TENSORS)
    files = {"model-1.safetensors": all_names[:2], "model-2.safetensors": all_names[2:]}
    for file, names in files.items():
        write_safetensors(tmp_path / file, {name: TENSORS[name] for name in names})
    index = {name: file for file, names in files.items() for name in names}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": index}))
    result = Tensors(tmp_path)
    assert sorted(result) == sorted(TENSORS)
    np.testing.assert_array_equal(result["a"], TENSORS["a"])
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(ValueError, match=r"model-2.safetensors: no such file, but model.*names it"):
        Tensors(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "../model-1.safetensors"}}))
    with pytest.raises(ValueError, match=r"is not an index of tensors .*in other folders"):
        Tensors(tmp_path)
    (tmp_path / INDEX).write_text("[]")
    with pytest.raises(ValueError, match="is not an index of tensors"):
        Tensors(tmp_path)


def test_renamed_changes_names_only(tmp_path: Path) -> None:
    write_safetensors(tmp_path / FILE, TENSORS)
    result = Tensors(tmp_path)
    assert list(result.renamed(str.upper)) == ["A", "B", "C", "EMPTY", "ONE"]
    assert list(result) == list(TENSORS)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"contains no model.safetensors; use another revision .*refs/pr/4"
    ):
        Tensors(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"anything")
    with pytest.raises(ValueError, match=r"pytorch_model.bin is pickled .*checkpoints.convert"):
        Tensors(tmp_path)


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / FILE
    write_safetensors(path, {"a": TENSORS["a"]})
    intact = path.read_bytes()
    damaged = {
        "empty": b"",
        "only one byte": b"\x05",
        "truncated header": intact[:12],
        "enormous header": b"\xff" * 8 + intact[8:],
        "not JSON": intact[:8] + b"[" + intact[9:],
        "pickle": b"\x80\x04cbuiltins\nexec\n",
        "truncated": intact[:-1],
        "extra byte": intact + b"x",
        "unknown dtype": intact.replace(b'"F32"', b'"X32"'),
        "shape of text": intact.replace(b"[2, 3]", b'"2,3x"'),
        "larger shape": intact.replace(b"[2, 3]", b"[2, 4]"),
        "negative offset": intact.replace(b"[0, 24]", b"[-1,24]"),
    }
    for name, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match="is not a safetensors file or is damaged") as caught:
            Tensors(tmp_path)
        assert re.fullmatch(rf"{re.escape(str(path))}: .*; download it again", str(caught.value)), (
            name
        )


@pytest.mark.parametrize("dtype", ["F8_E5M2", "F8_E4M3"])
def test_dtypes_that_numpy_lacks_are_rejected(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / FILE
    write_safetensors(path, {"a": np.zeros(3, "uint8")})
    data = path.read_bytes().replace(b'"U8"', f'"{dtype}"'.encode())
    # 8 bytes of header length, 3 bytes of data; the new dtype name makes the header longer.
    length = len(data) - 8 - 3
    path.write_bytes(length.to_bytes(8, "little") + data[8:])
    with pytest.raises(ValueError, match=rf"tensor A has dtype {dtype}, which is not supported"):
        Tensors(tmp_path).renamed(str.upper)["A"]


def test_a_file_that_cannot_be_opened_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    write_safetensors(tmp_path / FILE, TENSORS)
    monkeypatch.setattr(tensors, "safe_open", refuse)
    with pytest.raises(ValueError, match=r"model.safetensors: .*Permission denied"):
        Tensors(tmp_path)

"""Exports load if they are those that were written; damaged and hostile ones are refused first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.export.graph_images import square_images
from attention_zoo.files import MANIFEST, write_manifest
from attention_zoo.serving import load_export, verify_export
from attention_zoo.serving.graph_operations import SAVERS, STATEFUL, is_permitted

TEXTS = tf.TensorSpec([None], tf.string)


class Upper(tf.Module):
    """A model with a table and a variable, which returns texts in upper case."""

    def __init__(self) -> None:
        super().__init__()
        rows = tf.lookup.KeyValueTensorInitializer(["a", "b"], ["A", "B"])
        self.table = tf.lookup.StaticHashTable(rows, "?")
        self.suffix = tf.Variable("!")

    @tf.function(input_signature=[TEXTS])
    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"text": self.table.lookup(text) + self.suffix}


def write(model: tf.Module, folder: Path) -> Path:
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serve})
    write_manifest(folder)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(Upper(), tmp_path_factory.mktemp("exports") / "upper")


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "upper"))


def test_export_is_loaded(folder: Path) -> None:
    serve = load_export(folder).signatures["serving_default"]
    assert serve(text=tf.constant(["a", "x"]))["text"].numpy().tolist() == [b"A!", b"?!"]
    assert load_export(str(folder)).signatures.keys() == {"serving_default"}


# damaged and hostile files


def _append(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(b"\0")


def _exchange(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)


def _list(folder: Path, name: str) -> None:
    """List a path in the manifest."""
    content = json.loads((folder / MANIFEST).read_bytes())
    content["files"][name] = {"bytes": 3, "sha256": "0" * 64}
    (folder / MANIFEST).write_text(json.dumps(content))


def _write_graph(folder: Path, content: bytes) -> None:
    (folder / "saved_model.pb").write_bytes(content)
    write_manifest(folder)


VARIABLES = "variables/variables.data-00000-of-00001"
DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no_folder": (shutil.rmtree, "manifest.json is missing"),
    "no_manifest": (lambda f: (f / MANIFEST).unlink(), "not an export, manifest.json is missing"),
    "no_graph": (lambda f: (f / "saved_model.pb").unlink(), "saved_model.pb is missing"),
    "no_variables": (lambda f: (f / VARIABLES).unlink(), f"{VARIABLES} is missing"),
    "longer": (lambda f: _append(f, VARIABLES), f"{VARIABLES} has another size than"),
    "exchanged_variables": (lambda f: _exchange(f, VARIABLES), f"{VARIABLES} is damaged"),
    "exchanged_graph": (lambda f: _exchange(f, "saved_model.pb"), "saved_model.pb is damaged"),
    "unlisted": (lambda f: (f / "more.pb").write_bytes(b""), "more.pb is not listed in manifest"),
    "unlisted_inside": (
        lambda f: (f / "variables" / "more").write_bytes(b"1"),
        "variables/more is not listed",
    ),
    "link": (lambda f: (f / "more").symlink_to("/"), "more is not a regular file"),
    "file_link": (
        lambda f: ((f / VARIABLES).unlink(), (f / VARIABLES).symlink_to("/etc/hostname")),
        f"{VARIABLES} is not a regular file",
    ),
    "pipe": (lambda f: os.mkfifo(f / "pipe"), "pipe is not a regular file"),
    "parent": (lambda f: _list(f, "../x"), r"lists '\.\./x', which is outside of the folder"),
    "absolute": (lambda f: _list(f, "/etc/hostname"), "lists '/etc/hostname', which is outside"),
    "no_json": (lambda f: (f / MANIFEST).write_bytes(b"{"), "manifest.json is damaged"),
    "deep_json": (lambda f: (f / MANIFEST).write_bytes(b"[" * 200_000), "manifest.json is damaged"),
    "other_json": (lambda f: (f / MANIFEST).write_text("[1]"), "manifest.json is damaged"),
    "newer": (
        lambda f: (f / MANIFEST).write_text(
            (f / MANIFEST).read_text().replace('"format_version": 2', '"format_version": 9')
        ),
        "format_version 9, but this version",
    ),
    "large_manifest": (
        lambda f: (f / MANIFEST).write_bytes(b" " * (1 << 20) + b"{}"),
        "manifest.json has 1,048,578 bytes, the maximum is 1,048,576",
    ),
    "no_protobuf": (lambda f: _write_graph(f, b"\xff" * 100), "saved_model.pb is not a SavedModel"),
    "empty": (lambda f: _write_graph(f, b""), "saved_model.pb is not a TensorFlow 2"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_exports_are_refused(name: str, folder: Path) -> None:
    damage, message = DAMAGE[name]
    damage(folder)
    with pytest.raises(ValueError, match=message) as error:
        load_export(folder)
    assert "\n" not in str(error.value)


def test_large_graph_is_refused_by_its_size(folder: Path) -> None:
    with (folder / "saved_model.pb").open("wb") as file:
        file.truncate(1 << 40)  # a sparse file
    with pytest.raises(ValueError, match=r"saved_model\.pb has 1,099,511,627,776 bytes"):
        verify_export(folder)


# operations


def _call_python(text: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.py_function(lambda x: x, [text], tf.string), [None])


def _read_lines(text: tf.Tensor) -> tf.Tensor:
    return tf.data.TextLineDataset(text[0]).reduce("", lambda a, b: a + b)[None]


def _write(text: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([tf.io.write_file(text[0], "x")]):
        return tf.identity(text)


def _print(text: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([tf.raw_ops.PrintV2(input="x", output_stream="file://x")]):
        return tf.identity(text)


def _save(text: tf.Tensor) -> tf.Tensor:
    save = tf.raw_ops.SaveV2(prefix=text[0], tensor_names=["x"], shape_and_slices=[""], tensors=[1])
    with tf.control_dependencies([save]):
        return tf.identity(text)


def _branch(text: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.size(text) > 3, lambda: tf.io.read_file(text[0])[None], lambda: text)


def _map(text: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(tf.io.read_file, text)


HOSTILE: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], str]] = {
    "read": (lambda text: tf.io.read_file(text[0])[None], "ReadFile"),
    "read_in_branch": (_branch, "ReadFile"),
    "read_in_loop": (_map, "ReadFile"),
    "write": (_write, "WriteFile"),
    "list": (lambda text: tf.io.matching_files(text), "MatchingFiles"),
    "python": (_call_python, "EagerPyFunc"),
    "numpy": (lambda text: tf.numpy_function(lambda x: x, [text], tf.string), "PyFunc"),
    "lines": (_read_lines, r"\w*Dataset"),
    "print": (_print, "PrintV2"),
    "save": (_save, "SaveV2"),
    "restore": (
        lambda text: tf.raw_ops.RestoreV2(
            prefix=text[0], tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.string]
        )[0],
        "RestoreV2",
    ),
    "descriptor": (
        lambda text: tf.io.decode_proto(text, "x", ["y"], [tf.string], "/etc/hostname").values[0][
            :, 0
        ],
        "DecodeProtoV2",
    ),
}


class Hostile(tf.Module):
    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor]) -> None:
        super().__init__()
        self.serve = tf.function(function, input_signature=[TEXTS], autograph=False)


@pytest.mark.parametrize("name", HOSTILE)
def test_graphs_with_access_are_refused(name: str, tmp_path: Path) -> None:
    function, operation = HOSTILE[name]
    model = write(Hostile(function), tmp_path / "hostile")
    with pytest.raises(ValueError, match=f"has the operation {operation} in function"):
        load_export(model)


def test_access_while_loading_is_refused(tmp_path: Path) -> None:
    """A table is filled from a file when the model is loaded."""
    (tmp_path / "rows").write_text("a\t1\nb\t2\n")

    class Table(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            rows = tf.lookup.TextFileInitializer(str(tmp_path / "rows"), tf.string, 0, tf.int64, 1)
            self.table = tf.lookup.StaticHashTable(rows, -1)

        @tf.function(input_signature=[TEXTS])
        def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"row": self.table.lookup(text)}

    model = write(Table(), tmp_path / "table")
    with pytest.raises(ValueError, match="has the operation InitializeTableFromTextFileV2"):
        load_export(model)


def _change_graph(folder: Path, change: Callable[[Any], None]) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    content = SavedModel()
    content.ParseFromString((folder / "saved_model.pb").read_bytes())
    change(content.meta_graphs[0])
    _write_graph(folder, content.SerializeToString())


def test_saver_that_a_signature_returns_is_refused(folder: Path) -> None:
    def change(meta_graph: Any) -> None:
        signature = meta_graph.signature_def["serving_default"]
        signature.outputs["text"].name = meta_graph.saver_def.save_tensor_name

    _change_graph(folder, change)
    with pytest.raises(ValueError, match=r"has the operation .* in function .*traced_save"):
        verify_export(folder)


def test_functions_that_are_named_savers_are_refused(tmp_path: Path) -> None:
    """Functions of objects are served, whatever the saver's definition says."""
    model = write(Hostile(_save), tmp_path / "hostile")

    def change(meta_graph: Any) -> None:
        for node in meta_graph.graph_def.node:
            if "signature_wrapper" in str(node.attr.get("f", "")):
                meta_graph.saver_def.save_tensor_name = f"{node.name}:0"
        meta_graph.signature_def.clear()
        meta_graph.object_graph_def.concrete_functions.clear()

    _change_graph(model, change)
    with pytest.raises(ValueError, match=r"has the operation (SaveV2|ShardedFilename) in function"):
        verify_export(model)


def test_unknown_operations_are_refused(folder: Path) -> None:
    def change(meta_graph: Any) -> None:
        meta_graph.graph_def.library.function[0].node_def[0].op = "SteamTrain"

    _change_graph(folder, change)
    with pytest.raises(ValueError, match="has the operation SteamTrain in function"):
        verify_export(folder)


def test_permitted_operations() -> None:
    computation = (
        "MatMul",
        "Softmax",
        "StaticRegexReplace",
        "UnicodeDecode",
        "DecodeJpeg",
        "While",
    )
    assert all(map(is_permitted, computation))
    for name in (
        "ReadFile",
        "WriteFile",
        "PyFuncStateless",
        "Recv",
        "RpcCall",
        "LoadAndRemapMatrix",
    ):
        assert not is_permitted(name)
    assert not any(map(is_permitted, SAVERS))
    from tensorflow.python.framework import op_def_registry

    assert all(op_def_registry.get(name) is not None for name in STATEFUL)


def test_exports_that_read_images_are_permitted(tmp_path: Path) -> None:
    """They use datasets of tensors."""
    model = write(Hostile(lambda encoded: square_images(encoded, 8)[0]), tmp_path / "images")
    verify_export(model)


@pytest.mark.full
def test_loading_imports_no_model_code(written: Path) -> None:
    """Serving needs neither layers nor tasks, nor the packages that they need."""
    script = (
        "import sys; sys.argv = ['attention-zoo', 'serve']\n"
        "from attention_zoo.cli import serve\n"
        "from attention_zoo.serving import server\n"
        "server.import_tensorflow()\n"
        "from attention_zoo.serving import app, load_export\n"
        f"load_export({str(written)!r})\n"
        "assert 'keras' not in sys.modules\n"
        "parts = ('layers', 'models', 'tasks', 'decoding', 'data')\n"
        "print([name for name in sys.modules if name.startswith('attention_zoo.') and"
        " name.split('.')[1] in parts])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_numpy_arrays_round_trip(folder: Path) -> None:
    """A served function takes arrays, and its outputs convert to them."""
    outputs = load_export(folder).signatures["serving_default"](text=np.array(["b"]))
    assert outputs["text"].numpy().tolist() == [b"B!"]

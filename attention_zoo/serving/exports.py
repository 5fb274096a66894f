"""Loading of exports, the SavedModels of `attention_zoo.export`, with verification."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from attention_zoo.files import MANIFEST, find_damage, is_inside
from attention_zoo.serving.graph_operations import find_refused_operation

GRAPH = "saved_model.pb"
MAX_MANIFEST_BYTES, MAX_GRAPH_BYTES = 1 << 20, 1 << 28


def load_export(folder: str | Path) -> Any:
    """Load an exported model, if its files are those that the export wrote.

    A SavedModel is a program, so load only exports that you trust. The manifest detects damaged and
    replaced files, not a folder with a false manifest. As a second line of defence, graphs with
    operations that access files, Python or other processes are refused before loading.

    Args:
        folder: folder of `attention-zoo export`.

    Returns:
        The loaded SavedModel; its `signatures` are functions of named tensors.

    Raises:
        ValueError: the folder is not an export, a file is missing, damaged or not listed in the
            manifest, or the graph has a refused operation.
    """
    import tensorflow as tf

    verify_export(folder)
    return tf.saved_model.load(str(folder))


def verify_export(folder: str | Path) -> Any:
    """Verify the files and the graph of an export without loading it; see `load_export`.

    Args:
        folder: folder of `attention-zoo export`.

    Returns:
        The `MetaGraphDef` of its graph, with the definitions of its signatures.

    Raises:
        ValueError: as `load_export`.
    """
    folder = Path(folder)
    for name, limit in ((MANIFEST, MAX_MANIFEST_BYTES), (GRAPH, MAX_GRAPH_BYTES)):
        if not (folder / name).is_file():
            raise ValueError(
                f"{folder}: not an export, {name} is missing; `attention-zoo export` writes one"
            )
        size = (folder / name).stat().st_size
        if size > limit:
            raise ValueError(f"{folder}: {name} has {size:,} bytes, the maximum is {limit:,}")
    listed = _read_listed_sizes(folder)
    for name, size in _find_files(folder):
        if name != MANIFEST and listed.get(name) != size:
            reason = "has another size than" if name in listed else "is not listed in"
            raise ValueError(f"{folder}: {name} {reason} {MANIFEST}; export the model again")
    damage = find_damage(folder)
    if damage is not None:
        raise ValueError(f"{folder}: {damage}; export the model again")
    return _read_graph(folder)


def _read_listed_sizes(folder: Path) -> dict[str, int]:
    """Return the size of each file in the manifest; ValueError for a path out of the folder."""
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
        sizes = {name: entry["bytes"] for name, entry in content["files"].items()}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{folder}: {MANIFEST} is damaged; export the model again") from None
    for name in sizes:
        if not is_inside(name):
            raise ValueError(f"{folder}: {MANIFEST} lists {name!r}, which is outside of the folder")
    return sizes


def _find_files(folder: Path) -> list[tuple[str, int]]:
    """Return path and size of all files; ValueError for links and devices."""
    files = []
    for root, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(root) / name
            mode = path.lstat().st_mode
            relative = path.relative_to(folder).as_posix()
            if stat.S_ISREG(mode):
                files.append((relative, path.lstat().st_size))
            elif not stat.S_ISDIR(mode):
                raise ValueError(f"{folder}: {relative} is not a regular file; remove it")
    return sorted(files)


def _read_graph(folder: Path) -> Any:
    """Return the `MetaGraphDef` of an export; ValueError if it has a refused operation."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    content = SavedModel()
    try:
        content.ParseFromString((folder / GRAPH).read_bytes())
    except DecodeError:
        raise ValueError(f"{folder}: {GRAPH} is not a SavedModel; export the model again") from None
    if len(content.meta_graphs) != 1 or not content.meta_graphs[0].object_graph_def.nodes:
        raise ValueError(
            f"{folder}: {GRAPH} is not a TensorFlow 2 SavedModel; export the model again"
        )
    (meta_graph,) = content.meta_graphs
    refused = find_refused_operation(meta_graph)
    if refused is not None:
        function = f"function {refused.function}" if refused.function else "the main graph"
        raise ValueError(
            f"{folder}: {GRAPH} has the operation {refused.name} in {function}, which a served"
            " model must not have"
        )
    return meta_graph

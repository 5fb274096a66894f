"""Malicious saved models and tasks.

Code in configs, oversized models, false manifests, unsafe HDF5 files, and published CVEs of Keras.
"""

from __future__ import annotations

import json
import marshal
import os
import zipfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from attention_zoo import tasks
from attention_zoo.models import from_preset
from tests.security.corpus import (
    PADDING,
    Workspace,
    add_case,
    fill_weights,
    nest,
    pad,
    rewrite_manifest,
    write_dataset,
)

NOT_ALLOWED = "which is not allowed"
MISFIT = "does not fit the layers"


def add_model(name: str, message: str, change: Callable[..., object]) -> None:
    """Add a task with a changed model, whose manifest is valid."""

    def write(workspace: Workspace) -> Path:
        folder = workspace.copy_task()
        change(folder / "model", workspace)
        rewrite_manifest(folder / "model")
        return folder

    add_case(f"model: {name}", tasks.load, message, write)


def add_config(name: str, message: str, change: Callable[..., object]) -> None:
    """Add a task with a changed config of the model."""

    def change_file(model: Path, workspace: Workspace) -> None:
        path = model / "config.json"
        content = json.loads(path.read_text())
        change(content, workspace)
        path.write_text(json.dumps(content))

    add_model(name, message, change_file)


def add_task(name: str, message: str, change: Callable[..., object]) -> None:
    """Add a task with changed files."""

    def write(workspace: Workspace) -> Path:
        folder = workspace.copy_task()
        change(folder, workspace)
        return folder

    add_case(f"task: {name}", tasks.load, message, write)


def make_lambda(workspace: Workspace) -> dict[str, Any]:
    """Return a Lambda layer with code that creates the marker."""
    code = compile(f"lambda x: __import__('os').mkdir({str(workspace.marker)!r})", "x", "eval")
    text = b64encode(marshal.dumps(code.co_consts[0])).decode()
    function = {
        "class_name": "__lambda__",
        "config": {"code": text, "defaults": None, "closure": None},
    }
    return {
        "module": "keras.layers",
        "class_name": "Lambda",
        "config": {"name": "x", "function": function},
        "registered_name": None,
    }


def make_object(module: str | None, name: str, config: Any = None) -> dict[str, Any]:
    """Return a serialized Keras object."""
    return {"module": module, "class_name": name, "config": config or {}, "registered_name": None}


def add_classes() -> None:
    """Add configs that name classes, functions, files or addresses."""
    for name in ("Lambda", "keras.layers.Lambda", "os.system", "TFSMLayer", "../Seq2Seq"):
        add_config(
            f"class {name}", "unknown model", lambda c, _, name=name: c.update({"class": name})
        )
    add_config("class of a list", "unknown model", lambda c, _: c.update({"class": ["Seq2Seq"]}))
    add_config("Lambda", NOT_ALLOWED, lambda c, workspace: set_sampling(c, make_lambda(workspace)))
    add_config(
        "registered Lambda",
        NOT_ALLOWED,
        lambda c, b: set_sampling(c, {**make_lambda(b), "registered_name": "attention_zoo>Lambda"}),
    )
    objects = {
        "os.system": make_object("builtins", "function", "system"),
        "Popen": make_object("subprocess", "Popen", {"args": "true"}),
        "get_file": make_object("keras.utils", "get_file", {"origin": "http://0.0.0.0/x"}),
        "unsafe": make_object("keras.config", "enable_unsafe_deserialization"),
        "TFSMLayer": make_object("keras.layers", "TFSMLayer", {"filepath": "x"}),
        "TorchModuleWrapper": make_object("keras.layers", "TorchModuleWrapper", {"module": "gA=="}),
        "vocabulary": make_object("keras.layers", "StringLookup", {"vocabulary": "/etc/passwd"}),
        "remote": make_object("keras.layers", "TextVectorization", {"vocabulary": "gs://a/b"}),
        "package of Keras": make_object("keras_hub.models", "Backbone"),
        "special": make_object(None, "__lambda__", {"value": "YQ=="}),
    }
    for name, value in objects.items():
        add_config(name, NOT_ALLOWED, lambda c, _, value=value: set_sampling(c, value))
        hidden = {"layers": [{"deep": value}]}
        add_config(f"nested {name}", NOT_ALLOWED, lambda c, _, value=hidden: set_sampling(c, value))
    for path in ("/etc/passwd", "../../x", "gs://a/b", "http://0.0.0.0/x", "hf://a/b"):
        add_config(
            f"weights {path}",
            "names the weights",
            lambda c, _, p=path: set_sampling(c, {"weights": p}),
        )


def set_sampling(content: dict[str, Any], value: Any) -> None:
    content["config"]["sampling"] = value


def add_sizes() -> None:
    """Add configs of models that are far larger than their weights."""
    sizes: dict[str, Any] = {
        "embedding_dim": 150_000_000,
        "units": 150_000_000,
        "source_vocabulary_size": 10**12,
        "target_vocabulary_size": 10**30,
        "num_layers": 10**9,
        "dropout": float("nan"),
    }
    for name, value in sizes.items():
        add_config(
            f"{name} {value:.0e}",
            rf"{MISFIT}|{name}=.* (is too large|is not a finite)",
            lambda c, _, name=name, value=value: c["config"].update({name: value}),
        )
    for title, number in (("float", 1e400), ("integer", -(10**400))):
        add_config(
            f"{title} overflow",
            "outdated|not a finite",
            lambda c, _, number=number: c["config"].update(units=number),
        )


def add_json() -> None:
    """Add JSON files that are large, deep or ambiguous."""
    for file in ("model/config.json", "task.json", "source_tokenizer/tokenizer.json"):
        texts = {
            "depth": (f'{{"a": {nest()}}}', "nested deeper|not the settings"),
            "values": ('{"a": [' + "[]," * 100_000 + "[]]}", "damaged|outdated|the field|settings"),
            "constants": (
                '{"a": -Infinity, "b": NaN}',
                "'class' is missing|'task' is miss|not the set",
            ),
            "digits": (f'{{"a": {"9" * 10_000}}}', "damaged|not the settings"),
            "keys": ('{"a": 1, "a": 2}', "repeated|not the settings"),
            "pickle": (None, "damaged|not the settings"),
        }
        for name, (text, message) in texts.items():

            def change(
                folder: Path, workspace: Workspace, file: str = file, text: Any = text
            ) -> None:
                content = workspace.make_pickle() if text is None else text.encode()
                (folder / file).write_bytes(content)
                rewrite_manifest(folder / "model")

            add_task(f"{name} of {file}", message, change)
    for file in ("task.json", "source_tokenizer/tokenizer.json", "source_tokenizer/vocabulary.txt"):
        add_task(
            f"padding of {file}",
            "has 419,430,400 bytes|not the settings",
            lambda folder, _, file=file: pad(folder / file),
        )
    add_model(
        "padding of config.json", "8,388,608 bytes", lambda m, _: pad(m / "config.json", 1 << 23)
    )
    add_task(
        "lines of the vocabulary",
        "more than 1,048,576 lines",
        lambda folder, _: (folder / "source_tokenizer/vocabulary.txt").write_bytes(
            b"\n" * (1 << 24)
        ),
    )
    add_task(
        "other task", "unknown task", lambda f, _: change_json(f / "task.json", task="os.system")
    )
    add_task(
        "other option", "outdated", lambda f, _: change_json(f / "task.json", search={"eval": "1"})
    )


def change_json(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def add_manifests() -> None:
    """Add manifests that name other files than those of the folder."""
    names = ("../task.json", "/dev/zero", "a/../../x", "..\\x", "C:\\x", "//host/x", "/etc/passwd")
    for name in names:
        files = {name: {"bytes": 5, "sha256": "0" * 64}}
        add_task(
            f"manifest of {name}",
            "outside of the folder",
            lambda f, _, files=files: write_files(f / "model" / "manifest.json", files),
        )
    texts = {
        "depth": (f'{{"files": {nest()}}}', "manifest.json is damaged"),
        "keys": ('{"a": "1", "a": "2"}', "manifest.json is damaged"),
        "types": ('{"format_version": 2, "files": {"config.json": 7}}', "manifest.json is damaged"),
        "other names": ('{"format_version": 2, "files": []}', "manifest.json is damaged"),
    }
    for title, (text, message) in texts.items():
        add_task(
            f"manifest: {title}",
            message,
            lambda f, _, text=text: (f / "model" / "manifest.json").write_text(text),
        )
    add_task("manifest: padding", "manifest.json is d", lambda f, _: pad(f / "model/manifest.json"))
    add_task(
        "manifest: pipe", "manifest.json is d", lambda f, _: make_pipe(f / "model/manifest.json")
    )
    add_task(
        "pipe", "is missing or damaged|not a regular|damaged", lambda f, _: list_pipe(f / "model")
    )
    add_task("large weights", "missing or damaged", lambda f, _: pad(f / "model/model.weights.h5"))


def write_files(path: Path, files: dict[str, Any]) -> None:
    path.write_text(json.dumps({"format_version": 2, "files": files}, indent=1) + "\n")


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def list_pipe(model: Path) -> None:
    """List a pipe in the manifest, which a reader would wait for."""
    os.mkfifo(model / "pipe")
    write_files(model / "manifest.json", {"pipe": {"bytes": 0, "sha256": "0" * 64}})


def add_weights() -> None:
    """Add weights in HDF5 that are larger than the model, in other files, or no numbers."""
    shape = (16384, 16384)
    creators: dict[str, tuple[Callable[[h5py.Group, str], Any], str]] = {
        "declares 1 GiB": (
            lambda g, n: g.create_dataset(n, shape, "f4", chunks=(16, 16)),
            "declares",
        ),
        "contiguous 1 GiB": (
            lambda g, n: g.create_dataset(n, shape, "f4"),
            "declares 1,073,741,824",
        ),
        "compressed": (
            lambda g, n: g.create_dataset(n, data=np.zeros((4096, 4096), "f4"), compression=1),
            "declares 67,108,864 bytes",
        ),
        "external link": (lambda g, n: set_link(g, n, h5py.ExternalLink("x.h5", "/")), "is a link"),
        "soft link": (lambda g, n: set_link(g, n, h5py.SoftLink("/layers")), "is a link"),
        "cycle": (lambda g, n: set_link(g, n, g), "is in two groups"),
        "external storage": (
            lambda g, n: g.create_dataset(n, (4, 4), "f4", external=[("/etc/passwd", 0, 64)]),
            "in other files",
        ),
        "virtual": (
            lambda g, n: g.create_virtual_dataset(n, make_virtual()),
            "in other files",
        ),
        "texts": (
            lambda g, n: g.create_dataset(n, data=["a"], dtype=h5py.string_dtype()),
            "numbers",
        ),
        "references": (
            lambda g, n: g.create_dataset(n, (1,), h5py.ref_dtype),
            "are not numbers",
        ),
        "records": (lambda g, n: g.create_dataset(n, (1,), [("a", "f4")]), "are not numbers"),
    }
    for name, (create, message) in creators.items():
        add_model(
            f"weights: {name}",
            f"model.weights.h5: damaged or unsafe .*{message}",
            lambda m, _, create=create: write_dataset(m / "model.weights.h5", create),
        )
    for value in (float("nan"), float("inf")):
        add_model(
            f"weights: {value}",
            "not finite",
            lambda m, _, value=value: fill_weights(m / "model.weights.h5", value),
        )
    add_model(
        "weights: pickle",
        "damaged or unsafe",
        lambda m, workspace: (m / "model.weights.h5").write_bytes(workspace.make_pickle()),
    )
    add_model("weights: deep", "nested deeper than 64", lambda m, _: write_groups(m, 100))
    add_model("weights: other shape", MISFIT, lambda m, _: swap_shape(m / "model.weights.h5"))


def set_link(group: h5py.Group, name: str, link: Any) -> None:
    group[name] = link


def make_virtual() -> h5py.VirtualLayout:
    layout = h5py.VirtualLayout((4, 4), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4, 4))
    return layout


def write_groups(model: Path, depth: int) -> None:
    with h5py.File(model / "model.weights.h5", "r+") as file:
        file.create_group("/".join("a" * depth))


def swap_shape(path: Path) -> None:
    write_dataset(path, lambda group, name: group.create_dataset(name, data=np.zeros((2, 3), "f4")))


def add_archives() -> None:
    """Add files that other frameworks save, as models."""

    def write_keras(workspace: Workspace) -> Path:
        path = workspace.folder / "model.keras"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", json.dumps(make_lambda(workspace)))
            archive.writestr("../../../model.weights.h5", "x")
        return path

    for load in (tasks.load, from_preset):
        name = load.__name__
        add_case(f"{name} of .keras", load, "not a run folder|no such folder", write_keras)
        add_case(
            f"{name} of a pickle",
            load,
            "not a run folder|no such folder|not a model folder",
            lambda workspace: workspace.write("model.h5", workspace.make_pickle()),
        )
        add_case(
            f"{name} of an address out of the repository",
            load,
            "expected hf://owner/name",
            lambda _: "hf://a/b/../../c",
        )


assert PADDING == 419_430_400
add_classes()
add_sizes()
add_json()
add_manifests()
add_weights()
add_archives()

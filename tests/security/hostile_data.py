"""Hostile corpora, arrays, archives of images, recipes and files of runs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from attention_zoo.checkpoints.folder import CheckpointFolder
from attention_zoo.data import (
    read_captions,
    read_class_folders,
    read_coco,
    read_conll,
    read_csv,
    read_image,
    read_jsonl,
    read_labelled_jsonl,
    read_labelled_tsv,
    read_lines,
    read_npz_images,
    read_tsv,
    read_word_vectors,
)
from attention_zoo.data.images.labelled_images import read_npz_pixels
from attention_zoo.data.text.labelled import TextFields
from attention_zoo.tasks.glimpses.corpora import Arrays
from attention_zoo.training import read_recipe
from attention_zoo.training.run_folder import read_data, read_state, read_variables, trim_log
from attention_zoo.training.tensorboard import trim_events
from tests.security.corpus import (
    Workspace,
    add_case,
    declare_size,
    make_npy,
    nest,
    pad,
    write_zip,
    zeros_gz,
)

UNPACKED = 48 << 20
"""Decompressed size of a decompression bomb of some kilobytes.

It is rejected long before its end.
"""

TEXT_READERS: dict[str, Callable[[Any], object]] = {
    "jsonl": lambda path: read_jsonl(path, "source", "target"),
    "labelled jsonl": lambda path: read_labelled_jsonl(path, TextFields("text", "label")),
    "tsv": lambda path: read_tsv(path, "source", "target"),
    "tsv without header": lambda path: read_tsv(path, "0", "1", header=False),
    "csv": lambda path: read_csv(path, "source", "target"),
    "labelled tsv": lambda path: read_labelled_tsv(path, TextFields("text", "label")),
    "lines": read_lines,
    "conll": read_conll,
    "word vectors": lambda path: read_word_vectors(path, ["<pad>", "a"]),
    "captions": lambda path: read_captions(Path(path).parent, path),
    "coco": lambda path: read_coco(Path(path).parent, path),
}
ROWS = {
    "jsonl": b'{"source": "a", "target": "b"}\n',
    "labelled jsonl": b'{"text": "a", "label": "b"}\n',
    "tsv": b"source\ttarget\n",
    "tsv without header": b"a\tb\n",
    "csv": b"source,target\n",
    "labelled tsv": b"text\tlabel\n",
    "lines": b"a\n",
    "conll": b"a b\n\n",
    "word vectors": b"a 1 2\n",
    "captions": b'{"image": "a.png", "captions": ["b"]}\n',
    "coco": b" \n",
}


def add_texts() -> None:
    """Add compressed bombs, long lines, and JSON that needs much more memory than its text."""
    unpacks = "unpack to more than .* bytes|the line has more than 16,777,216 bytes"
    for name, load in TEXT_READERS.items():
        row = ROWS[name]
        rows = gzip.compress(row * ((1 << 20) // len(row)))
        add_case(f"{name}: one line", load, unpacks, partial(write, "a.gz", zeros_gz(UNPACKED)))
        add_case(f"{name}: many lines", load, unpacks, partial(write, "a.gz", rows))
    lines, json_lines = read_lines, TEXT_READERS["jsonl"]
    xz = lzma.compress(b"\0" * UNPACKED, preset=0)
    add_case("lines: bzip2", lines, unpacks, partial(write, "a", bz2.compress(b"\0" * UNPACKED)))
    add_case("lines: xz", lines, unpacks, partial(write, "a", xz))
    nested = gzip.compress(zeros_gz(UNPACKED))
    add_case("lines: gzip in gzip", lines, "not valid UTF-8|unpack to", partial(write, "a", nested))
    add_case("lines: hole", lines, "the line has more than", lambda b: pad(b.write("a", "a")))
    values = '{"source": "a", "x": [' + "[]," * 3_000_000 + "[]]}"
    add_case("jsonl: values", json_lines, "more than 1,048,576 values", partial(write, "a", values))
    deep = f'{{"source": {nest()}, "target": "b"}}'
    add_case("jsonl: depth", json_lines, "nested too deeply", partial(write, "a", deep))
    twice = '{"source": "a", "source": "b", "target": "c"}'
    add_case("jsonl: keys", json_lines, "'source' is repeated", partial(write, "a", twice))
    digits = f'{{"source": {"9" * 10_000}, "target": "b"}}'
    add_case("jsonl: digits", json_lines, "too many digits", partial(write, "a", digits))
    vectors, wide = TEXT_READERS["word vectors"], "a" + " 1" * 1_000_000
    for text, message in (
        (wide, "at most 16,384 numbers, got 1,000,000"),
        ("1 1000000000\n", "no vectors"),
    ):
        add_case(f"word vectors: {text[:5]}", vectors, message, partial(write, "a", text))
    add_case("lines: pickle", lines, "not valid UTF-8", lambda b: b.write("a", b.make_pickle()))
    add_case("lines: zip", lines, "is a zip file", lambda b: write_zip(b.folder / "a", ("a", b"a")))


def write(name: str, content: str | bytes, workspace: Workspace) -> Path:
    return workspace.write(name, content)


def add_arrays() -> None:
    """Add `.npz` files to the readers of images and of the variables of a run."""
    variable = keras.Variable(np.zeros(4, "float32"))
    loaders: dict[str, tuple[Callable[[Any], object], str, str]] = {
        "images": (read_npz_images, "x_train", "y_train"),
        "pixels": (read_npz_pixels, "x_train", "y_train"),
        "corpus": (lambda path: Arrays(train=str(path)).read("train"), "x_train", "y_train"),
        "variables": (lambda path: read_variables(path, {"a": [variable]}), "a.0", "a.1"),
    }
    for kind, (load, first, second) in loaders.items():
        good = make_npy((2,), b"\0\1")
        shape = (1 << 15, 1 << 15)
        for name, (entries, message) in make_arrays(first, second, good, shape).items():
            add_case(
                f"{kind}: {name}",
                load,
                message,
                lambda b, entries=entries: write_zip(b.folder / "a.npz", *entries),
            )
        header = make_npy(shape)
        add_case(
            f"{kind}: directory declares 1 GiB",
            load,
            "declares 1,073,741,952 bytes in a file of",
            lambda b, name=first, header=header: declare_size(
                write_zip(b.folder / "a.npz", (f"{name}.npy", header)), len(header) + (1 << 30)
            ),
        )
        add_case(
            f"{kind}: pickle",
            load,
            "objects|not an npz|damaged",
            lambda b, name=first: write_zip(b.folder / "a.npz", (f"{name}.npy", make_objects(b))),
        )
        add_case(
            f"{kind}: plain pickle",
            load,
            "not an npz file|damaged",
            lambda b: b.write("a.npz", b.make_pickle()),
        )
        add_case(
            f"{kind}: bzip2",
            load,
            "unsupported method",
            lambda b, name=first: write_bzip2(b.folder / "a.npz", f"{name}.npy"),
        )


def make_arrays(
    first: str, second: str, good: bytes, shape: tuple[int, ...]
) -> dict[str, tuple[list[tuple[str, bytes]], str]]:
    """Return entries of hostile `.npz` files, and the message of their refusal."""
    header = make_npy(shape)
    bomb = make_npy((80 << 20,), bytes(80 << 20))
    long = b"\x93NUMPY\2\0" + struct.pack("<I", 1 << 27) + b" " * (1 << 20)
    code = make_npy((2,), b"\0\1", "__import__('os').mkdir('marker')")
    return {
        "declares 1 GiB": (
            [(f"{first}.npy", header)],
            "declares shape .* does not match its 0 byt",
        ),
        "unpacks to 80 MiB": (
            [(f"{first}.npy", bomb), (f"{second}.npy", good)],
            "declares 83,886,.* more than 100 times",
        ),
        "duplicate": ([(f"{first}.npy", good), (f"{first}.npy", header)], "two entries named"),
        "outside": ([(f"../{first}.npy", good), (f"{first}.npy", good)], "outside of the folder"),
        "absolute": ([(f"/{first}.npy", good), (f"{first}.npy", good)], "outside of the folder"),
        "long header": ([(f"{first}.npy", long)], "not an npz|damaged|EOF|Header|header"),
        "negative": ([(f"{first}.npy", make_npy((-1, 4), b"\0" * 4))], "declares shape"),
        "code": ([(f"{first}.npy", code)], "descr|damaged|not an npz"),
        "version": ([(f"{first}.npy", b"\x93NUMPY\x09\0aa")], "version|not an npz|damaged"),
        "deep header": (
            [(f"{first}.npy", make_npy((2,), b"\0\1", "|u1").replace(b"(2,)", b"(" * 20 + b"2,"))],
            "damaged|not an npz|header|Header",
        ),
    }


def make_objects(workspace: Workspace) -> bytes:
    """Return a `.npy` file with a pickled object."""
    return make_npy((1,), workspace.make_pickle(), "|O")


def write_bzip2(path: Path, name: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr(name, make_npy((2,), b"\0\1"))
    return path


def add_images() -> None:
    """Add archives of images with names outside of the archive, links, and large images."""
    image = make_png(60_000, 60_000)
    link = zipfile.ZipInfo("cat/2.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    entries: dict[str, tuple[list[tuple[Any, bytes]], str]] = {
        "outside": ([("cat/../../1.png", b"x")], "is a link or outside"),
        "Windows": ([("cat\\..\\..\\1.png", b"x")], "is a link or outside"),
        "link": ([(link, b"/etc/passwd")], "is a link or outside"),
        "duplicate": ([("cat/1.png", b"x"), ("cat/1.png", b"y")], "two files named"),
        "pixels": ([("cat/1.png", image)], "pixels"),
        "zeros": ([("cat/1.png", bytes(UNPACKED))], "is not in a known image format"),
    }
    for name, (files, message) in entries.items():
        add_case(
            f"zip of images: {name}",
            read_class_folders,
            message,
            lambda b, files=files: write_zip(b.folder / "a.zip", *files),
        )
    add_case(
        "zip of images: declares 1 GiB",
        read_class_folders,
        "more than 268435456 bytes",
        lambda b: declare_size(write_zip(b.folder / "a.zip", ("cat/1.png", b"x")), 1 << 30),
    )
    add_case("image: pixels", read_image, "pixels", lambda b: b.write("a.png", image))
    add_case("image: hole", read_image, "more than 268435456", lambda b: pad(b.write("a.png", "a")))


def make_png(width: int, height: int) -> bytes:
    """Return a PNG that declares this size."""
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b""))
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in parts:
        content += struct.pack(">I", len(data)) + kind + data
        content += struct.pack(">I", zlib.crc32(kind + data))
    return content


def add_recipes() -> None:
    """Add YAML with code, and YAML that expands (billion laughs)."""
    aliases = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
    )
    tag, few = "!!python/object/apply:os.mkdir", "more than 10,000 keys and values"
    texts: dict[str, tuple[Any, str]] = {
        "object": (lambda b: f"data: {tag} [{b.marker}]\n", "not valid YAML"),
        "name": ("data: !!python/name:os.system\n", "not valid YAML"),
        "module": ("data: !!python/module:antigravity\n", "not valid YAML"),
        "aliases": (aliases, few),
        "cycle": ("data: &a [*a]\n", f"nested deeper than 64|{few}|recursive"),
        "depth": (f"data: {nest(5_000)}\n", "nested deeper than 64"),
        "mappings": ("data: " + "{a: " * 70 + "1" + "}" * 70 + "\n", "nested deeper than 64"),
        "keys": ("".join(f"{n:x}:\n" for n in range(10_500)), few),
        "indentation": ("".join(f"{' ' * n}a:\n" for n in range(350)), "nested deeper than 64"),
        "list": ("data: [" + "1," * 20_000 + "1]\n", few),
        "twice": ("seed: 1\nseed: 2\n", "duplicate key"),
        "pickle": (lambda b: b.make_pickle(), "not UTF-8|not valid YAML"),
    }
    for name, (text, message) in texts.items():
        add_case(
            f"recipe: {name}",
            read_recipe,
            message,
            lambda b, text=text: b.write("a.yaml", text(b) if callable(text) else text),
        )
    add_case(
        "recipe: hole", read_recipe, "has 419,430,400", lambda b: pad(b.write("a.yaml", "a: 1"))
    )
    add_case("recipe: pipe", read_recipe, "is not a regular file", make_pipe)


def make_pipe(workspace: Workspace) -> Path:
    os.mkfifo(workspace.folder / "a.yaml")
    return workspace.folder / "a.yaml"


def add_runs() -> None:
    """Add files of a run: its state, fingerprints, log and events."""
    for file, load in (("training.json", read_state), ("data.json", read_data)):
        for name, text in (("depth", f'{{"a": {nest()}}}'), ("keys", '{"step": 1, "step": 2}')):
            add_case(
                f"{file}: {name}",
                load,
                "damaged .*(nested deeper|is repeated)",
                lambda b, file=file, text=text: b.write(file, text).parent,
            )
        add_case(
            f"{file}: hole",
            load,
            "damaged .*419,430,400 bytes",
            lambda b, file=file: pad(b.write(file, "{}")).parent,
        )
    deep = f'{{"step": {nest()}}}\n'
    add_case(
        "log: depth",
        lambda path: trim_log(path, 1),
        "damaged .*; remove the damaged line",
        lambda b: b.write("log.jsonl", deep),
    )
    add_case("checkpoints: hole", find_newest, "manifest.json is damaged", write_checkpoint)


def find_newest(folder: Path) -> None:
    CheckpointFolder(folder).find_newest()


def write_checkpoint(workspace: Workspace) -> Path:
    folder = workspace.folder / "checkpoints" / "step-00000001"
    folder.mkdir(parents=True)
    pad(workspace.write("checkpoints/step-00000001/manifest.json", "{}"))
    return folder.parent


def write_events(folder: Path, size: int, data: bytes) -> Path:
    """Write an event, and a record that declares a size, whose checksums are valid."""
    (folder / "tensorboard").mkdir()
    length = struct.pack("<Q", size)
    record = length + struct.pack("<I", masked_crc32c(length)) + data
    path = folder / "tensorboard" / "events.out.tfevents.1"
    path.write_bytes(record + struct.pack("<I", masked_crc32c(data)))
    return path


def trim(folder: Path) -> None:
    trim_events(folder, 1)


add_texts()
add_arrays()
add_images()
add_recipes()
add_runs()

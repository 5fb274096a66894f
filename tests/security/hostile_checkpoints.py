"""Hostile public checkpoints: configs, safetensors, indexes, tokenizers and vocabularies."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attention_zoo import tasks
from attention_zoo.data import load_tokenizer
from attention_zoo.models import from_preset
from tests.data.tokenizers.sentencepiece_models import write_checkpoint, write_t5
from tests.models.public.checkpoints import change_config, write_safetensors
from tests.security.corpus import Workspace, add_case, nest, pad

LARGER = "the model is larger than the weights|is too large for its weights"
SAFETENSORS = "is not a safetensors file or is damaged"
INVALID_SIZES: tuple[Any, ...] = (1 << 19, 10**12, "x", float("nan"))
"""Invalid values of size fields in a config.json."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def add_checkpoint(
    name: str,
    message: str,
    change: Callable[..., object],
    family: str = "bert",
    load: Callable[[Any], object] = from_preset,
) -> None:
    """Add a public checkpoint with changed files."""

    def write(workspace: Workspace) -> Path:
        folder = workspace.copy_checkpoint(family)
        change(folder, workspace)
        return folder

    add_case(f"{family}: {name}", load, message, write)


def add_configs() -> None:
    """Add configs of large models, and configs that name code."""
    sizes = {
        "bert": ("hidden_size", "num_hidden_layers", "vocab_size", "max_position_embeddings"),
        "gpt2": ("n_embd", "n_layer", "vocab_size", "n_positions", "n_inner"),
        "bart": ("d_model", "encoder_layers", "vocab_size", "max_position_embeddings"),
        "marian": ("d_model", "decoder_layers", "vocab_size", "encoder_ffn_dim"),
        "t5": ("d_model", "num_layers", "vocab_size", "d_ff", "relative_attention_num_buckets"),
        "vit_gpt2": ("encoder", "decoder"),
        "efficientnet_lite": ("depth_coefficient", "width_coefficient"),
    }
    for family, names in sizes.items():
        for name in names:
            for value in INVALID_SIZES:
                add_checkpoint(
                    f"{name} {value}",
                    r"(model\.safetensors|config\.json|tensor|must be|larger)",
                    lambda f, _, name=name, value=value: change_config(f, **{name: value}),
                    family,
                )
    add_checkpoint(
        "integer overflow",
        "not a finite number",
        lambda f, _: change_config(f, hidden_size=10**400),
    )
    texts = {
        "depth": f'{{"model_type": {nest()}}}',
        "keys": '{"model_type": "bert", "model_type": 1}',
    }
    for name, text in texts.items():
        add_checkpoint(
            f"config: {name}",
            "not a model folder",
            lambda f, _, text=text: (f / "config.json").write_text(text),
        )
    add_checkpoint("config: hole", "not a model folder", lambda f, _: pad(f / "config.json"))
    for kind in ("Lambda", "os.system", ["bert"], "../bert"):
        add_checkpoint(
            f"model_type {kind}",
            "unknown model_type",
            lambda f, _, kind=kind: change_config(f, model_type=kind),
        )
    remote = {"AutoModel": "modeling.Payload"}

    def add_module(folder: Path, workspace: Workspace) -> None:
        change_config(folder, auto_map=remote, model_type="payload")
        (folder / "modeling.py").write_text(f"import os; os.mkdir({str(workspace.marker)!r})")

    add_checkpoint("module", "unknown model_type", add_module)


def add_tensors() -> None:
    """Add weights whose headers declare other data than the file has, and pickled weights."""
    name = "model.safetensors"
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    headers: dict[str, Any] = {
        "shape": {"a": {**entry, "shape": [1 << 30, 1 << 30]}},
        "offsets": {"a": {**entry, "data_offsets": [0, 1 << 40]}},
        "negative": {"a": {**entry, "data_offsets": [16, 0]}},
        "overlap": {"a": entry, "b": entry},
        "dtype": {"a": {**entry, "dtype": "OBJECT"}},
        "no entry": {"a": 7},
    }
    for title, header in headers.items():
        add_checkpoint(
            f"tensors: {title}",
            SAFETENSORS,
            lambda f, _, header=header: write_header(f / name, json.dumps(header)),
        )
    deep = f'{{"a": {nest()}}}'
    add_checkpoint("tensors: depth", SAFETENSORS, lambda f, _: write_header(f / name, deep))
    for size in (1 << 62, 1 << 40, 200 << 20):
        add_checkpoint(
            f"tensors: header of {size}",
            f"{SAFETENSORS} .its header has",
            lambda f, _, size=size: write_size(f / name, size),
        )
    for text in ("", "{}"):
        add_checkpoint(
            f"tensors: {text!r}",
            SAFETENSORS + "|is missing|larger",
            lambda f, _, t=text: write_header(f / name, t),
        )
    add_checkpoint(
        "tensors: pickle",
        SAFETENSORS,
        lambda f, workspace: (f / name).write_bytes(workspace.make_pickle()),
    )
    for value in (np.nan, np.inf):
        add_checkpoint(
            f"tensors: {value}", "not finite", lambda f, _, value=value: fill(f / name, value)
        )

    def rename(folder: Path, workspace: Workspace) -> None:
        (folder / name).unlink()
        (folder / "pytorch_model.bin").write_bytes(workspace.make_pickle())

    add_checkpoint("pytorch_model.bin", "is never loaded", rename)
    for target in ("../model.safetensors", "/etc/passwd", "a/b", "C:\\a", ["x"], 7, None):

        def index(folder: Path, workspace: Workspace, target: Any = target) -> None:
            content = json.dumps({"weight_map": {"a": target}})
            write_index(folder, content)

        add_checkpoint(f"index of {target}", "is not an index of tensors|no such file", index)
    for title, text in (("depth", nest()), ("keys", '{"weight_map": {}, "weight_map": {}}')):
        add_checkpoint(
            f"index: {title}",
            "is not an index of tensors",
            lambda f, _, text=text: write_index(f, text),
        )


def write_header(path: Path, text: str) -> None:
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + bytes(16))


def write_size(path: Path, size: int) -> None:
    path.write_bytes(size.to_bytes(8, "little") + b"{")
    os.truncate(path, 256 << 20)


def write_index(folder: Path, text: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(text)


def fill(path: Path, value: float) -> None:
    """Set all values of a safetensors file."""
    from safetensors.numpy import load_file

    arrays = {name: np.full(x.shape, value, "float32") for name, x in load_file(path).items()}
    write_safetensors(path, arrays)


def add_tokenizers() -> None:
    """Add files of tokenizers."""
    rules = b64encode(b"\xff" * 100).decode()
    content = make_word_piece()
    model = content["model"]
    texts: dict[str, tuple[str, str]] = {
        "rules": (
            json.dumps(
                {**content, "normalizer": {"type": "Precompiled", "precompiled_charsmap": rules}}
            ),
            "Precompiled is not supported",
        ),
        "id": (
            json.dumps({**content, "model": {**model, "vocab": {"a": 1 << 31}}}),
            "must be from 0 to",
        ),
        "negative id": (
            json.dumps({**content, "model": {**model, "vocab": {"a": -1}}}),
            "must be from 0",
        ),
        "type": (json.dumps({**content, "model": {**model, "type": "Lambda"}}), "tokenizer.json: "),
        "regular expression": (
            json.dumps(
                {
                    **content,
                    "normalizer": {"type": "Replace", "pattern": {"Regex": "("}, "content": ""},
                }
            ),
            "Oniguruma",
        ),
        "depth": (f'{{"model": {nest()}}}', "nested deeper|not the settings"),
        "values": ('{"model": [' + "[]," * 2_000_000 + "[]]}", "more than 2,621,440 values"),
        "keys": ('{"model": 1, "model": 2}', "not the settings"),
    }
    for name, (text, message) in texts.items():
        add_case(
            f"tokenizer.json: {name}",
            load_tokenizer,
            message,
            lambda b, text=text: b.write("tokenizer.json", text).parent,
        )
    files = {
        "tokenizer.json": "has 419,430,400 bytes",
        "vocab.txt": "has 419,430,400 bytes",
        "spiece.model": "has 419,430,400 bytes",
    }
    for name, message in files.items():
        add_case(
            f"{name}: hole",
            load_tokenizer,
            message,
            lambda b, name=name: pad(b.write(name, "{}")).parent,
        )
    add_case(
        "vocab.txt: lines",
        load_tokenizer,
        "more than 1,048,576 lines",
        lambda b: b.write("vocab.txt", "\n" * (1 << 24)).parent,
    )
    for name in ("vocab.json", "merges.txt"):
        add_checkpoint(
            f"{name}: hole", "419,430,400", lambda f, _, n=name: pad(f / n), "gpt2", load_tokenizer
        )


def add_sentencepiece() -> None:
    """Add SentencePiece models and vocabularies."""

    def write_marian(workspace: Workspace, name: str, content: bytes) -> Path:
        write_checkpoint(workspace.folder)
        return workspace.write(name, content).parent

    contents: dict[str, tuple[str, bytes, str]] = {
        "junk": ("source.spm", b"\x0a\xff\xff\xff\xff\x0f", "not a SentencePiece model"),
        "pieces": ("source.spm", b"\x0a\x00" * 4_000_000, "more than 1,048,576 pieces"),
        "id": (
            "vocab.json",
            b'{"<unk>": 0, "<pad>": 16000000, "</s>": 1}',
            "must be a whole number",
        ),
        "depth": ("vocab.json", nest().encode(), "nested deeper"),
        "keys": ("vocab.json", b'{"<unk>": 0, "<unk>": 1}', "is repeated"),
    }
    for title, (name, content, message) in contents.items():
        add_case(
            f"Marian: {title}",
            load_tokenizer,
            message,
            lambda b, name=name, content=content: write_marian(b, name, content),
        )

    def write_settings(workspace: Workspace) -> Path:
        write_t5(workspace.folder)
        return workspace.write("tokenizer_config.json", '{"extra_ids": 10000000}').parent

    add_case("T5: extra_ids", load_tokenizer, "extra_ids must be a whole number", write_settings)


def make_word_piece() -> dict[str, Any]:
    """Return the content of a `tokenizer.json` with a few words."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: number for number, token in enumerate(SPECIAL)},
        },
    }


def add_tasks() -> None:
    """Add files that only tasks read."""
    for name in ("generation_config.json", "vocab.json"):
        for title, text in (("depth", nest()), ("keys", '{"a": 1, "a": 2}')):
            add_checkpoint(
                f"{name}: {title}",
                f"{name}: .*(nested deeper|repeated)",
                lambda f, _, name=name, text=text: (f / name).write_text(text),
                "bart",
                tasks.load,
            )


add_configs()
add_tensors()
add_tokenizers()
add_sentencepiece()
add_tasks()

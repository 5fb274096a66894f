"""Download of model folders from the Hugging Face Hub (`hf://owner/name`)."""

from __future__ import annotations

import os
from pathlib import Path

HUB = "hf://"


def resolve_folder(folder: str | Path) -> Path:
    """Return the path of a local folder, or download an `hf://` address and return its path."""
    if str(folder).startswith(HUB):
        return download(str(folder))
    return Path(os.path.expanduser(folder))


def download(address: str) -> Path:
    """Download `hf://owner/name[/folder]` and return the local path.

    Files that match `IGNORED`, such as pickled weights, are not downloaded. Raises
    ValueError if the download fails.
    """
    owner, _, remainder = address.removeprefix(HUB).partition("/")
    name, _, subfolder = remainder.partition("/")
    if not owner or not name:
        raise ValueError(f"{address}: expected hf://owner/name or hf://owner/name/folder")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ValueError(
            f"{address}: hf:// needs huggingface_hub; run `pip install huggingface_hub`"
        ) from None
    allowed = [f"{subfolder}/*"] if subfolder else None
    try:
        root = snapshot_download(f"{owner}/{name}", allow_patterns=allowed, ignore_patterns=IGNORED)
    except Exception as error:  # huggingface_hub raises a dozen unrelated classes
        (reason, *_) = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"{address}: {reason}") from error
    return Path(root) / subfolder


IGNORED = [
    "*.bin",
    "*.ckpt",
    "*.msgpack",
    "*.onnx",
    "*.ot",
    "*.pt",
    "*.pth",
    "*.tflite",
    "tf_model.h5",
]
"""File patterns of weights in formats that this package does not read."""

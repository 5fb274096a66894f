"""Folders of the Hugging Face hub by their address, `hf://owner/name`."""

from __future__ import annotations

from pathlib import Path

HUB = "hf://"


def local_folder(folder: str | Path) -> Path:
    """The folder itself, or the local copy of an address of the hub."""
    return download(str(folder)) if str(folder).startswith(HUB) else Path(folder)


def download(address: str) -> Path:
    """The local copy of `hf://owner/name[/folder]`; ValueError when it cannot be had.

    Of what the hub stores beside each other, files of pickled Python are left there.
    """
    owner, _, rest = address.removeprefix(HUB).partition("/")
    name, _, inside = rest.partition("/")
    if not owner or not name:
        raise ValueError(f"{address}: write hf://owner/name or hf://owner/name/folder")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ValueError(
            f"{address}: hf:// needs huggingface_hub; run `pip install huggingface_hub`"
        ) from None
    wanted = [f"{inside}/*"] if inside else None
    try:
        root = snapshot_download(f"{owner}/{name}", allow_patterns=wanted, ignore_patterns=OTHERS)
    except Exception as error:  # the hub's client raises a dozen unrelated classes
        (said, *_) = str(error).splitlines() or [type(error).__name__]
        raise ValueError(f"{address}: {said}") from error
    return Path(root) / inside


OTHERS = [
    "*.bin",
    "*.pt",
    "*.pth",
    "*.ckpt",
    "*.msgpack",
    "*.onnx",
    "*.tflite",
    "*.ot",
    "tf_model.h5",
]
"""Weights in other formats than those that are read here."""

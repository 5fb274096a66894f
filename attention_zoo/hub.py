"""Model folders: local ones, entries of the zoo, and the Hugging Face Hub (`hf://owner/name`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attention_zoo import zoo
from attention_zoo.extras import explain_missing_package

HUB = "hf://"


def resolve_folder(folder: str | Path) -> Path:
    """Return the path of a local folder, an entry of the zoo, or an `hf://` address.

    A string without a path separator is the name of an entry; a local folder is `./NAME`, or a
    `Path`. The content of an `hf://` address is downloaded.

    Raises:
        ValueError: a name is neither that of an entry nor that of a local folder, the entry has no
            weights here, or the download fails.
    """
    if str(folder).startswith(HUB):
        return download(str(folder))
    if isinstance(folder, str) and zoo.is_name(folder):
        return zoo.resolve_entry(folder)
    return Path(os.path.expanduser(folder))


def download(address: str) -> Path:
    """Download `hf://owner/name[/folder][@revision]` and return the local path.

    A revision is a branch, a tag, a commit, or a pull request such as `refs/pr/4`; without one, the
    main branch. Files that match `IGNORED`, such as pickled weights, are not downloaded. Raises
    ValueError if the download fails.
    """
    location, _, revision = address.removeprefix(HUB).partition("@")
    owner, _, remainder = location.partition("/")
    name, _, subfolder = remainder.partition("/")
    is_outside = not {".", ".."}.isdisjoint(location.split("/")) or "\\" in location
    if not owner or not name or is_outside or ("@" in address and not revision):
        raise ValueError(
            f"{address}: expected hf://owner/name or hf://owner/name/folder, optionally followed by"
            " @revision"
        )
    with explain_missing_package():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
    options: dict[str, Any] = {"revision": revision} if revision else {}
    options["allow_patterns"] = [f"{subfolder}/*"] if subfolder else None
    try:
        root = snapshot_download(f"{owner}/{name}", ignore_patterns=IGNORED, **options)
    except RevisionNotFoundError:
        raise ValueError(f"{address}: the repository has no revision {revision!r}") from None
    except RepositoryNotFoundError:
        raise ValueError(f"{address}: no such repository, or it is private") from None
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

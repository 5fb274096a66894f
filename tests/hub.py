"""A cache of the Hugging Face Hub with local content, which its library reads without a network."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_repository(cache: Path, name: str, content: Path, revision: str = "main") -> Path:
    """Write a repository into a cache, as a download does, and return its snapshot."""
    root = cache / f"models--{name.replace('/', '--')}"
    reference = root / "refs" / revision
    reference.parent.mkdir(parents=True)
    reference.write_text(COMMIT)
    (root / "blobs").mkdir(exist_ok=True)
    snapshot = root / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for path in filter(Path.is_file, content.rglob("*")):
        blob = root / "blobs" / f"{len(list((root / 'blobs').iterdir())):040x}"
        shutil.copy(path, blob)
        link = snapshot / path.relative_to(content)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    return snapshot


def use_cache(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Let `huggingface_hub` read this cache, and never the network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

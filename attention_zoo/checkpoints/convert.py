"""Convert the pickled weights of a public checkpoint to safetensors.

    python -m attention_zoo.checkpoints.convert FOLDER

The environment needs torch and safetensors, but neither Keras nor TensorFlow. Files are read with
`torch.load(..., weights_only=True)`, which executes no code that they contain.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_zoo.json_files import read_strict_json

PICKLED, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
CONVERTED = "model.safetensors"


def main(argv: Sequence[str] | None = None) -> int:
    """Convert the weights in a folder; return the exit code, 2 for an error that the user can fix.

    Args:
        argv: arguments of the command line; None for those of the program.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attention_zoo.checkpoints.convert",
        description=f"Write {CONVERTED} from {PICKLED} or from the files that {INDEX} names.",
    )
    parser.add_argument("folder", type=Path, help="folder of the checkpoint")
    try:
        print(convert(parser.parse_args(argv).folder))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def convert(folder: Path) -> Path:
    """Write `model.safetensors` into the folder of a checkpoint with pickled weights.

    Returns:
        The path of the file.

    Raises:
        ValueError: torch is not installed; the file exists; there are no pickled weights; or a file
            is damaged or contains other objects than tensors.
    """
    target, temporary = folder / CONVERTED, folder / f".{CONVERTED}.new"
    if target.exists():
        raise ValueError(f"{target}: exists already; remove it to convert again")
    paths = _list_pickled(folder)
    try:
        from safetensors.torch import save_file
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is not installed; run `pip install {error.name}`") from None
    tensors: dict[str, Any] = {}
    for path in paths:
        tensors |= _read_pickled(path)
    try:
        # Safetensors files contain no shared memory: tied weights become copies.
        copies = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
        save_file(copies, temporary, metadata={"format": "pt"})
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _list_pickled(folder: Path) -> list[Path]:
    """Return the files with pickled weights; ValueError if there are none, or one is missing."""
    if (folder / PICKLED).is_file():
        return [folder / PICKLED]
    if not (folder / INDEX).is_file():
        raise ValueError(f"{folder}: contains neither {PICKLED} nor {INDEX}; download one of them")
    return list_indexed_files(folder / INDEX)


def list_indexed_files(index: Path) -> list[Path]:
    """Return the files that an index of tensors names.

    Raises:
        ValueError: the index is damaged, or a file is missing or in another folder.
    """
    try:
        names = sorted(set(read_strict_json(index)["weight_map"].values()))
        if not all(Path(name).name == name for name in names):
            raise ValueError("it names files in other folders")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{index}: is not an index of tensors ({error})") from None
    paths = [index.parent / name for name in names]
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path}: no such file, but {index.name} names it; download it")
    return paths


def _read_pickled(path: Path) -> Mapping[str, Any]:
    """Return the tensors of a file by name."""
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle and torch raise a dozen unrelated classes
        (reason, *_) = str(error).splitlines() or [type(error).__name__]
        raise ValueError(
            f"{path}: is damaged, or contains other objects than tensors ({reason}); download it"
            " again, or save the model again in safetensors"
        ) from None
    is_mapping = isinstance(content, Mapping)
    if not is_mapping or not all(isinstance(x, torch.Tensor) for x in content.values()):
        raise ValueError(f"{path}: must contain tensors by name, got other objects")
    return content


if __name__ == "__main__":
    sys.exit(main())

"""The file `serving.json` of an export: what a server needs beside the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

DESCRIPTION = "serving.json"
FORMAT_VERSION = 1
MAX_BYTES = 1 << 20
MAX_EXAMPLES = 100
MAX_NAME = 100


class Description(NamedTuple):
    """Description of an export.

    Attributes:
        task: name of the task, None if unknown.
        examples: the values of inputs by name, strings or `{"b64": ...}`, for the demo page.
        joint_signatures: names of the signatures whose outputs depend on all rows together.
    """

    task: str | None = None
    examples: tuple[dict[str, Any], ...] = ()
    joint_signatures: tuple[str, ...] = ()


def read_description(folder: str | Path) -> Description:
    """Read the description of an export from its `serving.json`; empty if there is no such file.

    Args:
        folder: folder of `attention-zoo export`.

    Raises:
        ValueError: the file has more than 1 MiB, is not JSON, or has another format. The message
            names the file.
    """
    path = Path(folder) / DESCRIPTION
    if not path.is_file():
        return Description()
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(
            f"{path}: has {size:,} bytes, the maximum is {MAX_BYTES:,}; export the"
            " model again with fewer or smaller examples"
        )
    try:
        content = json.loads(path.read_bytes().decode())
    except (RecursionError, ValueError):
        raise ValueError(f"{path}: is not JSON; export the model again") from None
    reason = _find_error(content)
    if reason is not None:
        raise ValueError(f"{path}: {reason}; export the model again")
    lists = tuple(content["examples"]), tuple(content["joint_signatures"])
    return Description(content["task"], *lists)


def format_description(description: Description) -> bytes:
    """Return the content of `serving.json`.

    Raises:
        ValueError: the examples are invalid, too many or too large.
    """
    content = {"format_version": FORMAT_VERSION, **description._asdict()}
    encoded = (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
    if len(encoded) > MAX_BYTES:
        raise ValueError(
            f"examples must have at most {MAX_BYTES:,} bytes as JSON, got {len(encoded):,}"
        )
    reason = _find_error(json.loads(encoded))
    if reason is not None:
        raise ValueError(f"examples: {reason}")
    return encoded


def _find_error(content: Any) -> str | None:
    """Return why the content of the file is invalid; None if it is valid."""
    keys = {"format_version", "task", "examples", "joint_signatures"}
    if not isinstance(content, dict) or content.keys() != keys:
        return f"must be an object with {', '.join(sorted(keys))}"
    if content["format_version"] != FORMAT_VERSION:
        return f"format_version must be {FORMAT_VERSION}, got {content['format_version']!r:.50}"
    task, examples = content["task"], content["examples"]
    if task is not None and not _is_name(task):
        return f"task must be null or a string of at most {MAX_NAME} characters"
    if not isinstance(examples, list) or len(examples) > MAX_EXAMPLES:
        return f"examples must be a list of at most {MAX_EXAMPLES} objects"
    for number, example in enumerate(examples):
        is_valid = isinstance(example, dict) and bool(example) and all(map(_is_name, example))
        if not is_valid or not all(map(_is_value, example.values())):
            return f'examples[{number}] must be an object of strings and {{"b64": ...}}'
    names = content["joint_signatures"]
    if not isinstance(names, list) or len(names) > MAX_EXAMPLES or not all(map(_is_name, names)):
        return f"joint_signatures must be a list of at most {MAX_EXAMPLES} names"
    return None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME


def _is_value(value: Any) -> bool:
    """Return whether a value is a string or a binary value."""
    if isinstance(value, dict) and value.keys() == {"b64"}:
        value = value["b64"]
    return isinstance(value, str)

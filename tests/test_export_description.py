"""The file `serving.json` of an export; tests/serving/test_demo.py has hostile ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_zoo.export_description import (
    DESCRIPTION,
    Description,
    format_description,
    read_description,
)

FULL = Description("retrieval", ({"text": "ذهبت", "image": {"b64": "AA=="}},), ("rank",))


@pytest.mark.parametrize("description", [Description(), FULL])
def test_descriptions_are_read_as_they_were_written(
    description: Description, tmp_path: Path
) -> None:
    assert read_description(tmp_path) == Description()
    (tmp_path / DESCRIPTION).write_bytes(format_description(description))
    assert read_description(tmp_path) == description


def test_invalid_descriptions_are_not_written() -> None:
    for examples, message in (
        (({},), r"examples\[0\] must be an object"),
        (({"text": 5},), r"examples\[0\] must be an object"),
        (({"text": "a"},) * 101, "examples must be a list of at most 100 objects"),
        (({"text": "a" * (1 << 20)},), "must have at most 1,048,576 bytes as JSON"),
    ):
        with pytest.raises(ValueError, match=message):
            format_description(Description("translation", examples))

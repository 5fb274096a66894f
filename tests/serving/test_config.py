"""Configuration files of the server, and invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_zoo.serving.config import Limits, ModelConfig, check_name, read_config
from tests.refusals import refuses

VALID = """
models:
  - name: dates
    path: exports/dates
  - {name: tagger, path: /srv/tagger, versions: [1, 3], limits: {timeout: 5, max_batch_size: 8}}
  - {name: all, path: all, versions: all}
"""


def test_models_and_limits(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(VALID)
    dates, tagger, every = read_config(tmp_path / "serve.yaml")
    assert dates == ModelConfig(name="dates", path=str(tmp_path / "exports" / "dates"))
    assert (dates.versions, dates.limits) == ("latest", Limits())
    assert (tagger.path, tagger.versions) == ("/srv/tagger", (1, 3))
    assert tagger.limits == Limits(timeout=5, max_batch_size=8)
    assert every.versions == "all"


@refuses(
    ("", "serve.yaml: .*dictionary"),
    ("models: []", r"models: .*at least 1 item"),
    ("models: [5]", r"models\[0\]: "),
    ("models:\n- {name: a}", r"models\[0\]\.path: Field required"),
    ("models:\n- {name: a, path: b, pth: c}", r"models\[0\]\.pth: Extra inputs are not permitted"),
    ("models:\n- {name: a/b, path: b}", r"models\[0\]: a model name must .*got 'a/b'"),
    ("models:\n- {name: a, path: b}\n- {name: a, path: c}", "two models have the name 'a'"),
    ("models:\n- {name: a, path: b, versions: last}", r"models\[0\]\.versions"),
    ("models:\n- {name: a, path: b, versions: [-1]}", r"models\[0\]\.versions"),
    ("models:\n- {name: a, path: b, limits: {timeout: 0}}", r"limits\.timeout: .*greater than 0"),
    ("models:\n- {name: a, path: b, limits: {timeout: yes}}", r"limits\.timeout: .*number"),
    ("models:\n- {name: a, path: b, limits: {max_waiting: 4}}", "max_waiting must be at least"),
    ("models: [", "serve.yaml: not YAML: .*expected"),
    ("models: !!python/object/apply:os.system [ls]", "not YAML: could not determine"),
    ("[" * 1000, "serve.yaml: not YAML"),
    ("#" * (1 << 20) + "\n", "must have at most 1,048,576 bytes"),
    ("\x00", "not YAML"),
    ("models: !!int ''", "not YAML"),
    ("models: !!bool x", "not YAML"),
    ("models: !!int x", "not YAML"),
    ("models: !!timestamp x", "not YAML"),
)
def test_invalid_files_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(content)
    read_config(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.yaml: No such file"):
        read_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("name", ["", "..", ".a", "-a", "a/b", "a:predict", "ä", "a" * 201, "a\n"])
def test_names_are_parts_of_urls(name: str) -> None:
    with pytest.raises(ValueError, match="a model name must have"):
        check_name(name)
    check_name("rnnsearch_small.dates_en-fr")

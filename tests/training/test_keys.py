"""Keys of recipes with types, defaults and descriptions."""

from __future__ import annotations

from dataclasses import fields

from attention_zoo.tasks import TASKS
from attention_zoo.training.keys import Key, list_keys, summarize
from attention_zoo.training.recipe import SECTIONS, Recipe, TrainingOptions


def test_keys_have_type_default_and_description() -> None:
    keys = {key.name: key for key in list_keys(TrainingOptions)}
    assert list(keys) == [option.name for option in fields(TrainingOptions)]
    assert keys["clip_norm"] == Key(
        "clip_norm", "float | None", "1.0", "maximum global norm of the gradient, or null"
    )
    assert keys["optimizer"].default == "{name: adam}"
    assert str(Key("jit", "bool", "true", "")) == "jit=true"
    assert str(Key("jit", "bool", "true", "use XLA")) == "jit=true  # use XLA"


def test_keys_can_be_omitted() -> None:
    names = [key.name for key in list_keys(Recipe, SECTIONS)]
    assert "run" in names
    assert not set(names) & set(SECTIONS)


def test_corpora_are_summarized() -> None:
    tsv = TASKS.get("translation").corpora.get("tsv")
    assert summarize(tsv)
    assert "\n" not in summarize(tsv)

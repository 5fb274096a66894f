from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.files import find_damage, write_manifest
from attention_zoo.models.presets import PRESETS, check_arguments, collect_arguments
from attention_zoo.models.weights_file import WEIGHTS
from tests.models.generation_conformance import VOCABULARY

TINY = {**VOCABULARY, "embedding_dim": 4, "units": 6}


def test_presets_are_listed() -> None:
    assert az.list_presets() == sorted(PRESETS.names())
    assert {"rnnsearch_base", "rnnsearch_small", "luong_base", "seq2seq_base"} <= set(
        az.list_presets()
    )


@pytest.mark.parametrize("name", PRESETS.names())
def test_preset_contains_valid_json_arguments(name: str) -> None:
    cls, numbers = PRESETS.get(name)()
    check_arguments(cls, numbers)
    assert az.models.preset_class(name) is cls
    options = [inner for outer in numbers.values() if isinstance(outer, dict) for inner in outer]
    plain = [value for value in numbers.values() if not isinstance(value, dict)]
    assert all(isinstance(value, int | float | str | bool) for value in [*plain, *options])
    assert not set(VOCABULARY) & set(numbers), "vocabularies come with the data"


class Collecting:
    def __init__(self, units: int, copies: int = 0, rates: Any = (0.5,), **kwargs: Any) -> None:
        super().__init__()
        doubled = 2 * units
        self.settings = collect_arguments(locals())
        assert doubled == 2 * units


class ExtendedRNNSearch(az.models.RNNSearch):
    """A subclass as users write it."""

    def __init__(self, *args: Any, extra: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.extra = extra

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "extra": self.extra}


def test_arguments_are_collected_as_json_types() -> None:
    collected = Collecting(np.int64(3), rates=(np.float32(0.5), 1), name="ignored").settings
    assert collected == {"units": 3, "copies": 0, "rates": [0.5, 1]}
    assert [type(x) for x in (collected["units"], *collected["rates"])] == [int, float, int]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "units must be at least 1, got 0"),
        ({"units": True}, "units must be an integer of at least 1, got True"),
        ({"units": 2, "copies": -1}, "copies must be at least 0, got -1"),
    ],
)
def test_collected_sizes_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Collecting(**arguments)


def test_sizes_are_checked_without_postponed_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Collecting.__init__.__annotations__, "units", int)
    with pytest.raises(ValueError, match="units must be at least 1, got 0"):
        Collecting(0)


def test_subclass_with_further_arguments_is_restored() -> None:
    model = ExtendedRNNSearch(**TINY, extra=2)
    assert model.settings == az.models.RNNSearch(**TINY).settings
    with keras.saving.custom_object_scope({"ExtendedRNNSearch": ExtendedRNNSearch}):
        restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    assert (restored.extra, restored.settings) == (2, model.settings)


def test_presets_are_not_shared() -> None:
    az.models.preset_config("transformer_base")["layer"]["norm"] = "rms"
    assert az.models.preset_config("transformer_base")["layer"] == {"norm_first": False}


def test_overrides_win() -> None:
    model = az.models.from_preset("rnnsearch_small", **TINY, dropout=0.1)
    assert model.settings["dropout"] == 0.1
    assert model.settings["units"] == 6


def test_options_of_layers_are_merged() -> None:
    model = az.models.from_preset(
        "transformer_base", **VOCABULARY, embedding_dim=8, units=4, layer={"norm": "rms"}
    )
    assert model.settings["layer"] == {"norm_first": False, "norm": "rms"}


def test_folder_contains_no_optimizer_state(tmp_path: Path) -> None:
    model = az.models.from_preset("rnnsearch_small", **TINY)
    model.save_to_preset(tmp_path / "fresh")
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    model.save_to_preset(tmp_path / "trained")
    files = [tmp_path / name / "model.weights.h5" for name in ("fresh", "trained")]
    assert files[0].stat().st_size == files[1].stat().st_size
    np.testing.assert_array_equal(
        az.models.from_preset(tmp_path / "trained").get_weights()[0], model.get_weights()[0]
    )


def test_weights_in_half_precision(tmp_path: Path) -> None:
    model = az.models.from_preset("rnnsearch_small", **TINY)
    model.save_to_preset(tmp_path / "float32")
    model.save_to_preset(tmp_path / "float16", weights_dtype="float16")
    loaded = az.models.from_preset(tmp_path / "float16")
    assert {weight.dtype for weight in loaded.trainable_weights} == {"float32"}
    for original, weight in zip(model.get_weights(), loaded.get_weights(), strict=True):
        expected = original.astype("float16") if original.dtype == "float32" else original
        np.testing.assert_array_equal(weight, expected)
    size, half = ((tmp_path / n / WEIGHTS).stat().st_size for n in ("float32", "float16"))
    assert half < size
    assert find_damage(tmp_path / "float16") is None


def test_weights_beyond_the_range_of_half_precision_are_rejected(tmp_path: Path) -> None:
    model = az.models.from_preset("rnnsearch_small", **TINY)
    weight = model.trainable_weights[0]
    weight.assign(weight + 1e5)
    with pytest.raises(ValueError, match=r"has a weight of 1e\+05, above the maximum 6.55e\+04"):
        model.save_to_preset(tmp_path, weights_dtype="float16")
    with pytest.raises(ValueError, match="must be float16, float32 or None, got 'int8'"):
        model.save_to_preset(tmp_path, weights_dtype="int8")


def test_unknown_names_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'rnnsearch_small'"):
        az.models.from_preset("rnnsearch_smal", **TINY)
    with pytest.raises(ValueError, match="no such folder"):
        az.models.from_preset(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"not a model folder \(manifest.json is missing"):
        az.models.from_preset(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ValueError, match=r"not a model folder \(manifest.json is damaged"):
        az.models.from_preset(tmp_path)


def test_wrong_class_is_rejected() -> None:
    with pytest.raises(ValueError, match="luong_small is a LuongTranslator, not a RNNSearch"):
        az.models.RNNSearch.from_preset("luong_small", **TINY)


@pytest.mark.parametrize("name", ["config.json", "model.weights.h5"])
def test_flipped_byte_is_rejected(tmp_path: Path, name: str) -> None:
    az.models.from_preset("rnnsearch_small", **TINY).save_to_preset(tmp_path)
    sound = (tmp_path / name).read_bytes()
    for position in (0, len(sound) // 2, len(sound) - 1):
        flipped = bytearray(sound)
        flipped[position] ^= 1
        (tmp_path / name).write_bytes(bytes(flipped))
        with pytest.raises(ValueError, match=f"{name}: missing or damaged"):
            az.models.from_preset(tmp_path)
    (tmp_path / name).write_bytes(sound[:-1])
    with pytest.raises(ValueError, match=f"{name}: missing or damaged"):
        az.models.from_preset(tmp_path)


def test_loading_imports_no_module_that_a_file_names(tmp_path: Path, user_folder: Path) -> None:
    (user_folder / "my_module.py").write_text("def Thing(): ...")
    az.models.from_preset("rnnsearch_small", **TINY).save_to_preset(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    thing = {"module": "my_module", "class_name": "Thing", "registered_name": None, "config": {}}
    messages = {
        "class": (
            "my_module.Thing",
            "^unknown model 'my_module.Thing'; import the module that reg",
        ),
        "config": (
            {**content["config"], "sampling": thing},
            "names the class 'Thing' of module 'my_module'",
        ),
    }
    for key, (value, message) in messages.items():
        (tmp_path / "config.json").write_text(json.dumps({**content, key: value}))
        write_manifest(tmp_path, ("config.json", "model.weights.h5"))
        with pytest.raises((TypeError, ValueError), match=message):
            az.models.from_preset(tmp_path)
    assert "my_module" not in sys.modules


def test_loading_imports_no_package_of_keras(tmp_path: Path, user_folder: Path) -> None:
    """Keras imports modules of keras_hub that a serialized object names."""
    (user_folder / "keras_hub").mkdir()
    (user_folder / "keras_hub" / "__init__.py").write_text("raise SystemExit('imported')")
    az.models.from_preset("rnnsearch_small", **TINY).save_to_preset(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    thing = {"module": "keras_hub.evil", "class_name": "X", "registered_name": "X", "config": {}}
    content["config"]["sampling"] = thing
    (tmp_path / "config.json").write_text(json.dumps(content))
    write_manifest(tmp_path, ("config.json", "model.weights.h5"))
    with pytest.raises(ValueError, match=r"names the class 'X' of module 'keras_hub\.evil'"):
        az.models.from_preset(tmp_path)


def test_a_path_is_not_the_name_of_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = az.models.from_preset("rnnsearch_small", **TINY)
    model.save_to_preset("rnnsearch_small")
    loaded = az.models.from_preset(Path("rnnsearch_small"))
    np.testing.assert_array_equal(loaded.get_weights()[0], model.get_weights()[0])


def test_unknown_argument_is_rejected() -> None:
    with pytest.raises(ValueError, match="no argument 'unit'; did you mean 'units'"):
        az.models.from_preset("rnnsearch_small", **VOCABULARY, unit=3)

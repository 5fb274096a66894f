"""Folders and addresses of public checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attention_zoo import models
from attention_zoo.models.public import FAMILIES, from_public, read_config
from attention_zoo.models.public.loading import Checkpoint
from attention_zoo.models.public.tensors import Tensors
from tests.hub import use_cache, write_repository
from tests.models.public.checkpoints import GOLDEN, copy_of


def test_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_cache(monkeypatch, tmp_path)
    write_repository(tmp_path, "someone/bert", GOLDEN / "bert")
    assert type(models.from_preset("hf://someone/bert")) is models.MaskedLM
    assert type(models.BERT.from_preset("hf://someone/bert")) is models.BERT
    assert type(from_public("hf://someone/bert")) is models.MaskedLM


def test_a_revision_of_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_cache(monkeypatch, tmp_path)
    write_repository(tmp_path, "someone/tagger", GOLDEN / "distilbert_tagger", "refs/pr/4")
    assert type(from_public("hf://someone/tagger@refs/pr/4")) is models.TransformerTagger


def test_hub_without_its_client_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"pip install 'attention-zoo\[hub\]'"):
        models.from_preset("hf://someone/bert")


def test_invalid_checkpoints_are_rejected(tmp_path: Path) -> None:
    assert read_config(tmp_path) is None
    for text in ("{", "[]", "{}", '{"class": "BERT"}'):
        (tmp_path / "config.json").write_text(text)
        assert read_config(tmp_path) is None
        with pytest.raises(ValueError, match=r"not a public checkpoint \(no config.json with a"):
            from_public(tmp_path)
        with pytest.raises(ValueError, match="not a model folder"):
            models.from_preset(tmp_path)


def test_missing_weights_are_rejected(tmp_path: Path) -> None:
    folder = copy_of("bert", tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"contains no model.safetensors; use another revision"):
        models.from_preset(folder)


def test_every_family_has_a_golden_checkpoint() -> None:
    configs = [config for folder in GOLDEN.iterdir() if (config := read_config(folder))]
    configs += [config["encoder"] for config in configs if "encoder" in config]
    assert {config["model_type"] for config in configs} == {*FAMILIES.names()}


@pytest.mark.parametrize("layer", [{"activation": "swiglu"}, {"norm": "rms"}])
@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "marian", "bart", "t5"])
def test_arguments_that_change_the_layers_are_rejected(family: str, layer: dict[str, str]) -> None:
    if (family, layer) == ("t5", {"norm": "rms"}):
        pytest.skip("T5 has this normalization")
    with pytest.raises(ValueError, match=r"remove the arguments that change|tensor .* is missing"):
        models.from_public(GOLDEN / family, layer=layer)
    models.from_public(GOLDEN / family)


def test_config_is_converted() -> None:
    config = {"n": 3, "act": "swish", "kind": "a"}
    checkpoint = Checkpoint(Path("x"), config, Tensors(GOLDEN / "bert"))
    assert checkpoint.get_numbers({"units": "n"}) == {"units": 3}
    assert checkpoint.get_activation("act", "gelu") == "silu"
    assert checkpoint.get_activation("other", "gelu") == "gelu"
    assert checkpoint.get_activation("other", "gelu_new") == "gelu_tanh"
    checkpoint.check_setting("kind", expected="a")
    checkpoint.check_setting("none", expected=5)
    with pytest.raises(ValueError, match=r"config.json: kind='a' is not supported, only 'b'"):
        checkpoint.check_setting("kind", expected="b")

"""Captioners of a ViT and a GPT-2 compute and generate what `transformers` does."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import attention_zoo as az
from attention_zoo import models
from attention_zoo.models import CaptionTransformer
from attention_zoo.models.public.encoders import PADDING_LOGIT
from attention_zoo.models.vision.image_encoders import make_encoder
from attention_zoo.models.vision.vision_transformer import VisionTransformer
from attention_zoo.tasks.generation_config import read_search_options
from tests.hub import use_cache, write_repository
from tests.layers.running import array
from tests.models.public.checkpoints import (
    GOLDEN,
    change_config,
    copy_of,
    expected,
    find_transformers,
    write_safetensors,
)
from tests.refusals import refuses

NAME = "vit_gpt2"
FOLDER = GOLDEN / NAME
SIDE, END = 16, 275
"""Side of the images, and the id of `<|endoftext|>` in the checkpoint."""


@functools.cache
def load_task() -> Any:
    return az.load(FOLDER)


@functools.cache
def read_cases() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())["cases"]
    return cases


def read_options(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the search options of the checkpoint with another generation config."""
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads((FOLDER / path.name).read_text()) | changes))
    config = json.loads((FOLDER / "config.json").read_text())
    config["vocab_size"] = config["decoder"]["vocab_size"]
    options = read_search_options(folder, config, load_task().tokenizer.from_checkpoint_id, 24)
    used = load_task().used_search_options
    return {name: x for name, x in options.as_dict().items() if name in used}


def check(folder: Path, model: Any) -> None:
    """Assert that image features and logits are the golden ones."""
    golden, end = expected(folder), model.target_vocabulary_size - 4
    images, target = golden["images"][:3], golden["target"]
    encoded = golden["encoded"]
    np.testing.assert_allclose(array(model.encoder.encode(images)), encoded, atol=1e-5, rtol=1e-5)
    assert (target == 0).any()
    target = np.where(target == end, 2, target + 4)
    logits = array(model({"image": images, "target": target}))
    want = golden["logits"][..., [end, *range(end)]]
    np.testing.assert_allclose(logits[..., 3:], want, atol=1e-5 * np.abs(want).max(), rtol=0)
    assert logits[..., :3].max() < PADDING_LOGIT / 2


def test_logits_equal_those_of_transformers(tmp_path: Path) -> None:
    model = models.from_preset(FOLDER)
    assert type(model) is CaptionTransformer
    check(FOLDER, model)
    model.save_to_preset(tmp_path)
    check(FOLDER, models.from_preset(tmp_path))


@pytest.mark.zoo
def test_equal_widths_without_a_projection(tmp_path: Path) -> None:
    script = Path(__file__).with_name("captioner_by_transformers.py")
    command = [find_transformers(), str(script), str(tmp_path), "32", "0"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    model = models.from_public(tmp_path)
    assert model.input_projection is None
    check(tmp_path, model)


def test_initial_weights_of_an_encoder(tmp_path: Path) -> None:
    """`weights` takes a ViT checkpoint, with or without a head, and a captioner."""
    golden, settings = az.models.public.loading.Tensors(FOLDER), load_task().model.settings
    names = [name for name in golden if name.startswith("encoder.")]
    tensors = {f"vit.{name.removeprefix('encoder.')}": golden[name] for name in names}
    config = json.loads((FOLDER / "config.json").read_text())["encoder"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    processor = (FOLDER / "preprocessor_config.json").read_text()
    (tmp_path / "preprocessor_config.json").write_text(processor)
    tensors["classifier.weight"] = np.zeros((2, 24), "float32")
    write_safetensors(tmp_path / "model.safetensors", tensors)
    images = expected(FOLDER)["images"][:2]
    want = array(load_task().model.encoder(images))
    assert isinstance(models.from_public(tmp_path), VisionTransformer)
    for source in (tmp_path, FOLDER):
        encoder = make_encoder({**settings["encoder"], "weights": str(source)}, "float32")
        np.testing.assert_array_equal(array(encoder(images)), want)
    other = {**settings["encoder"], "weights": str(tmp_path), "units": 49}
    with pytest.raises(ValueError, match=r"has units 48, but encoder.units is 49; use the same"):
        make_encoder(other, "float32")(images)
    for name, value in (("normalization", {"mean": 0.1}), ("layer", {"norm_first": False})):
        other = {**settings["encoder"], "weights": str(tmp_path), name: value}
        with pytest.raises(ValueError, match=rf"has {name} .*, but encoder.{name} is {{.*; use"):
            make_encoder(other, "float32")(images)
    with pytest.raises(ValueError, match="no task loads a VisionTransformer from a public check"):
        az.load(tmp_path)
    with pytest.raises(ValueError, match="is a VisionTransformer, not a GPT"):
        models.from_public(tmp_path, models.GPT)
    with pytest.raises(ValueError, match="is a CaptionTransformer, not a GPT"):
        models.from_public(FOLDER, models.GPT)


@pytest.mark.parametrize("number", range(3))
def test_pixels_equal_those_of_the_image_processor(number: int) -> None:
    """In Python and in a graph, within 2/255, for images that are enlarged and reduced."""
    file, want = FOLDER / f"expected{number}.png", expected(FOLDER)[f"pixels{number}"]
    task = load_task()
    encoder = task.model.encoder
    image = az.data.read_image(file, task.image_size)
    graph_image = array(az.data.graph_image(tf.constant(file.read_bytes()), task.image_size))
    for pixels in (image, graph_image):
        normalized = (pixels / 255 - np.array(encoder.mean)) / np.array(encoder.std)
        np.testing.assert_allclose(normalized * encoder.std, want * encoder.std, atol=2 / 255)


def test_tokens_equal_those_of_transformers() -> None:
    """The shortest output of greedy search; the full tier has all."""
    task, ids = load_task(), read_cases()[0]["ids"]
    row = min(range(200), key=lambda row: len(ids[row]))
    options = az.decoding.SearchOptions(max_length=19)
    result = task.model.search(expected(FOLDER)["images"][row : row + 1], options)
    length = int(result.lengths[0, 0])
    tokens = [int(one) for one in result.tokens[0, 0, :length]]
    assert tokens == [*map(task.tokenizer.from_checkpoint_id, ids[row])]
    weights = array(result.attention)[0, 0, :length]
    assert weights.shape[-1] == 4  # without the class token
    assert ((weights.sum(-1) > 0) & (weights.sum(-1) < 1)).all()


@pytest.mark.full
@pytest.mark.parametrize("number", range(7))
def test_all_tokens_equal_those_of_transformers(number: int, tmp_path: Path) -> None:
    task, case = load_task(), read_cases()[number]
    options = read_options(tmp_path, **case["options"]) | {"batch_size": 200}
    results = task.predict(expected(FOLDER)["images"][: len(case["ids"])], **options)
    for result, ids in zip(results, case["ids"], strict=True):
        token_ids = [task.tokenizer.from_checkpoint_id(one) for one in ids if one != END]
        assert list(result.tokens) == task.tokenizer.tokens(token_ids)
        assert result.text == task.tokenizer.decode(token_ids)
        assert result.truncated == (ids[-1] != END)
        assert result.attention.shape == (len(token_ids), 2, 2)
    if case["scores"]:
        scores = [result.score for result in results]
        np.testing.assert_allclose(scores, case["scores"], atol=1e-5, rtol=0)


def test_the_expected_tokens_differ_and_each_option_has_an_effect() -> None:
    greedy, beam, *cases = read_cases()
    for case in (greedy, beam):
        assert len(case["ids"]) == 200
        assert len({str(ids) for ids in case["ids"]}) >= 150
        assert sum(ids[-1] == END for ids in case["ids"]) > 150
        assert len({len(ids) for ids in case["ids"]}) > 4
    for case in cases:
        assert (case["ids"], case["scores"]) != (beam["ids"][:30], beam["scores"][:30]), case


def test_masks_of_older_checkpoints_are_ignored(tmp_path: Path) -> None:
    folder, golden = copy_of(NAME, tmp_path), az.models.public.loading.Tensors(FOLDER)
    tensors = {name: golden[name] for name in golden}
    for name in ("attn.bias", "attn.masked_bias", "crossattention.bias"):
        tensors[f"decoder.transformer.h.0.{name}"] = np.ones((1, 1, 24, 24), "uint8")
    write_safetensors(folder / "model.safetensors", tensors)
    check(folder, models.from_public(folder))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoder", {"kind": "cnn", "filters": [4]}),
        ("encoder", {"weights": "x"}),
        ("encoder", "cnn"),
        ("use_output_bias", False),
        ("layer", {"activation": "swiglu"}),
        ("num_layers", [1, 2]),
    ],
)
def test_other_structures_are_rejected(name: str, value: Any) -> None:
    """Only dropout rates may differ from the config."""
    with pytest.raises(ValueError, match=f": {name}.* of the checkpoint cannot be changed"):
        models.from_public(FOLDER, **{name: value})
    model = models.from_public(FOLDER, dropout=0.3, encoder={"dropout": 0.2}, dtype="float16")
    assert (model.settings["dropout"], model.encoder.drop.rate) == (0.3, 0.2)
    assert model.dtype_policy.name == "float16"


def test_search_options_of_the_decoder_apply_where_the_config_has_defaults(tmp_path: Path) -> None:
    folder = copy_of(NAME, tmp_path)
    (folder / "generation_config.json").unlink()
    decoder = json.loads((folder / "config.json").read_text())["decoder"]
    decoder |= {"num_beams": 3, "max_length": 9, "no_repeat_ngram_size": 2, "min_length": 0}
    change_config(folder, decoder=decoder, num_beams=1, no_repeat_ngram_size=4, max_length=20)
    search = az.load(folder).search
    assert (search.beam_width, search.max_length, search.no_repeat_ngram) == (3, 8, 4)


def test_a_limit_above_the_positions_is_rejected() -> None:
    task = load_task()
    options = {"image_size": SIDE, "max_target_length": 25}
    with pytest.raises(
        ValueError, match=r"max_target_length must be at most 24, the number of pos"
    ):
        az.tasks.Captioning(task.model, task.tokenizer, **options)
    task = az.load(FOLDER)
    with pytest.raises(ValueError, match=r"set data.image_size=16"):
        task.set_options(image_size=32)


def test_a_search_scores_as_the_whole_decoder() -> None:
    model, images = load_task().model, expected(FOLDER)["images"][:2]
    result = model.search(images, beam_width=2, max_length=6, banned_tokens=(3,))
    tokens = array(result.tokens[:, 0])
    target = np.concatenate([np.full((2, 1), 2), tokens[:, :-1]], axis=1)
    logits = array(model({"image": images, "target": target})).astype("float64")
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    scores = np.take_along_axis(log_probs, tokens[..., None], axis=2)[..., 0].sum(1)
    np.testing.assert_allclose(array(result.scores[:, 0]), scores, rtol=1e-5)


@pytest.mark.full
def test_a_search_ends_at_the_last_position() -> None:
    images = expected(FOLDER)["images"][:1]
    result = load_task().model.search(images, max_length=80, banned_tokens=(3,))
    assert array(result.lengths).tolist() == [[24]]
    assert np.isfinite(array(result.scores)).all()


def test_the_task_of_a_checkpoint() -> None:
    task = load_task()
    assert (task.name, task.image_size, task.max_target_length) == ("captioning", SIDE, 24)
    assert (task.search.beam_width, task.search.max_length) == (4, 19)
    assert task.tokenizer.vocabulary_size == task.model.target_vocabulary_size == 279


def test_without_a_limit_captions_have_at_most_64_tokens(tmp_path: Path) -> None:
    folder = copy_of(NAME, tmp_path)
    (folder / "generation_config.json").write_text("{}")
    assert az.load(folder).search.max_length == 24  # positions
    config = json.loads((folder / "config.json").read_text())
    tensors = az.models.public.loading.Tensors(folder)
    table = "decoder.transformer.wpe.weight"
    change_config(folder, decoder={**config["decoder"], "n_positions": 96})
    more = {name: tensors[name] for name in tensors} | {table: np.zeros((96, 32), "float32")}
    write_safetensors(folder / "model.safetensors", more)
    assert az.load(folder).search.max_length == 64


def test_options_of_source_tokens_are_rejected(tmp_path: Path) -> None:
    folder = copy_of(NAME, tmp_path)
    (folder / "generation_config.json").write_text('{"encoder_no_repeat_ngram_size": 2}')
    with pytest.raises(ValueError, match="encoder_no_repeat_ngram_size is not supported, because"):
        az.load(folder)
    with pytest.raises(ValueError, match="no_repeat_source_ngram has no effect in task captioning"):
        load_task().predict([], no_repeat_source_ngram=2)


def test_ids_of_the_decoder_apply_where_the_config_has_none(tmp_path: Path) -> None:
    folder = copy_of(NAME, tmp_path)
    decoder = json.loads((folder / "config.json").read_text())["decoder"]
    change_config(
        folder,
        eos_token_id=None,
        decoder_start_token_id=None,
        decoder={**decoder, "decoder_start_token_id": 9},
    )
    (folder / "generation_config.json").write_text("{}")
    table = array(models.from_public(folder).transformer.target_embedding.embeddings)
    want = array(load_task().model.transformer.target_embedding.embeddings)
    np.testing.assert_array_equal(table[2], want[9 + 4])
    np.testing.assert_array_equal(table[3:], want[3:])
    assert az.load(folder).search.max_length == 24


@refuses(
    ({"encoder": {"model_type": "swin"}}, "encoder.model_type='swin' is not supported, only 'vit'"),
    ({"decoder": None}, "decoder.model_type=None is not supported, only 'gpt2'"),
    ({"encoder": "vit"}, "encoder.model_type=None is not supported, only 'vit'"),
    ({"eos_token_id": 3}, "eos_token_id=3 is not supported, only 275"),
    (
        {"decoder_start_token_id": 276},
        "decoder_start_token_id=276 is not in the vocabulary of 276 tokens",
    ),
    ({"eos_token_id": [275]}, "eos_token_id=[275] is not supported, only a token id"),
    literal=True,
)
def test_unsupported_configs_are_rejected(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = copy_of(NAME, tmp_path)
    change_config(folder, **changes)
    az.load(folder)


@refuses(
    ("encoder", {"qkv_bias": False}, "qkv_bias=False is not supported, only True"),
    ("encoder", {"num_channels": 1}, "num_channels=1 is not supported, only 3"),
    ("encoder", {"hidden_act": "mish"}, "hidden_act='mish' is not supported"),
    ("encoder", {"hidden_act": ["gelu"]}, "hidden_act=['gelu'] is not supported"),
    ("encoder", {"image_size": 24}, "only that of the model, 24"),
    ("decoder", {"vocab_size": None}, "vocab_size=None is not supported, only a token id"),
    ("encoder", {"intermediate_size": 50}, "intermediate.dense.weight has shape (48, 24), but"),
    ("decoder", {"add_cross_attention": False}, "add_cross_attention=False is not supported"),
    ("decoder", {"cross_attention_hidden_size": 24}, "cross_attention_hidden_size=24 is not"),
    literal=True,
)
def test_unsupported_parts_are_rejected(part: str, changes: dict[str, Any], tmp_path: Path) -> None:
    folder = copy_of(NAME, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    change_config(folder, **{part: {**config[part], **changes}})
    az.load(folder)


@refuses(
    ({"resample": 3}, "resample=3 is not supported, only 2"),
    ({"do_center_crop": True}, "do_center_crop=True is not supported, only False"),
    ({"do_resize": False}, "do_resize=False is not supported, only True"),
    ({"do_resize": None}, "do_resize=None is not supported, only True"),
    ({"image_processor_type": "CLIPImageProcessor"}, "image_processor_type='CLIPImageProcessor'"),
    ({"size": {"shortest_edge": 16}}, "size={'shortest_edge': 16} is not supported"),
    ({"gamma": 2}, "gamma=2 is not supported; remove it"),
    ({"image_std": [1, 1]}, "image_mean and image_std must be three numbers"),
    ({"image_std": [1, 1, 0]}, "normalization.std must be a finite number above 0, got 0.0"),
    ({"rescale_factor": 0}, "image_mean and image_std must be three numbers and rescale_factor a"),
    literal=True,
)
def test_unsupported_image_processors_are_rejected(changes: dict[str, Any], tmp_path: Path) -> None:
    path = copy_of(NAME, tmp_path) / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    models.from_public(path.parent)


@pytest.mark.parametrize(
    ("changes", "mean", "std"),
    [
        ({"size": SIDE, "image_mean": [0.1, 0.2, 0.3]}, [0.1, 0.2, 0.3], [0.5] * 3),
        ({"size": [SIDE, SIDE], "_valid_processor_keys": ["images"]}, [0.5] * 3, [0.5] * 3),
        ({"image_processor_type": "ViTFeatureExtractor"}, [0.5] * 3, [0.5] * 3),
        ({"do_normalize": False}, [0] * 3, [1] * 3),
        ({"do_rescale": False}, [0.5 / 255] * 3, [0.5 / 255] * 3),
        ({"rescale_factor": 1 / 127.5}, [0.25] * 3, [0.25] * 3),
    ],
)
def test_normalization_of_the_image_processor(
    changes: dict[str, Any], mean: list[float], std: list[float], tmp_path: Path
) -> None:
    path = copy_of(NAME, tmp_path) / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    settings = models.public.image_processor.read_image_processor(path.parent, SIDE)
    np.testing.assert_allclose(settings["mean"], mean)
    np.testing.assert_allclose(settings["std"], std)


def test_missing_files_are_rejected(tmp_path: Path) -> None:
    folder = copy_of(NAME, tmp_path)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ValueError, match=r"preprocessor_config.json: .*No such file.*; copy it ag"):
        az.load(folder)
    folder = copy_of(NAME, tmp_path / "other")
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    with pytest.raises(ValueError, match="requires the tokenizer of a GPT-2, got a WordPieceToke"):
        az.load(folder)


def test_a_checkpoint_loads_from_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_cache(monkeypatch, tmp_path)
    write_repository(tmp_path, "org/captioner", FOLDER, "main")
    task = az.load("hf://org/captioner")
    assert task.search == load_task().search
    assert task.tokenizer.content_hash == load_task().tokenizer.content_hash


@pytest.mark.full
def test_a_saved_task_predicts_the_same(tmp_path: Path) -> None:
    task, images = load_task(), expected(FOLDER)["images"][:3]
    task.save(tmp_path)
    loaded = az.load(tmp_path)
    assert (loaded.search, loaded.image_size) == (task.search, SIDE)
    for result, want in zip(loaded.predict(images), task.predict(images), strict=True):
        assert (result.text, result.tokens) == (want.text, want.tokens)


@pytest.mark.full
def test_evaluation_and_report(tmp_path: Path) -> None:
    """The captions of the golden images name their colours."""
    task, images = load_task(), expected(FOLDER)["images"][:20]
    ids = [[*map(task.tokenizer.from_checkpoint_id, row)] for row in read_cases()[1]["ids"][:20]]
    texts = [(task.tokenizer.decode(row),) for row in ids]
    names = [f"{row}.png" for row in range(20)]
    examples = az.data.CaptionedImages(images, texts, names, "golden")
    assert task.evaluate(examples)["exact_match"] == 100
    task.write_report(task.predict(images[:2]), tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()

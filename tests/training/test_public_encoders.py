"""`init`: a classifier or matcher around the BERT of a public checkpoint, and its own options."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo import models, tasks, training
from attention_zoo.data import load_tokenizer
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.tasks import Classification
from attention_zoo.training import read_recipe
from attention_zoo.training.fine_tuning import load_initial_task
from attention_zoo.training.preparation import make_task
from tests.models.public.checkpoints import GOLDEN, copy_of, expected, write_safetensors
from tests.models.public.test_public_bert import check as check_bert
from tests.models.public.test_public_encoders import check
from tests.refusals import refuses
from tests.training.small import write_recipe
from tests.training.test_fitting import StopAfter

DATA = {
    "classification": "{corpus: csv, train: rows.csv, validation: rows.csv, max_length: 12}",
    "matching": "{corpus: csv, first: text, second: other, train: rows.csv, validation: rows.csv,"
    " max_first_length: 4, max_second_length: 5}",
}
ROWS = ["text,other,label", *["the cat,a mat,yes", "a mat sat,the cat,no"] * 4]


def page(folder: Path, task: str = "classification", init: Path = GOLDEN / "bert") -> Path:
    (folder / "rows.csv").write_text("\n".join(ROWS) + "\n", "utf-8")
    data = DATA[task].replace("rows.csv", str(folder / "rows.csv"))
    sizes = "{steps: 4, evaluate_every: 2, batch_size: 4}"
    return write_recipe(folder, f"task: {task}\ninit: {init}\ndata: {data}\ntraining: {sizes}\n")


def build(path: Path, *overrides: str) -> Any:
    recipe = read_recipe(path, overrides)
    return make_task(recipe, recipe.data.read("train"), None)


def assert_hidden_states(bert: Any) -> None:
    """Check that the hidden states of the golden inputs are those of `transformers`."""
    golden = expected(GOLDEN / "bert")
    hidden = bert({name: golden[name] for name in ("tokens", "segments")})["hidden"]
    is_token = golden["tokens"] != 0
    np.testing.assert_allclose(np.asarray(hidden)[is_token], golden["hidden"][is_token], atol=1e-5)


@pytest.mark.parametrize("task_name", ["classification", "matching"])
def test_model_has_the_weights_and_tokenizer_of_the_checkpoint(
    task_name: str, tmp_path: Path
) -> None:
    task = build(page(tmp_path, task_name), "model={dropout: 0.3, bert: {dropout: 0.2}}")
    assert task.name == task_name
    assert list(task.classes) == ["no", "yes"]
    assert task.tokenizer.content_hash == load_tokenizer(GOLDEN / "bert").content_hash
    bert = task.model.bert
    assert_hidden_states(bert)
    assert (task.model.settings["dropout"], bert.settings["dropout"]) == (0.3, 0.2)
    if task_name == "matching":
        special = task.model.settings["start_token"], task.model.settings["end_token"]
        assert special == (task.tokenizer.start, task.tokenizer.end)
        assert bert.pooler is None
    else:
        assert task.class_counts == {"no": 4, "yes": 4}
        reference = np.asarray(models.BERT.from_preset(GOLDEN / "bert").pooler.kernel)
        np.testing.assert_array_equal(np.asarray(bert.pooler.kernel), reference)


def test_the_mean_needs_no_pooler(tmp_path: Path) -> None:
    assert build(page(tmp_path), "model.pooling=mean").model.bert.pooler is None


def test_checkpoint_without_a_pooler(tmp_path: Path) -> None:
    folder = copy_of("bert", tmp_path)
    tensors = {name: array for name, array in Tensors(folder).items() if "pooler" not in name}
    (folder / "model.safetensors").unlink()
    write_safetensors(folder / "model.safetensors", tensors)
    task = build(page(tmp_path, init=folder))
    assert task.model.bert.pooler is None
    assert_hidden_states(task.model.bert)


@pytest.mark.parametrize("name", ["distilbert", "roberta"])
def test_other_families_have_a_new_head(name: str, tmp_path: Path) -> None:
    task = build(page(tmp_path, init=GOLDEN / name), "model.hidden_activation=tanh")
    check(GOLDEN / name, task.model.bert)
    assert task.classes == ("no", "yes")
    assert task.model.dense is not None
    assert task.tokenizer.content_hash == load_tokenizer(GOLDEN / name).content_hash


TAGGING_DATA = "{corpus: orders, size: 4, validation_size: 2, test_size: 2}"


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_tagger_has_class_tokens_and_a_new_head(name: str, tmp_path: Path) -> None:
    text = f"task: tagging\ninit: {GOLDEN / name}\ndata: {TAGGING_DATA}\n"
    task = build(write_recipe(tmp_path, text), "model={aggregation: average, bert: {dropout: 0.2}}")
    model, tokenizer = task.model, task.tokenizer
    (check if name == "roberta" else check_bert)(GOLDEN / name, model.bert)
    assert (model.settings["aggregation"], model.bert.settings["dropout"]) == ("average", 0.2)
    assert set(task.tags) > {"O"}
    tokens = task.predict(["cat sat"])[0].tokens
    assert (tokens[0], tokens[-1]) == tuple(tokenizer.tokens([tokenizer.start, tokenizer.end]))


def test_a_changed_class_token_applies_before_and_after_saving(tmp_path: Path) -> None:
    az.load(GOLDEN / "roberta_tagger").save(tmp_path / "task")
    text = f"task: tagging\ninit: {tmp_path / 'task'}\ndata: {TAGGING_DATA}\n"
    recipe = read_recipe(write_recipe(tmp_path, text), ["model.class_token=false"])
    task = load_initial_task(recipe)
    tokens = task.predict(["cat sat"])[0].tokens
    task.save(tmp_path / "other")
    assert az.load(tmp_path / "other").predict(["cat sat"])[0].tokens == tokens
    assert "<s>" not in tokens


def test_the_pooler_of_a_roberta_is_not_used(tmp_path: Path) -> None:
    folder, tensors = copy_of("roberta", tmp_path), dict(Tensors(GOLDEN / "roberta"))
    tensors["roberta.pooler.dense.weight"] = np.ones((16, 16), "float32")
    tensors["roberta.pooler.dense.bias"] = np.ones(16, "float32")
    write_safetensors(folder / "model.safetensors", tensors)
    assert build(page(tmp_path, init=folder)).model.bert.pooler is None
    assert models.BERT.from_preset(folder).pooler is not None


@pytest.mark.full
@pytest.mark.parametrize("task_name", DATA)
def test_run_resumes_without_the_checkpoint(task_name: str, tmp_path: Path) -> None:
    folder = copy_of("bert", tmp_path)
    path, run = page(tmp_path, task_name, folder), tmp_path / "run"
    words = [f"run={run}", "training.checkpoint_every=1", "training.layer_decay=0.9"]
    with pytest.raises(KeyboardInterrupt):
        training.fit(path, words, [StopAfter(2)])
    shutil.rmtree(folder)
    result = training.fit(path, words)
    assert result.step == 4
    assert tasks.load(run).tokenizer.kind == "wordpiece"


LANGUAGE_MODELING = (
    "task=language_modeling",
    "data={corpus: date_lines, size: 4, validation_size: 2, test_size: 2}",
)


@pytest.mark.usefixtures("no_run_folder")
@refuses(
    (["tokenizer.kind=word"], r"tokenizer: the public checkpoint .* has a tokenizer; remove"),
    (["model.preset=bert_tiny"], r"model\.preset: init=.* has a model; remove preset"),
    (["model.poling=mean"], "model: BERT has no argument 'poling'"),
    (["model.pooling=max"], r"model\.pooling must be one of"),
    (["model.dropout=true"], r"model\.dropout: expected float, got True"),
    (["model.bert.dropout=null"], r"model\.dropout: expected float, got None"),
    (["model.bert=3"], r"model\.bert must be a dict of options"),
    (["model={units: 3, bert: {units: 4}}"], r"model\.bert\.units: model\.units is the same"),
    (["model.units=5"], "shape .* but config.json and the arguments require"),
    ([f"init={GOLDEN / 'gpt2'}"], "its task is language_modeling, the recipe has task=class"),
    (
        LANGUAGE_MODELING,
        "its task is masked_language_modeling, the recipe has task=language_modeling",
    ),
)
def test_bad_recipes(overrides: Any, tmp_path: Path) -> None:
    training.fit(page(tmp_path), [f"run={tmp_path / 'run'}", *overrides])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe whose `init` is a saved classifier around a BERT."""
    folder = tmp_path_factory.mktemp("saved")
    bert = models.BERT.from_preset(GOLDEN / "bert", use_pooler=False)
    classifier = models.TransformerClassifier(bert, ["no", "yes"], dropout=0.4)
    classifier.head.bias.assign([1, 2])
    tokenizer = load_tokenizer(GOLDEN / "bert")
    Classification(classifier, tokenizer, max_length=12).save(folder / "task")
    return page(folder, init=folder / "task")


def test_options_of_the_classifier_are_not_those_of_its_bert(saved: Path) -> None:
    words = ["model.pooling=mean", "model.dropout=0.3"]
    model = load_initial_task(read_recipe(saved, words)).model
    assert (model.settings["pooling"], model.settings["dropout"]) == ("mean", 0.3)
    assert model.bert.settings["dropout"] == 0.1
    np.testing.assert_array_equal(np.asarray(model.head.bias), [1, 2])
    norm = Tensors(GOLDEN / "bert")["bert.embeddings.LayerNorm.weight"]
    np.testing.assert_array_equal(np.asarray(model.bert.norm.gamma), norm)


def test_options_of_the_bert_are_not_those_of_the_classifier(saved: Path) -> None:
    model = load_initial_task(read_recipe(saved, ["model.bert.dropout=0.2"])).model
    assert (model.settings["dropout"], model.bert.settings["dropout"]) == (0.4, 0.2)


@refuses(
    ("model.poling=mean", "model: BERT has no argument 'poling'"),
    ("model.pooling=max", r"model\.pooling must be one of"),
    ("model.dropout=null", r"model\.dropout: expected float, got None"),
    ("model.bert.dropout=true", r"model\.dropout: expected float, got True"),
    (
        "model.hidden_activation=tanh",
        r"model\.hidden_activation changes the weights of the model; rem",
    ),
    ("model.units=5", r"it has model\.units=24, but the recipe has 5"),
    ("model.bert.use_pooler=true", r"it has model\.use_pooler=False, but the recipe has True"),
)
def test_options_that_do_not_fit_the_saved_classifier(override: str, saved: Path) -> None:
    load_initial_task(read_recipe(saved, [override]))


def test_options_of_a_new_bert(tmp_path: Path) -> None:
    sizes = "{preset: bert_tiny, embedding_dim: 8, units: 8, num_heads: 2, pooling: mean,"
    path = page(tmp_path)
    words = ["init=null", f"model={sizes} dropout: 0.3, bert: {{max_length: 12, dropout: 0.2}}}}"]
    model = build(path, *words).model
    assert (model.settings["dropout"], model.settings["pooling"]) == (0.3, "mean")
    assert (model.bert.settings["dropout"], model.bert.settings["max_length"]) == (0.2, 12)

"""Recipes are read, or rejected with one line that names the location and the fix."""

from __future__ import annotations

import string
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from attention_zoo.tasks import Retrieval, SearchOptions, Translation
from attention_zoo.training import Recipe, override_recipe, override_task, read_recipe
from attention_zoo.training.recipe import format_recipe
from tests.refusals import refuses
from tests.training.small import PAGE, write_recipe


def test_file_and_overrides(tmp_path: Path) -> None:
    recipe = read_recipe(
        write_recipe(tmp_path),
        ["training.steps=7", "data.size=11", "model.dropout=0.5", "training.clip_norm=null"],
    )
    assert recipe.training.steps == 7
    assert recipe.training.batch_size == 16
    assert recipe.training.clip_norm is None
    assert recipe.data.corpus == "dates"
    assert recipe.data.read("train").origin
    assert len(recipe.data.read("train")) == 11
    assert recipe.model == {
        "preset": "rnnsearch_small",
        "embedding_dim": 8,
        "units": 16,
        "dropout": 0.5,
    }
    assert recipe.run == str(Path("runs") / "small")


TEXTS = ("20261125_01", "007", "1:30", "0x10", "no", "1.10", "1e3", "2026-11-25", "true", "a b")


@pytest.mark.parametrize("text", TEXTS)
def test_text_options_keep_their_text(text: str, tmp_path: Path) -> None:
    page = f"data: {{corpus: tsv, source: {text}, target: en, train: {text}}}\nrun: {text}\n"
    page += f"training: {{frozen: [{text}]}}\nmodel: {{preset: {text}}}\n"
    recipe = read_recipe(write_recipe(tmp_path, page))
    assert (recipe.run, recipe.data.source, recipe.data.train) == (text, text, text)
    assert (recipe.training.frozen, recipe.model) == ([text], {"preset": text})
    assert read_recipe(write_recipe(tmp_path, format_recipe(recipe))) == recipe
    words = [f"run={text}", f"data.train={text}", f"training.frozen=[{text}]"]
    expected = (text, text, [text])
    path = write_recipe(tmp_path, page.replace(text, "x"))
    for changed in (override_recipe(recipe, words), read_recipe(path, words)):
        assert (changed.run, changed.data.train, changed.training.frozen) == expected


SYNTAX = (
    *("x #1", "#x", "&x", "*.csv", "[ab]*.csv", "@x", "%x", "`x`", "!x", "!!int x", "a: b", "- a"),
    *("'x' y", "{x: [}", "--- a --- b", " ", "Null", *sorted({*string.punctuation} - {"~"})),
)
TEXT_KEYS = ("data.train", "data.source", "data.target", "data.delimiter", "init", "run")


def test_text_overrides_keep_characters_of_yaml_syntax(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "data: {corpus: csv, source: a, target: b, train: x}\nrun: x\n")
    recipe = read_recipe(path)
    for first in range(0, len(SYNTAX), len(TEXT_KEYS)):
        given = dict(zip(TEXT_KEYS, SYNTAX[first:], strict=False))
        words = [f"{key}={text}" for key, text in given.items()]
        for changed in (read_recipe(path, words), override_recipe(recipe, words)):
            assert {key: attrgetter(key)(changed) for key in given} == given
    recipe = read_recipe(path, ["run='#x'", 'data.train=["*.csv", b]', "model=units: 3"])
    assert (recipe.run, recipe.data.train) == ("#x", ["*.csv", "b"])
    assert recipe.model == {"units": 3}


def test_task_corpus_and_optimizer_are_text(tmp_path: Path) -> None:
    """YAML reads `no` as False."""
    for recipe_text, message in (
        ("task: no\ndata: {corpus: dates}\n", "unknown task 'no'"),
        ("data: {corpus: no}\n", r"unknown data\.corpus 'no'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_recipe(write_recipe(tmp_path, recipe_text))
    for optimizer in ("no", "{name: no}"):
        recipe_text = f"data: {{corpus: dates}}\ntraining: {{optimizer: {optimizer}}}\n"
        recipe = read_recipe(write_recipe(tmp_path, recipe_text))
        changed = override_recipe(Recipe(), [f"training.optimizer={optimizer}"])
        assert recipe.training.optimizer == changed.training.optimizer == {"name": "no"}


def test_null_and_quoted_texts(tmp_path: Path) -> None:
    page = "data: {corpus: tsv, source: 'no', target: en, train: null, test: ~}\nrun: '~'\n"
    recipe = read_recipe(write_recipe(tmp_path, page), ["init=null", "data.validation=~"])
    assert (recipe.data.source, recipe.run, recipe.init) == ("no", "~", None)
    assert [recipe.data.train, recipe.data.validation, recipe.data.test] == [None, None, None]


def test_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    page = "data: {corpus: tsv, source: a, target: b, train: ~/x.tsv}\ntokenizer: {vectors: ~/v}\n"
    write_recipe(tmp_path, page)
    recipe = read_recipe("~/small.yaml", ["run=~/r", "data.test=~/y"])
    assert recipe.data.train == f"{tmp_path}/x.tsv"
    assert (recipe.run, recipe.data.test) == (f"{tmp_path}/r", f"{tmp_path}/y")
    assert recipe.tokenizer is not None
    assert recipe.tokenizer.vectors == f"{tmp_path}/v"
    assert Recipe(init="~/other").init == f"{tmp_path}/other"


def test_another_kind_replaces_the_options(tmp_path: Path) -> None:
    page = "data: {corpus: dates}\nmodel: {encoder: {kind: a, x: 1, inner: {kind: b, y: 2}}}\n"
    path = write_recipe(tmp_path, page)
    for override, expected in (
        ("model.encoder={kind: c, z: 3}", {"kind": "c", "z": 3}),
        ("model.encoder.kind=c", {"kind": "c"}),
        (
            "model.encoder={kind: a, z: 3}",
            {"kind": "a", "x": 1, "inner": {"kind": "b", "y": 2}, "z": 3},
        ),
        ("model.encoder.x=5", {"kind": "a", "x": 5, "inner": {"kind": "b", "y": 2}}),
        ("model.encoder.inner={kind: d}", {"kind": "a", "x": 1, "inner": {"kind": "d"}}),
    ):
        assert read_recipe(path, [override]).model == {"encoder": expected}


def test_overrides_may_change_the_corpus(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "data: {corpus: dates}\n")
    recipe = read_recipe(
        path, ["data.corpus=tsv", "data.train=a.tsv", "data.source=de", "data.target=en"]
    )
    assert (recipe.data.corpus, recipe.data.source) == ("tsv", "de")
    other = write_recipe(tmp_path, "data: {corpus: dates, size: 3, max_source_length: 9}\n")
    recipe = read_recipe(other, ["data.corpus=tsv", "data.source=de", "data.target=en"])
    assert (recipe.data.corpus, recipe.data.max_source_length) == ("tsv", 9)
    path = write_recipe(tmp_path, "run: x\n")
    words = ["data.corpus=tsv", "data.corpus=csv", "data.source=a", "data.target=b"]
    assert read_recipe(path, words).data.corpus == "csv"
    path = write_recipe(tmp_path, "data: {corpus: dates}\n")
    with pytest.raises(ValueError, match=r"data\.size=3: unknown key 'data\.size'"):
        read_recipe(path, ["data.corpus=tsv", "data.source=a", "data.target=b", "data.size=3"])


def test_yaml_round_trip(tmp_path: Path) -> None:
    recipe = read_recipe(write_recipe(tmp_path), ["search.beam_width=3"])
    again = read_recipe(write_recipe(tmp_path, format_recipe(recipe)))
    assert again == recipe


def test_override_recipe_does_not_change_its_argument(tmp_path: Path) -> None:
    recipe = Recipe()
    assert override_recipe(recipe, ["search.beam_width=4"]).search.beam_width == 4
    assert recipe.search.beam_width == 1


@refuses(
    (
        PAGE.replace("steps:", "step:"),
        r"small\.yaml:14: unknown key 'training\.step'; did you mean 'steps'\?",
    ),
    (
        "data: {corpus: dates}\ntrainings:\n  steps: 3\n",
        r"small\.yaml:2: unknown key 'trainings'; did you mean 'training'\?",
    ),
    (
        PAGE.replace("steps: 40", "steps: many"),
        r"small\.yaml:14: training\.steps: Value 'many' .* Integer",
    ),
    (
        "data: {corpus: dates}\ntraining: 3\n",
        r"small\.yaml:2: training is a section of `key: value` lines, got 3",
    ),
    ("dta: {corpus: dates}\n", r"small\.yaml:1: unknown key 'dta'; did you mean 'data'\?"),
    (
        "data: {corpus: dates}\ntraining:\n  frozen: encoder\n",
        r"small\.yaml:3: training\.frozen must be a list, got encoder; write frozen: \[encoder\]",
    ),
    ("data: {corpus: dates}\ntask: trans\n", r"small\.yaml:2: task=trans: unknown task.*did you"),
    (
        PAGE.replace("steps: 40", "steps: 0"),
        r"small\.yaml:14: training\.steps must be at least 1, got 0",
    ),
    (PAGE + "  precision: float8\n", r"precision.*'float8'.*mixed_float16"),
    (PAGE + "  jit: often\n", r"training\.jit must be true, false or auto"),
    (PAGE.replace("0.01", "-1"), r"training\.learning_rate must be above 0, got -1"),
    (PAGE + "  label_smoothing: 1\n", r"must be in \[0, 1\), got 1"),
    (PAGE + "  warmup_steps: -1\n", r"must be at least 0, got -1"),
    ("data: {corpus: dates}\nseed: -1\n", r"seed must be at least 0, got -1"),
    (f"{PAGE}imports: my_module\n", r"small\.yaml:18: imports must be a list, got my_module; wri"),
    (
        f"{PAGE}imports: null\n",
        r"small\.yaml:18: imports must be a list, got None; write imports: \[\.\.\.\]",
    ),
    (f"{PAGE}imports: {{a: b}}\n", r"small\.yaml:18: imports must be a list, got {'a': 'b'}; wri"),
    (f"{PAGE}imports: [[a]]\n", r"small\.yaml:18: imports: expected a module .*, got \['a'\]$"),
    (f"{PAGE}imports: [null]\n", r"small\.yaml:18: imports: expected a module .*, got None$"),
    (f"{PAGE}  frozen: {{a: b}}\n", r"small\.yaml:18: training\.frozen must be a list, got {'a': "),
    (f"{PAGE}  frozen: [null]\n", r"small\.yaml:18: training\.frozen\[0\]: Invalid type"),
    (
        PAGE + "search:\n  n_best: 2\n",
        r"small\.yaml:19: n_best must be at most beam_width, got n_best=2, beam_width=1",
    ),
    ("data:\n  corpus: [dates\ntask: x\n", r"small\.yaml:3: not valid YAML"),
    ("data:\n\tcorpus: dates\n", r"small\.yaml:2: not valid YAML"),
    ("seed: 1\nseed: 2\n", r"small\.yaml:2: not valid YAML: found duplicate key"),
    ("task: ${seed\n", r"small\.yaml: not valid YAML"),
    ("- data\n", r"small\.yaml: expected a YAML mapping of `key: value` lines"),
    ("5\n", r"small\.yaml: expected a YAML mapping of `key: value` lines"),
    ("dates\n", r"small\.yaml: expected a YAML mapping of `key: value` lines"),
    ("", r"small\.yaml: data\.corpus is missing; name one of csv, dates, [a-z0-9_, ]+, tsv$"),
    (PAGE + "format_version: 2\n", r"small\.yaml:\d+ has format_version 2, .* reads up to 1"),
    (
        "data: {corpus: date}\n",
        r"small\.yaml:1: data\.corpus=date: task translation: unknown data\.corpus 'date'; did you"
        r" mean 'dates'\?",
    ),
    ("data: {corpus: tsv}\n", r"data\.source is missing; name the language"),
    ("data: {corpus: dates, max_source_length: 0}\n", r"max_source_length must be"),
)
def test_bad_file(page: Any, tmp_path: Path) -> None:
    read_recipe(write_recipe(tmp_path, page), import_modules=True)


@refuses(
    ("training.stepps=3", r"^training\.stepps=3: unknown key .*; did you mean 'steps'\?"),
    ("training.steps=x", r"^training\.steps=x: training\.steps: Value 'x' .*Integer"),
    ("training.optimizer=null", r"^training\.optimizer=null: .* a name or a mapping, got None"),
    ("format_version=2", r"small\.yaml: recipe has format_version 2, .* reads up to 1"),
    ("training.batch_tokens=0", r"training\.batch_tokens must be at least 1, got 0"),
    ("training.steps=0", r"^training\.steps=0: training\.steps must be at least 1, got 0"),
    ("dta.train=x", r"^dta\.train=x: unknown key 'dta'; did you mean 'data'"),
    ("training.frozen=encoder", r"^training\.frozen=encoder: .* must be a list, got encoder"),
    ("training=3", r"^training=3: training is a section"),
    ("training.steps", r"^training\.steps: expected key\.key=value"),
    ("=3", r"^=3: expected key\.key=value"),
    (
        "data.size=[1",
        r"^data\.size=\[1: not valid YAML: expected ',' or '\]', .*; put quotes around the value$",
    ),
    ("data.sorce=,", r"^data\.sorce=,: unknown key 'data\.sorce'; did you mean 'source'\?"),
    ("trainng.steps={", r"^trainng\.steps=\{: unknown key 'trainng'; did you mean 'training'\?"),
    ("training.stepps=[", r"^training\.stepps=\[: unknown key .*; did you mean 'steps'\?"),
    ("training=,", r"^training=,: not valid YAML: .*; put quotes around the value$"),
    ("training.optimizer={", r"^training\.optimizer=\{: not valid YAML: "),
    ("model.units=,", r"^model\.units=,: not valid YAML: "),
    ("data.size=#1", r"^data\.size=#1: not valid YAML: the value is a comment; put quotes"),
    ("run=", r"^run=: the value is empty; give one, or null for none$"),
    ("run=${x", r"^run=\$\{x: "),
    (
        "imports=x.py",
        r"^imports=x\.py: imports must be a list, got x\.py; write imports: \[x\.py\]$",
    ),
    ("imports=[x.py]", r"^imports=\[x\.py\]: imports: expected a module name .*; use x$"),
)
def test_bad_override(override: str, tmp_path: Path) -> None:
    read_recipe(write_recipe(tmp_path), [override], import_modules=True)


def test_modules_are_imported_only_on_request(user_folder: Path) -> None:
    (user_folder / "one.py").write_text("")
    (user_folder / "other.py").write_text("1 / 0")
    path = write_recipe(user_folder, f"{PAGE}imports: [other, one]\n")
    assert read_recipe(path).imports == ["other", "one"]
    assert not {"one", "other"} & {*sys.modules}
    with pytest.raises(
        ValueError, match=r"small\.yaml:18: imports: importing other failed: .*Zero"
    ):
        read_recipe(path, import_modules=True)
    recipe = read_recipe(path, ["imports=[one]"], import_modules=True)
    assert recipe.imports == ["one"]
    assert "one" in sys.modules


WITHOUT_BEAM_SEARCH = {
    "tagging": "orders",
    "masked_language_modeling": "date_lines",
    "retrieval": "scenes",
}
TAGGING = "task: tagging\ndata: {corpus: orders}\n"


@pytest.mark.parametrize("task", WITHOUT_BEAM_SEARCH)
def test_n_best_alone_is_enough_without_beam_search(task: str, tmp_path: Path) -> None:
    page = f"task: {task}\ndata: {{corpus: {WITHOUT_BEAM_SEARCH[task]}}}\n"
    recipe = read_recipe(write_recipe(tmp_path, page))
    searches = [override_recipe(recipe, ["search.n_best=3"]).search]
    for words in (["search.n_best=3"], ["search={n_best: 3}"]):
        searches.append(read_recipe(write_recipe(tmp_path, page), words).search)
    for options in ("{n_best: 3}", "{n_best: 3, beam_width: 3}"):
        path = write_recipe(tmp_path, f"{page}search: {options}\n")
        searches.append(read_recipe(path).search)
    assert searches == [SearchOptions(n_best=3, beam_width=3)] * 5


@refuses(
    (TAGGING, "search.max_length=3", r"^search\.max_length=3: .* max_length has no effect in task"),
    (TAGGING, "search={beam_width: 2}", r"^search={beam_width: 2}: .* beam_width has no effect"),
    (
        f"{TAGGING}search:\n  seed: 1\n",
        "seed=2",
        r"small\.yaml:4: .* seed has no effect in task tag",
    ),
    (
        "task: glimpses\ndata: {corpus: digits}\n",
        "search.n_best=2",
        r"^search\.n_best=2: .* no effect",
    ),
    (TAGGING, "search.beem_width=2", r"^search\.beem_width=2: unknown key"),
)
def test_search_options_without_effect(page: Any, override: str, tmp_path: Path) -> None:
    read_recipe(write_recipe(tmp_path, page), [override])


def test_saved_recipes_with_search_options_without_effect_are_read(tmp_path: Path) -> None:
    recipe = read_recipe(write_recipe(tmp_path, TAGGING))
    recipe.search = SearchOptions(max_length=3, beam_width=2)
    saved = format_recipe(recipe)
    earlier = saved.replace("imports: []\n", "").replace("format_version: 1\n", "")
    assert len(earlier.splitlines()) == len(saved.splitlines()) - 2
    for text in (earlier, saved):
        path = write_recipe(tmp_path, text)
        assert read_recipe(path) == recipe
    with pytest.raises(ValueError, match=r"^search\.max_length=4: .* no effect in task tagging"):
        read_recipe(path, ["search.max_length=4"])


def test_no_file(tmp_path: Path) -> None:
    write_recipe(tmp_path)
    with pytest.raises(ValueError, match=r"smal\.yaml: no such recipe; did you mean .*small"):
        read_recipe(tmp_path / "smal.yaml")
    with pytest.raises(ValueError, match="is a folder"):
        read_recipe(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"task: \xe9\n")
    with pytest.raises(ValueError, match=r"latin\.yaml: is not UTF-8"):
        read_recipe(tmp_path / "latin.yaml")


def test_overrides_of_a_task_are_limited_to_its_options() -> None:
    task = Translation(None, None, None)
    override_task(task, ["search.beam_width=3", "data.max_source_length=7"])
    assert (task.search.beam_width, task.max_source_length) == (3, 7)
    for override in ("training.steps=3", "serach.beam_width=3", "data.truncate_source=true"):
        with pytest.raises(ValueError, match="unknown key"):
            override_task(task, [override])
    with pytest.raises(ValueError, match=r"data\.max_source_length must be at least 1, got 0"):
        override_task(task, ["data.max_source_length=0"])


def test_search_overrides_of_a_task_without_beam_search() -> None:
    task: Any = object.__new__(Retrieval)
    task.__dict__.update(dict.fromkeys(Retrieval.limits, 9))
    for words in (["search.n_best=3"], ["search.beam_width=3", "search.n_best=3"]):
        task.search = SearchOptions()
        override_task(task, words)
        assert task.search == SearchOptions(n_best=3, beam_width=3)
    for word in ("search.beam_width=2", "search.max_length=2"):
        with pytest.raises(ValueError, match=f"^{word}: .* has no effect in task retrieval"):
            override_task(task, [word])


def test_earlier_names_of_options_are_read(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("task: summarization\ndata: {corpus: reports, cut_source: true}\n")
    assert read_recipe(path).data.truncate_source is True

"""Exported models predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models
from attention_zoo.data.tokenizers.vocabulary import END, UNKNOWN
from attention_zoo.decoding import AllowedTokens, Automaton, SearchOptions
from attention_zoo.export import export
from attention_zoo.export.checks import EMPTY
from attention_zoo.export.modules import SearchModule
from attention_zoo.layers.attention import blockwise
from attention_zoo.layers.attention.expected_lengths import expects_long_sequences
from attention_zoo.tasks import LanguageModeling, Translation
from tests.export import test_served_glimpses, test_served_retrieval, test_served_tagging
from tests.export.alone import predict_in_tensorflow_process, run_exported_eagerly
from tests.tasks.test_language_modeling import TEXTS, make_task
from tests.tasks.translators import make_untrained_task
from tests.training import custom_task

SOURCES = [
    "a cat",
    "A dog saw the cat!",
    "кот и 犬",
    "a cat saw a dog and the dog saw a cat today .",
    "☃ cat 😀",
]
TARGETS = ["eine Katze", "ein Hund sah die Katze", "der Hund", "eine Katze sah einen Hund ."]


def translator(
    preset: str = "rnnsearch_small", kind: str = "subword", **search: Any
) -> Translation:
    return make_untrained_task(
        preset,
        SOURCES[:2],
        TARGETS,
        kind=kind,
        vocabulary_size=60,
        search=SearchOptions(**search),
        max_source_length=60,
    )


def served(folder: Path, texts: Sequence[str]) -> dict[str, np.ndarray]:
    loaded = tf.saved_model.load(str(folder))
    answers = loaded.signatures["serving_default"](text=tf.constant(list(texts), "string"))
    return {name: value.numpy() for name, value in answers.items()}


def assert_same(
    answers: dict[str, Any], task: Translation, texts: Sequence[str], **options: Any
) -> None:
    """Assert that served outputs equal those of `predict`."""
    for row, best in enumerate(task.predict(texts, **options)):
        for n, expected in enumerate((best, *best.alternatives)):
            words, length = len(expected.tokens), len(expected.token_scores)
            assert answers["text"][row][n] == expected.text
            assert answers["lengths"][row][n] == words
            assert tuple(answers["tokens"][row][n][:words]) == expected.tokens
            assert bool(answers["finished"][row][n]) is not expected.truncated
            score = answers["scores"][row][n]
            np.testing.assert_allclose(score, expected.score, rtol=1e-4, atol=1e-5)
            scores = answers["token_scores"][row][n][:length]
            last_bits = 1e-6 * np.abs(expected.token_scores).sum()  # they are differences of sums
            bound = 1e-5 + last_bits
            np.testing.assert_allclose(scores, expected.token_scores, rtol=1e-4, atol=bound)
            size = len(expected.source_tokens)
            assert tuple(answers["source_tokens"][row][:size]) == expected.source_tokens
            if expected.attention is not None:
                weights = np.array(answers["attention"][row][n])[:words, :size]
                np.testing.assert_allclose(weights, expected.attention, atol=1e-5)


def test_exports_expect_the_lengths_that_the_task_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    task, expected = translator(max_length=1), []
    search = task.model.search

    def record(*arguments: Any, **options: Any) -> Any:
        expected.append(expects_long_sequences())
        return search(*arguments, **options)

    monkeypatch.setattr(task.model, "search", record)
    for limit in (2047, 2048):
        task.set_options(max_source_length=limit)
        run_exported_eagerly(task.export_module(), SOURCES[:1])
    assert expected == [False, True]


@pytest.mark.full
@pytest.mark.parametrize("name", ["translation", "tagging"])
def test_exports_for_long_sources_are_blockwise(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: list[int] = []
    real = blockwise.attend_blockwise
    monkeypatch.setattr(blockwise, "attend_blockwise", lambda *x: blocks.append(1) or real(*x))
    if name == "translation":
        task = translator("transformer_tiny", max_length=8)
        task.set_options(max_source_length=2048)
        folder = export(task, tmp_path / "export")
        assert blocks
        assert_same(read(served(folder, SOURCES)), task, SOURCES)
        return
    task = test_served_tagging.task("self-attention")
    for limit in (2047, 2048):
        monkeypatch.setattr(task, "max_length", limit)
        blocks.clear()
        task.export_module().make_signatures()["serving_default"].get_concrete_function()
        assert bool(blocks) == (limit == 2048)


def read(answers: dict[str, np.ndarray]) -> dict[str, Any]:
    """Strings instead of bytes."""
    decode = np.vectorize(bytes.decode, otypes=[object])
    return {name: decode(x) if x.dtype == object else x for name, x in answers.items()}


@pytest.fixture(scope="module")
def exported_outputs() -> dict[str, tuple[Any, list[str], Any]]:
    """Tasks, texts and outputs of the exported modules, run eagerly."""
    tasks = {
        "translation": (translator(max_length=2), SOURCES[:2]),
        "language_modeling": (
            replace_search(make_task("word"), max_length=3, forced_tokens={1: END}),
            TEXTS[:1],
        ),
    }
    return {
        name: (task, texts, run_exported_eagerly(task.export_module(), texts)[0])
        for name, (task, texts) in tasks.items()
    }


@pytest.mark.parametrize("name", ["translation", "language_modeling"])
def test_the_exported_module_equals_the_task(
    name: str, exported_outputs: dict[str, tuple[Any, list[str], Any]]
) -> None:
    task, texts, answers = exported_outputs[name]
    assert_same(answers, task, texts)


@pytest.mark.full
def test_tensorflow_process_predicts_like_the_task(tmp_path: Path) -> None:
    task = translator(beam_width=3, n_best=2, length_penalty="average")
    folder = export(task, tmp_path / "served")
    ((answers, _),) = predict_in_tensorflow_process([folder], [SOURCES])[0]
    assert_same(answers, task, SOURCES)


CASES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "words": {
        "kind": "word",
        "replace_unknown": True,
        "beam_width": 2,
        "n_best": 2,
        "forced_tokens": {0: UNKNOWN, 2: UNKNOWN},
    },
    "characters": {"kind": "character", "max_length": 9, "min_length": 3},
    "subwords, unknown replaced": {"replace_unknown": True, "forced_tokens": {1: UNKNOWN}},
    "rules": {"beam_width": 3, "no_repeat_ngram": 2, "coverage_penalty": 0.4, "seed": 0},
    "samples": {"method": "sampling", "beam_width": 2, "n_best": 2, "top_p": 0.9, "seed": 5},
    "contrast": {"method": "contrastive", "max_length_ratio": 1.5},
    "diverse": {"method": "diverse_beam", "beam_width": 4, "groups": 2, "n_best": 3},
    "tokens": {
        "prefix_tokens": (5, 9),
        "forced_tokens": {3: 7},
        "banned_tokens": (4, 6),
        "repetition_penalty": 1.7,
    },
    "filters": {
        "method": "sampling",
        "temperature": 0.8,
        "top_k": 9,
        "min_p": 0.02,
        "seed": 2**32 - 1,
    },
    "Transformer": {"preset": "transformer_tiny", "beam_width": 3, "n_best": 2},
    "no attention": {"preset": "seq2seq_initial_small", "beam_width": 2},
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_every_search_option_is_exported(name: str, tmp_path: Path) -> None:
    task = translator(**CASES[name])
    folder = export(task, tmp_path / "served")
    for texts in (SOURCES, SOURCES[3:]):
        assert_same(read(served(folder, texts)), task, texts)
    nothing = served(folder, [])
    for part in ("text", "scores", "lengths", "finished"):
        assert nothing[part].shape == (0, task.search.n_best)
    assert nothing["tokens"].shape == (0, task.search.n_best, 0)
    assert nothing["source_tokens"].size == 0
    assert task.predict([]) == []


@pytest.mark.full
def test_rules_are_exported(tmp_path: Path) -> None:
    task = translator(beam_width=2, max_length=5)
    size = task.target_tokenizer.vocabulary_size
    table = np.full((2, size), -1)
    table[0, 7], table[1, 9], table[1, 3] = 1, 0, 0  # 7 9 7 9 ..., the end after a 7
    rules = [Automaton(table)]
    answers = read(served(export(task, tmp_path / "served", rules=rules), SOURCES))
    expected = task.predict(SOURCES, rules=rules)
    assert [row[0] for row in answers["text"]] == [answer.text for answer in expected]
    seven, nine = (task.target_tokenizer.tokens([one])[0] for one in (7, 9))
    for answer in expected:
        assert answer.tokens in [(seven,), (seven, nine, seven), (seven, nine) * 2 + (seven,)]
    with pytest.raises(ValueError, match="rules: AllowedTokens depends on the sources of a"):
        export(task, tmp_path / "new", rules=[AllowedTokens(np.ones((5, size), bool))])
    assert [path.name for path in tmp_path.iterdir()] == ["served"]


@pytest.mark.full
def test_an_ensemble_is_exported(tmp_path: Path) -> None:
    one, two = translator(), translator("luong_small")
    both = models.Ensemble([one.model, two.model])
    task = Translation(both, one.source_tokenizer, one.target_tokenizer)
    assert_same(read(served(export(task, tmp_path / "both"), SOURCES)), task, SOURCES)


@pytest.mark.full
def test_relative_positions_are_exported(tmp_path: Path) -> None:
    task = translator("transformer_tiny", beam_width=2, n_best=2, max_length=6)
    task.model = models.Transformer(
        **task.model.settings | {"positions": "rotary", "num_layers": 1}
    )
    for seed, weight in enumerate(task.model.weights):
        weight.assign(np.random.default_rng(seed).normal(size=weight.shape).astype("float32"))
    task.save(tmp_path / "task")
    again = Translation.load(tmp_path / "task")
    assert again.model.settings["positions"] == "rotary"
    answers = read(served(export(again, tmp_path / "served"), SOURCES))
    assert_same(answers, task, SOURCES)


@pytest.mark.full
def test_optional_inputs(tmp_path: Path) -> None:
    search = {"method": "sampling", "beam_width": 2, "n_best": 2, "seed": 5}
    task = translator(**search)
    folder = export(task, tmp_path / "served")
    loaded = tf.saved_model.load(str(folder))
    texts, values = tf.constant(SOURCES), {"seed": 7, "max_length": 4, "temperature": 0.5}
    values |= {"prefixes": ["eine Katze", "", "", "", "ein"]}
    for given in ({}, {"seed": 7}, {"max_length": 3}, values):
        tensors = {name: tf.constant(value) for name, value in given.items()}
        if "seed" in tensors:
            tensors["seed"] = tf.cast(tensors["seed"], "int64")
        answers = {name: x.numpy() for name, x in loaded.serve(texts, **tensors).items()}
        assert_same(read(answers), task, SOURCES, **given)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:  # as TensorFlow Serving runs it
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        signature = graph.signature_def["serve_with_options"]
        assert sorted(signature.defaults) == ["max_length", "prefixes", "seed", "temperature"]
        feed = {signature.inputs["text"].name: SOURCES}
        (texts,) = session.run([signature.outputs["text"].name], feed)
    assert read({"text": texts})["text"][:, 0].tolist() == [x.text for x in task.predict(SOURCES)]


def test_invalid_prefixes() -> None:
    task = translator(max_length=3)
    module = task.export_module()
    prefixes = ["eine", "Zanzibar", "eine " * 4, ""]
    answers = module.serve(tf.constant(["a cat"] * 4), prefixes=tf.constant(prefixes))
    assert answers["ok"].numpy().tolist() == [True, False, False, True]
    unknown, long = answers["error"].numpy()[1:3].tolist()
    message = (
        b"the prefix has words that are not in the target vocabulary (remove or replace them): "
    )
    assert unknown.startswith(message)
    assert long == b"the prefix has 4 tokens, but the length limit is 3. Raise max_length."
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected one prefix for each of"):
        module.serve(tf.constant(["a cat"] * 2), prefixes=tf.constant(["eine"]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("seed", 2**32 + 3),
        ("temperature", 0.0),
        ("temperature", 1e-30),
        ("temperature", np.inf),
        ("temperature", np.nan),
    ],
)
def test_served_options_have_the_ranges_of_search_options(name: str, value: float) -> None:
    module: Any = SimpleNamespace(_options=SearchOptions(method="sampling"))
    values = {"max_length": tf.constant(0), "seed": tf.constant(7, tf.int64)}
    values |= {"temperature": tf.constant(0.5)}
    options = SearchModule._make_options(module, values)
    assert (int(options.seed), float(options.temperature)) == (7, 0.5)
    values[name] = tf.constant(value, values[name].dtype)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be from "):
        SearchModule._make_options(module, values)


def test_input_that_predict_rejects_does_not_affect_other_rows() -> None:
    task = translator("seq2seq_initial_small", max_length=3)
    texts = ["  ", "a cat", "cat " * 61, ""]
    answers, _ = run_exported_eagerly(task.export_module(), texts)
    assert answers["ok"] == [False, True, False, False]
    assert answers["error"][:3] == [EMPTY, "", "61 tokens, the limit is 60. Shorten the text."]
    assert_same({name: rows[1:2] for name, rows in answers.items()}, task, texts[1:2])
    assert answers["text"][2:] == [[""], [""]]
    assert answers["scores"][2:] == [[-np.inf], [-np.inf]]


def test_invalid_weights_are_an_error() -> None:
    task = translator("seq2seq_initial_small", max_length=3)
    task.model.weights[0].assign(np.full(task.model.weights[0].shape, np.nan))
    answers, _ = run_exported_eagerly(task.export_module(), ["a cat"])
    assert answers["ok"] == [False]
    assert answers["error"][0].startswith("the model returned NaN or +inf logits")
    assert (answers["text"], answers["scores"]) == ([[""]], [[-np.inf]])


@pytest.mark.full
def test_failed_export_leaves_no_folder(tmp_path: Path) -> None:
    task = translator("seq2seq_initial_small")
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match=r"there: already exists; choose another"):
        export(task, tmp_path / "there")
    with pytest.raises(ValueError, match="unknown export format 'onx'"):
        export(task, tmp_path / "new", format="onx")
    task.search = SearchOptions(replace_unknown=True)
    with pytest.raises(ValueError, match=r"^replace_unknown needs attention, but step returns"):
        export(task, tmp_path / "deep" / "new")
    task.source_tokenizer.__class__ = type("Own", (type(task.source_tokenizer),), {})
    with pytest.raises(ValueError, match="tokenizer Own cannot be exported"):
        export(task, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_task_without_export_raises(tmp_path: Path) -> None:
    task = custom_task.Regression(keras.Sequential())
    with pytest.raises(ValueError, match="task regression does not support export"):
        export(task, tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "task",
    [
        test_served_glimpses.task("grey"),
        test_served_retrieval.task("words attend"),
        test_served_tagging.task("subwords"),
    ],
    ids=lambda task: task.name,
)
def test_rules_of_tasks_without_search_raise(task: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^task {task.name} has no search, but got 1 rules"):
        export(task, tmp_path / "new", rules=[Automaton(np.zeros((1, 9), int))])
    assert not list(tmp_path.iterdir())


WRITERS: dict[str, tuple[str, dict[str, Any]]] = {
    "words": ("word", {"beam_width": 3, "n_best": 2, "length_penalty": "average"}),
    "subwords": ("subword", {"max_length": 6}),
    "characters": (
        "character",
        {"method": "sampling", "beam_width": 2, "n_best": 2, "seed": 3, "max_length": 7},
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", WRITERS)
def test_language_model_continues_texts(tmp_path: Path, name: str) -> None:
    kind, search = WRITERS[name]
    task = replace_search(make_task(kind), **search)
    texts = [*TEXTS[:4], "a bird"]
    answers = read(served(export(task, tmp_path / "served"), texts))
    assert_same(answers, task, texts)


@pytest.mark.full
def test_prompts_over_the_limit_are_errors(tmp_path: Path) -> None:
    folder = export(replace_search(make_task(), max_length=20), tmp_path / "served")
    for length, message in ((20, "20 tokens, the limit is 19"), (13, "33 tokens with its contin")):
        answers = read(served(folder, ["a cat", " ".join(["cat"] * length)]))
        assert answers["ok"].tolist() == [True, False]
        assert message in answers["error"][1]


def replace_search(task: LanguageModeling, **search: Any) -> LanguageModeling:
    return LanguageModeling(task.model, task.tokenizer, SearchOptions(**search), task.max_length)

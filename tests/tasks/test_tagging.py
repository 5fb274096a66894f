"""Tagging: alignment of words, tokens, tags and character offsets."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models, tasks, training
from attention_zoo.data import TaggedSentences, generate_orders, train_tokenizer
from attention_zoo.layers.attention import blockwise
from attention_zoo.layers.attention import steps as attention_steps
from attention_zoo.tasks import TaggedSpan, Tagging, TaggingResult
from attention_zoo.tasks.inference import Inference
from attention_zoo.tasks.tagging import result as tagging_result
from attention_zoo.tasks.tagging import task as tagging_task
from attention_zoo.tasks.tagging import words as tagging_words
from attention_zoo.tasks.tagging.result import TaggerInference
from attention_zoo.tasks.tagging.words import WordEncoder, split_source
from attention_zoo.training import read_recipe
from attention_zoo.training.fine_tuning import load_initial_task
from tests.cli.test_main import Capture, output, refused
from tests.refusals import refuses
from tests.training.small import assert_same_run

CORPUS = TaggedSentences(
    [("Ida", "Lamp", "saw", "New", "York", "."), ("no", "lamps"), ("York",), ("Ida",) * 9],
    [("B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O"), ("O", "O"), ("B-LOC",), ("B-PER", *["O"] * 8)],
    "test sentences",
    marks=[(False, False, True, False, False, False), (False, True), (True,), (False,) * 9],
)
WORDS = [word for words in CORPUS.words for word in words]
TEXT = "Ida Lamp saw  York, no?"
CRF = {"kind": "crf", "tag_scheme": "BIO"}


@functools.cache
def tagger(
    kind: str = "whitespace", characters: bool = False, attention: bool = False, **options: Any
) -> Tagging:
    """Return a small tagger with random weights; tests must not change it."""
    tokenizer = train_tokenizer(kind, WORDS, 40)
    letters = train_tokenizer("character", WORDS, 40) if characters else None
    sizes: dict[str, Any] = {"embedding_dim": 8, "units": 8}
    if letters is not None:
        own = {"vocabulary_size": letters.vocabulary_size, "embedding_dim": 4, "units": 4}
        sizes["characters"] = own
    if attention:
        sizes["attention"] = {"num_heads": 2, "key_dim": 4}
    task = {name: options.pop(name) for name in ("scheme", "max_length") if name in options}
    if "head" in options:
        options["head"] = dict(options["head"])
    with keras.device("cpu"):
        keras.utils.set_random_seed(3)
        model = models.RecurrentTagger(
            tokenizer.vocabulary_size, tags=CORPUS.known_tags, **sizes, **options
        )
    return Tagging(model, tokenizer, letters, **task)


def describe(answer: TaggingResult) -> tuple[Any, ...]:
    return answer.text, answer.tags, pytest.approx(answer.score, abs=1e-4)


@pytest.mark.parametrize("kind", ["whitespace", "subword", "word", "character"])
def test_batches_align_words_and_tags(kind: str) -> None:
    task = tagger(kind)
    (answer,) = task.predict([TEXT])
    assert answer.words == ("Ida", "Lamp", "saw", "York", ",", "no", "?")
    assert tuple(TEXT[a:b] for a, b in answer.offsets) == answer.words
    assert len(answer.tags) == len(answer.probabilities) == 7
    assert set(answer.tags) <= set(CORPUS.known_tags)
    assert answer.text == " ".join(map("/".join, zip(answer.words, answer.tags, strict=True)))
    batch, labels = task.make_batches(CORPUS, 4, 1).make_batch(np.arange(4))
    assert ("starts" in batch) == (kind in ("subword", "character"))
    tokens = batch["tokens"]
    starts = batch.get("starts", np.arange(1, labels.shape[1] + 1) * (labels >= 0))
    for row, (words, tags) in enumerate(zip(CORPUS.words, CORPUS.tags, strict=True)):
        live = labels[row] >= 0
        assert [task.tags[tag] for tag in labels[row, live]] == list(tags)
        ends = [*(starts[row, live][1:] - 1), (tokens[row] != 0).sum()]
        for word, start, end in zip(words, starts[row, live], ends, strict=True):
            ids = tokens[row, start - 1 : end].tolist()
            assert ids == task.tokenizer.encode([word])[0]


def test_lists_of_words_are_not_split() -> None:
    task = tagger(scheme="BIO")
    words = ["New York", "didn't", "York"]
    (answer,) = task.predict([words])
    assert answer.words == tuple(words)
    assert answer.offsets == ((0, 8), (9, 15), (16, 20))
    assert len(answer.tags) == 3
    assert answer.source_tokens == ("New", "York", "<unk>", "York")
    assert answer.unknown == (2,)
    for span in answer.spans:
        assert "New York didn't York"[span.start : span.end] == span.text


def test_character_ids_of_each_token() -> None:
    task = tagger(characters=True)
    for words in (["saw", "New York", "ↄ"], ["\u2581", "a\u3000York"]):
        (encoded,) = task._encoder.encode([words])
        parts = [part for word in words for part in word.split()]
        letters = [task.characters.encode([part])[0] or [1] for part in parts]
        assert encoded.characters == letters
        assert len(encoded.tokens) == len(letters)
    assert [a.unknown for a in task.predict([["saw", "was", "wⓧw"]])] == [(2,)]
    assert task.find_unknown_characters("Lamp ⓧ") == ["ⓧ"]


def test_white_space_other_than_separators_is_a_word() -> None:
    words = ["saw", "\u00a0", "\u3000"]
    assert [word.text for word in split_source(words, "source 0")[1]] == words


@pytest.mark.full
def test_scores_and_probabilities_equal_those_of_all_sequences() -> None:
    for head in (("crf", None), ("crf", "BIO"), ("softmax", None), ("softmax", "BIO")):
        task = tagger(head=(("kind", head[0]), ("tag_scheme", head[1])))
        many = 5**2 if head[1] is None else 3 + 4 + 4
        (answer,) = task.predict([["Ida", "York"]], n_best=25)
        found = [answer, *answer.alternatives]
        assert len(found) == many
        scores = np.array([one.score for one in found])
        assert (np.diff(scores) <= 1e-6).all()
        assert np.exp(scores).sum() == pytest.approx(1, abs=1e-4)
        for position, tag in enumerate(answer.tags):
            same = [one.tags[position] == tag for one in found]
            assert answer.probabilities[position] == pytest.approx(
                np.exp(scores[same]).sum(), abs=1e-4
            )
        if head[1] is not None:
            assert not any(one.tags[0].startswith("I-") for one in found)


def test_spans_have_character_offsets() -> None:
    from attention_zoo.tasks.tagging.result import make_result

    task = tagger()
    (source,) = task._encode_sources([TEXT])
    tags = ["B-PER", "I-PER", "O", "B-LOC", "O", "I-LOC", "O"]
    ids = [task.tags.index(tag) for tag in tags]
    likely = np.full((8, 5), 0.9)
    likely[1] = 0.25
    found = {"tags": np.array([[*ids, 0]] * 2), "scores": [-1.0, -np.inf], "marginals": likely}
    result = make_result(source, found, task.tags, "BIO")
    assert result.text == "[Ida Lamp](PER) saw  [York](LOC), [no](LOC)?"
    first, *others = result.spans
    assert first == TaggedSpan("Ida Lamp", "PER", 0, 8, 0.25)
    assert others == [TaggedSpan("York", "LOC", 14, 18, 0.9), TaggedSpan("no", "LOC", 20, 22, 0.9)]
    assert result.tags == tuple(tags)
    assert result.alternatives == ()


def test_attention_excludes_padding() -> None:
    task = tagger("subword", attention=True)
    long, short = task.predict([TEXT, "York"])
    for answer in (long, short):
        assert answer.attention is not None
        size = len(answer.source_tokens)
        assert answer.attention.shape == (1, 2, size, size)
        np.testing.assert_allclose(answer.attention.sum(-1), 1, atol=1e-5)


@pytest.mark.full
def test_long_sentences_are_attended_blockwise(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int] = []
    real = blockwise.attend_blockwise
    monkeypatch.setattr(blockwise, "attend_blockwise", lambda *x: blocks.append(1) or real(*x))
    monkeypatch.setattr(attention_steps, "BLOCKWISE_MIN_SCORES", 20**2)
    task, counts = tagger(attention=True), []
    task.warm_up([1], [4])
    for length in (5, 30, 40, 6):  # widths are rounded up
        before = len(blocks)
        task.predict([" ".join(["York"] * length)], attention=False)
        counts.append(len(blocks) - before)
    assert [count > 0 for count in counts] == [False, True, True, False]


def test_attention_is_optional() -> None:
    task = tagger("subword", attention=True)
    inputs, _ = task.make_batches(CORPUS, 2, 1).get_batch(0)
    assert set(TaggerInference(task.model)(inputs)) == {"tags", "scores", "marginals"}
    assert task.predict([TEXT], attention=False)[0].attention is None
    assert tagger().predict([TEXT])[0].attention is None


@functools.cache
def windowed(window: int | None, max_length: int = 60, **options: Any) -> Tagging:
    """Return a small BERT tagger with random weights; tests must not change it."""
    tokenizer = train_tokenizer("whitespace", WORDS, 40)
    bert = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1, "use_pooler": False}
    bert |= {"vocabulary_size": tokenizer.vocabulary_size, "max_length": max_length}
    with keras.device("cpu"):
        keras.utils.set_random_seed(3)
        model = models.TransformerTagger(bert, CORPUS.known_tags, window=window, **options)
    return Tagging(model, tokenizer, max_length=1000)


def test_sentences_of_one_window_have_attention_whatever_else_is_in_the_batch() -> None:
    """49 to 51 tokens are padded to 56."""
    sizes = (51, 49, 50, 51)
    results = windowed(50).predict([["York"] * size for size in sizes])
    for size, result in zip(sizes, results, strict=True):
        assert len(result.words) == size
        if size > 50:
            assert result.attention is None
        else:
            assert result.attention.shape == (1, 2, size, size)
            np.testing.assert_allclose(result.attention.sum(-1), 1, atol=1e-5)


def test_attention_of_split_sentences_cannot_be_plotted() -> None:
    task = windowed(50)
    (result,) = task.predict([["York"] * 51])
    with pytest.raises(ValueError, match=r"^the result has no attention .* 51 tokens exceed windo"):
        task.plot(result)
    (result,) = task.predict([["York"]], attention=False)
    with pytest.raises(
        ValueError, match=r"^the result has no attention weights to plot; use a mod"
    ):
        task.plot(result)


def test_sentences_without_windows_are_limited() -> None:
    with pytest.raises(ValueError, match=r"source 0: 61 tokens, .* 60 positions; .* model\.window"):
        windowed(None).predict([["York"] * 61])


def test_long_sentences_are_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of words decides, not of tokens: eager loops over words are slow."""
    compiled = []
    monkeypatch.setattr(tagging_result, "MAX_EAGER_WORDS", 16)
    monkeypatch.setattr(Inference, "run", lambda self, x, flag: compiled.append(flag) or {})
    inference = TaggerInference(tagger("subword").model)
    for words, tokens in ((16, 40), (17, 40), (None, 16), (None, 17)):
        inputs = {"tokens": np.ones((1, tokens), "int32")}
        if words is not None:
            inputs["starts"] = np.ones((1, words), "int32")
        inference.run(inputs, compiled=False)
    assert compiled == [False, True, False, True]


def test_the_command_line_requests_attention_only_to_show_it(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, requests, file = tagger("subword", attention=True), [], tmp_path / "in.txt"
    file.write_text("Ida Lamp saw York")

    def predict(texts: list[str], **options: Any) -> list[TaggingResult]:
        requests.append(options)
        return Tagging.predict(task, texts, **options)

    monkeypatch.setattr(task, "predict", predict)
    monkeypatch.setattr(tasks, "load", lambda *_: task)
    output(capsys, "predict", "./run", file)
    output(capsys, "predict", "./run", file, "--html", tmp_path / "page.html")
    assert [one["attention"] for one in requests] == [False, True]


def test_marked_words() -> None:
    task = tagger("subword", marks=True)
    one, other = task.predict([TEXT, TEXT], marks=[[2], []])
    assert one.score != pytest.approx(other.score, abs=1e-6)
    batch, labels = task.make_batches(CORPUS, 4, 1).make_batch(np.arange(4))
    sizes = [len(ids) for ids in task.tokenizer.encode(CORPUS.words[0])]
    marked = np.repeat(np.array(CORPUS.marks[0], "int32"), sizes)
    assert batch["marks"][0, : sum(sizes)].tolist() == marked.tolist()
    assert task.evaluate(CORPUS)["words"] == (labels >= 0).sum()


def test_marks_may_be_any_iterable() -> None:
    task = tagger("subword", marks=True)
    marks: list[Any] = [[2], map(int, ["2"]), (n for n in [2]), {2}, np.array([2, 2]), [], []]
    *marked, unmarked, failed = task.predict([*[TEXT] * 6, ""], marks=marks, on_error="skip")
    scores = [result.score for result in marked]
    assert scores == pytest.approx([scores[0]] * 5, abs=1e-6)
    assert scores[0] != pytest.approx(unmarked.score, abs=1e-6)
    assert not failed.ok


def test_words_may_be_any_iterable() -> None:
    words = ["no", "York"]
    result, failed = tagger().predict([iter(words), ""], on_error="skip")
    assert result.words == tagger().predict([np.array(words)])[0].words == tuple(words)
    assert not failed.ok


@refuses(
    ([[True, False, False]], "^source 0: marks must be an integer of at least 0, got True"),
    (
        [np.array([False, True])],
        r"^source 0: marks must be an integer of at least 0, got (np\.)?False",
    ),
    ([[1.5]], "^source 0: marks must be an integer of at least 0, got 1.5"),
    ([["1"]], "^source 0: marks must be an integer of at least 0, got '1'"),
    ([[-1]], "^source 0: marks must be at least 0, got -1"),
    ([2], "^source 0: marks must be a list of word indices, got 2"),
    ([None], "^source 0: marks must be a list of word indices, got None"),
    (["1"], "^source 0: marks must be a list of word indices, got '1'"),
    ([np.array(1)], r"^source 0: marks must be a list of word indices, got array\(1\)"),
    (5, "^marks must be a list of lists of word indices, got 5"),
    ({0: [1]}, r"^marks must be a list of lists of word indices, got {0: \[1\]}"),
)
def test_marks_are_refused(marks: Any) -> None:
    tagger("subword", marks=True).predict([TEXT], marks=marks)


def test_invalid_marks_raise() -> None:
    task = tagger("subword", marks=True)
    for marks, message in (
        (
            None,
            "marks: the model takes marked words; pass their indices for each of the 1 sentences",
        ),
        ([[7]], "^source 0: marks must be from 0 to 6, got 7"),
        ([], "for each of the 1 sentences"),
    ):
        with pytest.raises(ValueError, match=message):
            task.predict([TEXT], marks=marks)
    with pytest.raises(ValueError, match="takes marked words, which a line of text does not cont"):
        task.check_sources([TEXT])
    plain = TaggedSentences([("a",)], [("O",)], "here")
    with pytest.raises(ValueError, match=r"here: .* but the corpus has no marks; set their column"):
        task.make_batches(plain, 1, 1)
    with pytest.raises(ValueError, match="marks must be None for a model that takes no marks"):
        tagger().predict([TEXT], marks=[[0]])


@refuses(
    ("York", {}, r"write predict\(\[text\]\)"),
    (["York", ""], {}, "^source 1: the text is empty"),
    ([" \u3000\n"], {}, "^source 0: the text is empty"),
    ([[]], {}, "^source 0: the text is empty"),
    ([["York", " "]], {}, "^source 0: word 1 must be a non-blank string, got ' '"),
    ([["York", 3]], {}, "^source 0: word 1 must be a non-blank string, got 3"),
    (["York " * 31], {}, "^source 0: 31 words, the limit is 30; shorten it or raise"),
    (["York"], {"beam_with": 3}, "option 'beam_with'; did you mean 'beam_width'"),
)
def test_invalid_input_raises(texts: Any, options: Any) -> None:
    tagger(max_length=30).predict(texts, **options)


@pytest.mark.full
def test_metrics_equal_those_of_the_predictions() -> None:
    task = tagger(scheme="BIO")
    report = task.evaluate(CORPUS, batch_size=2)
    answers = task.predict(CORPUS.words)
    pairs = [
        one == other
        for answer, tags in zip(answers, CORPUS.tags, strict=True)
        for one, other in zip(answer.tags, tags, strict=True)
    ]
    assert (report["sentences"], report["words"]) == (4, len(pairs))
    assert report["accuracy"] == pytest.approx(100 * np.mean(pairs))
    assert set(task.metric_names) < report.keys()
    assert task.metric_names[0] == "f1"
    assert {group["label"] for group in report["by_label"]} == {"LOC", "PER"}
    plain = tagger()
    assert plain.metric_names == ("accuracy",)
    assert plain.evaluate(CORPUS).keys() == {"sentences", "words", "unknown", "accuracy"}
    assert plain.evaluate(CORPUS)["accuracy"] == report["accuracy"]


def test_tags_that_break_the_scheme_are_scored_and_not_trained_on() -> None:
    broken = TaggedSentences([("a",), ("York", "b")], [("O",), ("O", "I-LOC")], "here")
    free, bound = (
        tagger(scheme="BIO", head=(("kind", kind), ("tag_scheme", "BIO")))
        for kind in ("softmax", "crf")
    )
    for task in (free, bound):
        report = task.evaluate(broken)
        assert report["invalid"] == 0
        assert sum(group["expected"] for group in report["by_label"]) == 1
    assert len(free.make_batches(broken, 2, 1)) == 2
    with pytest.raises(ValueError, match="here:2, word 2: 'I-LOC' may not come after 'O' in BIO"):
        bound.make_batches(broken, 2, 1)


def test_long_sentences_and_unknown_tags() -> None:
    task = tagger(max_length=5)
    assert task.make_batches(CORPUS, 2, seed=1).get_example_numbers(0)[0] in (2, 3)
    assert task.filter_by_length(CORPUS).words == [("no", "lamps"), ("York",)]
    with pytest.raises(ValueError, match="test sentences:1: 6 words, the limit is 5"):
        task.evaluate(CORPUS)
    with pytest.raises(ValueError, match="none of its 1 sentences fits into 5 words; raise"):
        task.make_batches(CORPUS.take([3]), 2, seed=1)
    other = TaggedSentences([("a", "b")], [("O", "B-LOK")], "here", word_lines=[(7, 9)])
    for work in (task.evaluate, lambda examples: task.make_batches(examples, 1, 1)):
        with pytest.raises(ValueError, match=r"^here:9: unknown tag 'B-LOK'; .* mean 'B-LOC'"):
            work(other)


LARGE = train_tokenizer("whitespace", [*WORDS, "more", "words"], 60)
LETTERS = train_tokenizer("character", ["abcdefghijklmnopqrstuvwxyz", "0123456789"], 60)


@refuses(
    ({"model": keras.layers.Dense(3)}, "model must be a models.Tagger, got Dense"),
    ({"characters": None}, "characters must be a tokenizer for a model that takes characters"),
    ({"model": tagger().model}, "characters must be None for a model that takes no characters"),
    (
        {"tokenizer": tagger("word").tokenizer},
        r"needs tokenizers of the kinds whitespace .*, got word instead of whitespace",
    ),
    ({"tokenizer": LARGE}, f"has {LARGE.vocabulary_size} tokens, but the model's voc"),
    ({"characters": LETTERS}, f"has {LETTERS.vocabulary_size} characters, but the model's voc"),
    ({"scheme": "BMES"}, r"'B-LOC' is not a BMES tag|'I-LOC' is not a BMES tag"),
)
def test_unsuitable_models_and_tokenizers_raise(given: dict[str, Any]) -> None:
    task = tagger(characters=True)
    parts = {"model": task.model, "tokenizer": task.tokenizer, "characters": task.characters}
    Tagging(**parts | given)


def test_damaged_character_vocabulary_raises(tmp_path: Path) -> None:
    tagger(characters=True).save(tmp_path)
    (tmp_path / "characters" / "vocabulary.txt").write_text("x")
    with pytest.raises(ValueError, match=r"vocabulary\.txt:1: "):
        tasks.load(tmp_path)


RECIPE = """\
task: tagging
data: {corpus: orders, size: 60, validation_size: 12, test_size: 10, max_items: 1, max_length: 40}
model: {preset: bilstm_cnn_crf_constrained, embedding_dim: 8, units: 16,
  characters: {embedding_dim: 4, units: 4}, word_dropout: 0.1}
training: {steps: 2, evaluate_every: 2, batch_size: 30, learning_rate: 0.01, monitor: f1}
"""


def write_recipe(folder: Path, text: str = RECIPE) -> Path:
    (folder / "recipe.yaml").write_text(text)
    return folder / "recipe.yaml"


def test_evaluation_of_a_run(tmp_path: Path) -> None:
    """Search options of a recipe that do not affect taggers are no error, as overrides they are."""
    path = write_recipe(tmp_path)
    recipe = read_recipe(path, ["model.preset=bilstm_cnn", "model.characters=null"])
    Tagging.from_recipe(recipe, recipe.data.read("test")).save(tmp_path)
    assert training.evaluate(tmp_path, ["search.batch_size=10"])["metrics"]["sentences"] == 10
    for option in ("max_length", "n_best"):
        message = (
            f"search option {option} has no effect in the evaluation of task tagging; remove it"
        )
        with pytest.raises(ValueError, match=message):
            training.evaluate(tmp_path, [f"search.{option}=3"])


@pytest.mark.full
def test_training_run_from_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    run, file = tmp_path / "run", tmp_path / "in.txt"
    small = ["model.preset=bilstm_cnn", "model.characters=null"]
    out = output(capsys, "train", write_recipe(tmp_path), f"run={run}", *small)
    assert "60 training sentences, 12 validation sentences" in out
    out = output(capsys, "evaluate", run)
    assert "\ninvalid       " in out
    assert "\n  label ITEM  precision " in out
    (entry,) = json.loads((run / "results.json").read_text())["evaluations"]
    assert entry["metrics"]["sentences"] == 10
    lines = [" ".join(words) for words in generate_orders(3, "test", max_items=1).words]
    file.write_text("\n".join(lines))
    words = ["--n-best", "search.n_best=2", "--html", str(tmp_path / "page.html")]
    out = output(capsys, "predict", run, file, "--allow-unknown", *words)
    found = [line.split("\t") for line in out.splitlines()]
    expected = tasks.load(run).predict(lines)
    assert [text for _, _, text in found[::2]] == [answer.text for answer in expected]
    assert len(found) == 6
    assert "SENDER" in (tmp_path / "page.html").read_text()
    assert "in.txt:1: " in refused(capsys, "predict", run, file, "data.max_length=9", "--strict")


def test_fine_tuning_keeps_weights_tokenizers_and_tags(tmp_path: Path) -> None:
    recipe = read_recipe(write_recipe(tmp_path))
    first = Tagging.from_recipe(recipe, recipe.data.read("train"))
    first.save(tmp_path / "first")
    words = [f"init={tmp_path / 'first'}", "model.dropout=0.1"]
    tuned = load_initial_task(read_recipe(write_recipe(tmp_path), words))
    assert tuned.tags == first.tags
    assert tuned.characters.vocabulary == first.characters.vocabulary
    assert tuned.model.settings["dropout"] == 0.1
    text = "Ida Lamp sends two red kettles."
    assert describe(tuned.predict([text])[0]) == describe(first.predict([text])[0])
    with pytest.raises(ValueError, match=r"model\.characters=.* use another init"):
        load_initial_task(read_recipe(write_recipe(tmp_path), [*words, "model.characters.units=5"]))


@pytest.mark.full
def test_compiled_evaluation_equals_the_eager_one(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tagger("subword", scheme="BIO")
    one = task.evaluate(CORPUS)
    monkeypatch.setattr(tagging_task, "MAX_EAGER_INPUTS", 3)
    assert task.evaluate(CORPUS) == one


@pytest.mark.slow
def test_run_resumes_exactly(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    overrides = ["training.evaluate_every=1", "training.accumulate=2", "model.preset=bilstm_cnn"]
    training.fit(recipe, [f"run={uninterrupted}", *overrides])
    for steps in (1, 2):
        options = [f"run={resumed}", *overrides, f"training.steps={steps}"]
        training.fit(recipe, options, allow=["training.steps"])
    assert_same_run(uninterrupted, resumed)


@pytest.mark.slow
def test_small_run_learns(tmp_path: Path) -> None:
    options = ["data.size=600", "training.steps=150", "training.evaluate_every=75"]
    options += ["training.batch_size=16", "data.max_items=2"]
    options += ["model.characters=null", "model.embedding_dim=24", "model.units=32"]
    result = training.fit(write_recipe(tmp_path), [f"run={tmp_path / 'run'}", *options])
    assert result.best is not None
    assert result.best > 70


def test_word_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids do not depend on it, and one call with more words leaves nothing in it."""
    texts = ["a bb c", "bb dd", "c e ff a"]
    characters = train_tokenizer("character", texts)
    encoder = WordEncoder(train_tokenizer("whitespace", texts), characters)
    sentences = [text.split() for text in texts]
    expected = encoder.encode(sentences)
    monkeypatch.setattr(tagging_words, "MAX_CACHED_WORDS", 3)
    encoder = WordEncoder(encoder.tokenizer, characters)
    assert [encoder.encode([sentence])[0] for sentence in sentences] == expected
    assert len(encoder._cache) <= 3
    assert encoder.encode(sentences) == expected
    assert len(encoder._cache) <= 3

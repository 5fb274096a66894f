"""Masked language modeling: predictions, evaluation by hand, files and training runs."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models, tasks, training
from attention_zoo.cli import predict
from attention_zoo.data import TextLines, load_tokenizer, train_tokenizer
from attention_zoo.tasks import FillMaskResult, MaskedLanguageModeling
from attention_zoo.tasks.masked_language_modeling.task import MASK
from tests.cli.test_main import Capture, output, refused
from tests.models.public.checkpoints import GOLDEN, expected
from tests.refusals import refuses
from tests.tasks.captioners import with_normal_weights
from tests.training.small import assert_same_run

TEXTS = ["a cat", "a dog saw the cat", "the dog", "a cat saw a dog and the dog saw a cat ."]
MASKED = [MASK, f"a {MASK} saw the cat", f"the {MASK} {MASK} a cat", f"a cat{MASK}"]


@functools.cache
def make_task(kind: str = "word", **options: Any) -> MaskedLanguageModeling:
    """Return a task with fixed random weights."""
    tokenizer = train_tokenizer(kind, TEXTS, 60)
    sizes = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 2, "max_length": 32}
    sizes["vocabulary_size"] = tokenizer.vocabulary_size + 1
    model = with_normal_weights(models.MaskedLM({**sizes, "layer": {"norm_first": False}}))
    return MaskedLanguageModeling(model, tokenizer, **{"max_length": 20, **options})


def lines(texts: list[str]) -> TextLines:
    return TextLines(texts, "test lines")


def describe(answer: FillMaskResult) -> tuple[Any, ...]:
    return answer.text, answer.tokens, answer.source_tokens, [a.text for a in answer.alternatives]


def test_probabilities_equal_the_softmax_of_the_logits() -> None:
    task = make_task()
    (answer,) = task.predict([f"the {MASK} {MASK} a cat"], top=3)
    assert answer.source_tokens == ("the", MASK, MASK, "a", "cat")
    assert answer.tokens[0] == "the"
    assert answer.text == " ".join(answer.tokens)
    (before,), (after,) = task.tokenizer.encode(["the"]), task.tokenizer.encode(["a cat"])
    ids = [2, before[0], task.mask, task.mask, *after, 3]
    logits = keras.ops.convert_to_numpy(task.model({"tokens": np.array([ids])}))[0]
    score = 0.0
    for at, predictions in zip((2, 3), answer.predictions, strict=True):
        weights = np.exp(logits[at].astype("float64"))
        found = weights / weights.sum()
        order = [i for i in np.argsort(-found) if i not in (0, 1, 2, 3, task.mask)][:3]
        assert [prediction.token for prediction in predictions] == task.tokenizer.tokens(order)
        want = [found[i] for i in order]
        assert [prediction.probability for prediction in predictions] == pytest.approx(
            want, rel=1e-4
        )
        score += np.log(want[0])
    assert answer.score == pytest.approx(score, abs=1e-4)
    assert len(answer.alternatives) == 2
    second = answer.alternatives[0]
    assert second.tokens[1:3] == tuple(predictions[1].token for predictions in answer.predictions)


@pytest.mark.parametrize("kind", ["word", "subword", "character"])
def test_mask_token_extends_the_vocabulary_of_trained_tokenizers(kind: str) -> None:
    task = make_task(kind)
    assert task.mask == task.tokenizer.vocabulary_size
    assert task.model.bert.settings["vocabulary_size"] == task.mask + 1
    for answer in task.predict(MASKED):
        assert MASK not in answer.text
        assert answer.text not in [one.text for one in answer.alternatives]


@pytest.mark.parametrize("kind", ["word", "subword", "character"])
def test_mask_replaces_one_token_and_changes_no_other(kind: str) -> None:
    task, text = make_task(kind), "a dog and a cat ."
    word = "dog" if kind == "word" else "d"
    if kind == "subword":  # its pieces are words here, as the test needs
        assert len(task.tokenizer.encode(["dog"])[0]) == 1
        word = "dog"
    (plain,), (masked,) = (task.encode_sources([t]) for t in (text, text.replace(word, MASK, 1)))
    changed = [at for at, pair in enumerate(zip(plain, masked, strict=True)) if len({*pair}) == 2]
    assert [masked[at] for at in changed] == [task.mask]
    (end, _), (bare, _) = (task.encode_sources([t, "a"]) for t in (f"cat {MASK}.", f"{MASK}."))
    assert bare == end[-2:]
    assert bare[0] == task.mask
    assert task.encode_sources([f"\ue000 {MASK}"])[0].count(task.mask) == 1


def test_unknown_words_are_reported() -> None:
    (answer,) = make_task().predict([f"a bird saw {MASK}"])
    assert answer.unknown == (1,)
    assert make_task().find_unknown_characters(f"a ☃ {MASK}") == ["☃"]


@refuses(
    ("a cat", {}, r"write predict\(\[text\]\)"),
    ([MASK, "a cat"], {}, r"source 1: has no \[MASK\]; put it at each token"),
    ([" ".join(["cat"] * 19)], {}, "^source 0: 19 tokens and the start and end tokens, the limit"),
    ([MASK], {"beam_with": 3}, "option 'beam_with'; did you mean 'beam_width'"),
    ([MASK], {"top": 0}, "top must be at least 1, got 0"),
    ([MASK], {"top": 8}, "top must be at most 7, got 8"),
    ([MASK], {"top": True}, "top must be an integer of at least 1, got True"),
    ([MASK], {"top": 2.0}, "top must be an integer of at least 1, got 2.0"),
    ([MASK], {"top": "3"}, "top must be an integer of at least 1, got '3'"),
)
def test_invalid_input_raises(texts: Any, options: Any) -> None:
    make_task().predict(texts, **options)


def test_a_released_model_with_its_tokenizer() -> None:
    task = tasks.load(GOLDEN / "bert")
    assert isinstance(task, MaskedLanguageModeling)
    assert (task.mask, task.max_length) == (4, 12)
    want = expected(GOLDEN / "bert")
    plain = keras.ops.convert_to_numpy(task.model({"tokens": want["tokens"]}))
    assert plain.shape == want["logits"].shape
    (answer,) = task.predict([f"The unseen {MASK}."])
    assert answer.source_tokens == ("the", "un", "##seen", MASK, ".")
    assert answer.predictions[0][0].probability > answer.predictions[0][1].probability
    assert task.find_unknown_characters(f"a ☃ {MASK}") == ["☃"]
    (pair,) = task.predict([f"the cat [SEP] sat {MASK}"])
    assert pair.text.startswith("the cat [SEP] sat")
    assert pair.text != pair.alternatives[0].text
    assert task.evaluate(lines(["the cat sat", "a mat."]))["masked"] == 2
    assert tasks.load(GOLDEN / "gpt2").name == "language_modeling"


def test_metrics_equal_those_of_the_logits() -> None:
    task = make_task()
    texts = [*TEXTS, "a bird"]
    report = task.evaluate(lines(texts))
    batches = task.make_batches(lines(texts), 5, seed=0)
    nats = right = count = 0.0
    for inputs, labels in batches.dataset_in_order():
        labels = labels.numpy()
        logits = keras.ops.convert_to_numpy(task.model(inputs)).astype("float64")
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for row, at in np.argwhere(labels):
            nats -= log_probs[row, at, labels[row, at]]
            right += log_probs[row, at].argmax() == labels[row, at]
            count += 1
    assert (report["lines"], report["masked"]) == (5, count)
    assert report["perplexity"] == pytest.approx(np.exp(nats / count), rel=1e-4)
    assert report["masked_accuracy"] == pytest.approx(100 * right / count)
    assert set(task.metric_names) < report.keys()
    assert task.evaluate(lines(texts)) == report


def test_evaluation_uses_the_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    task, sizes = make_task(), []
    log_probs = task._log_probs

    def count(tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
        sizes.append(len(tokens))
        return log_probs(tokens, mask)

    monkeypatch.setattr(task, "_log_probs", count)
    assert task.evaluate(lines(TEXTS), batch_size=1) == pytest.approx(task.evaluate(lines(TEXTS)))
    assert sizes[: len(TEXTS)] == [1] * len(TEXTS)
    assert max(sizes) > 1


def test_default_number_of_predictions() -> None:
    for n_best, count in ((1, 5), (2, 2), (100, 7)):
        (answer,) = make_task().predict([MASK], n_best=n_best)
        assert len(answer.alternatives) == count - 1


def test_loss_counts_masked_tokens_only() -> None:
    task, examples = make_task(), lines(TEXTS)
    inputs, labels = task.make_batches(examples, 4, seed=0).make_batch(np.arange(4))
    loss = task.make_loss()
    assert float(loss.count(labels)) == task.evaluate(examples)["masked"] == (labels != 0).sum()
    found = float(loss(labels, task.model(inputs)))
    assert found == pytest.approx(np.log(task.evaluate(examples)["perplexity"]), rel=1e-4)


def test_lines_over_the_limit() -> None:
    task, long = make_task(), " ".join(["cat"] * 19)
    assert task.make_batches(lines(["a cat", long, "a dog"]), 2, seed=1).get_example_numbers(0) == [
        1,
        3,
    ]
    assert task.filter_by_length(lines([long, "a dog"])).texts == ["a dog"]
    with pytest.raises(ValueError, match="none of its 1 lines fits into 20 tokens; raise"):
        task.make_batches(lines([long]), 2, seed=1)
    with pytest.raises(ValueError, match="test lines:2: 19 tokens and the start and end"):
        task.evaluate(lines(["a cat", long]))
    with pytest.raises(ValueError, match="test lines:1: the text is empty"):
        task.evaluate(lines([""]))
    with pytest.raises(ValueError, match="max_length=40 exceeds the 32 positions of the model; l"):
        make_task(max_length=40).make_batches(lines(TEXTS), 2, seed=1)


def test_released_model_is_saved_as_a_task(tmp_path: Path) -> None:
    task = tasks.load(GOLDEN / "bert")
    task.save(tmp_path)
    again = tasks.load(tmp_path)
    assert describe(again.predict([f"the {MASK}"])[0]) == describe(task.predict([f"the {MASK}"])[0])


def test_tokenizer_without_a_mask_raises() -> None:
    with pytest.raises(ValueError, match=r"tokenizer must have a \[MASK\] .*, got ByteTokenizer"):
        MaskedLanguageModeling(make_task().model, load_tokenizer(GOLDEN / "gpt2"))


def test_unsuitable_models_raise() -> None:
    with pytest.raises(ValueError, match=r"model must be a models\.MaskedLM, got Dense"):
        MaskedLanguageModeling(keras.layers.Dense(3), make_task().tokenizer)
    tokenizer = make_task().tokenizer
    sizes = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1}
    small = models.MaskedLM({"vocabulary_size": tokenizer.vocabulary_size, **sizes})
    with pytest.raises(ValueError, match="has 11 tokens and the mask token has id 11, but the mo"):
        MaskedLanguageModeling(small, tokenizer)
    with pytest.raises(ValueError, match="but the model's vocabulary_size is 11; use at least"):
        MaskedLanguageModeling(small, load_tokenizer(GOLDEN / "bert"))


RECIPE = """\
task: masked_language_modeling
data: {{corpus: text, train: {0}/train.txt, validation: {0}/some.txt, test: {0}/some.txt,
  max_length: 20}}
tokenizer: {{kind: word}}
model: {{preset: bert_tiny, embedding_dim: 8, units: 8, num_layers: 1, num_heads: 2,
  max_length: 32}}
training: {{steps: 20, evaluate_every: 10, batch_size: 4, learning_rate: 0.01,
  monitor: masked_accuracy}}
"""


def write_recipe(folder: Path) -> Path:
    some = "\n\n".join(TEXTS)
    (folder / "train.txt").write_text(f"{some}\n{'cat ' * 30}\n" * 3)
    (folder / "some.txt").write_text(some)
    (folder / "recipe.yaml").write_text(RECIPE.format(folder))
    return folder / "recipe.yaml"


@pytest.mark.full
def test_training_run_from_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    out = output(capsys, "train", write_recipe(tmp_path), f"run={run}")
    assert "12 training lines (3 over the length limits dropped), 4 validation lines" in out
    assert "masked_accuracy  " in output(capsys, "evaluate", run)
    (tmp_path / "in.txt").write_text(f"a {MASK}\nthe {MASK} saw {MASK}\n")
    words = ["predict", run, tmp_path / "in.txt"]
    answers = output(capsys, *words).splitlines()
    want = tasks.load(run).predict([f"a {MASK}", f"the {MASK} saw {MASK}"])
    assert answers == [answer.text for answer in want]
    assert output(capsys, *words, "--n-best").count("\n") == 2 * 5
    message = refused(capsys, *words, "data.max_length=3", "--strict")
    assert "in.txt:1: 2 tokens and the start and end tokens, the limit is 3" in message


@pytest.mark.slow
def test_run_resumes_exactly(tmp_path: Path) -> None:
    recipe, uninterrupted, resumed = (
        write_recipe(tmp_path),
        tmp_path / "uninterrupted",
        tmp_path / "resumed",
    )
    training.fit(recipe, [f"run={uninterrupted}", "training.evaluate_every=5"])
    for steps in (5, 20):
        options = [f"run={resumed}", "training.evaluate_every=5", f"training.steps={steps}"]
        training.fit(recipe, options, allow=["training.steps"])
    assert_same_run(uninterrupted, resumed)


@pytest.mark.full
def test_fine_tuning_of_a_released_model(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("the cat sat\na mat.\n")
    (tmp_path / "recipe.yaml").write_text(
        "task: masked_language_modeling\n"
        f"data: {{corpus: text, train: {tmp_path}/some.txt, validation: {tmp_path}/some.txt,"
        " max_length: 12}\n"
        f"init: {shutil.copytree(GOLDEN / 'bert', tmp_path / 'released')}\n"
        "training: {steps: 1}\n"
    )
    result = training.fit(tmp_path / "recipe.yaml", [f"run={tmp_path / 'run'}"])
    assert result.task.mask == 4
    sizes = "embedding_dim: 16, units: 24, num_heads: 2, max_length: 12, dropout: 0.3"
    options = [f"run={tmp_path / 'tuned'}", f"model={{preset: bert_tiny, {sizes}}}"]
    tuned = training.fit(tmp_path / "recipe.yaml", options)
    assert tuned.task.model.bert.settings["dropout"] == 0.3
    with pytest.raises(ValueError, match=r"tokenizer has kind wordpiece, .* tokenizer.kind=word"):
        training.fit(
            tmp_path / "recipe.yaml", [f"run={tmp_path / 'other'}", "tokenizer={kind: word}"]
        )


def test_line_without_a_mask_raises_before_any_output(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "DEFAULT_BATCH_SIZE", 1)
    make_task().save(tmp_path / "task")
    (tmp_path / "in.txt").write_text(f"a {MASK}\nthe {MASK}\na cat\n")
    message = refused(capsys, "predict", tmp_path / "task", tmp_path / "in.txt", "--strict")
    assert message.endswith("in.txt:3: has no [MASK]; put it at each token to predict\n")

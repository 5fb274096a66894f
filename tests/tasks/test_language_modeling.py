"""Language modeling: prompts, evaluation by hand, files and a training run."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models, tasks, training
from attention_zoo.cli import predict
from attention_zoo.data import TextLines, train_tokenizer
from attention_zoo.data.tokenizers.vocabulary import END, PAD, START
from attention_zoo.models.generation import mask_special_tokens
from attention_zoo.tasks import Continuation, LanguageModeling
from tests.cli.test_main import Capture, output, refused
from tests.models.public.checkpoints import GOLDEN
from tests.refusals import refuses
from tests.tasks.captioners import with_normal_weights

TEXTS = ["a cat", "a dog saw the cat", "", "the dog", "a cat saw a dog and the dog saw a cat ."]


@functools.cache
def make_task(kind: str = "word", **options: Any) -> LanguageModeling:
    """Return a task with fixed random weights."""
    tokenizer = train_tokenizer(kind, [text for text in TEXTS if text], 60)
    sizes = {"embedding_dim": 8, "units": 8, "num_layers": 2, "max_length": 32}
    model = models.GPT(tokenizer.vocabulary_size, num_heads=2, **sizes)
    return LanguageModeling(with_normal_weights(model), tokenizer, max_length=20, **options)


def lines(texts: list[str]) -> TextLines:
    return TextLines(texts, "test lines")


def describe(answer: Continuation) -> tuple[Any, ...]:
    return answer.prompt, answer.text, answer.tokens, answer.truncated


@pytest.mark.parametrize("kind", ["word", "subword", "character"])
def test_continuation_joins_the_prompt(kind: str) -> None:
    task = make_task(kind)
    answers = task.predict(TEXTS[:4], max_length=4, beam_width=3, n_best=3)
    assert [answer.prompt for answer in answers] == TEXTS[:4]
    for answer in answers:
        results = [answer, *answer.alternatives]
        assert len({one.tokens for one in results}) == len(results) == 3
        scores = [one.score for one in results]
        assert scores == sorted(scores, reverse=True)
        for one in results:
            (prompt,) = task.tokenizer.encode([answer.prompt])
            labels = task.tokenizer.tokens(prompt)
            assert one.source_tokens == tuple(labels)
            assert len(one.token_scores) == len(one.tokens) + (not one.truncated)
            assert sum(one.token_scores) == pytest.approx(one.score, abs=1e-4)
            joined = task.tokenizer.encode([one.prompt + one.text])[0]
            if kind == "word" and "<unk>" not in one.tokens:
                assert task.tokenizer.tokens(joined) == [*labels, *one.tokens]


@pytest.mark.full
def test_samples_depend_on_the_seed_only() -> None:
    options = {"method": "sampling", "beam_width": 2, "n_best": 2, "max_length": 7}
    first, again, other = (
        [describe(a) for a in make_task().predict(TEXTS, seed=seed, **options)]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_unknown_words_of_a_prompt_are_reported() -> None:
    (answer,) = make_task().predict(["a bird saw the worm"], max_length=2)
    assert answer.unknown == (1, 4)
    assert make_task().find_unknown_characters("a ☃ cat") == ["☃"]


@refuses(
    ("a cat", {}, r"write predict\(\[text\]\)"),
    ([" ".join(["cat"] * 20)], {}, "^source 0: 20 tokens and the start token, the limit is"),
    (
        ["a cat", " ".join(["cat"] * 15)],
        {"max_length": 20},
        "^source 1: the prompt has 16 tokens and its continuation may have 20, .*=32.* most 17",
    ),
    (["a cat"], {"beam_with": 3}, "option 'beam_with'; did you mean 'beam_width'"),
)
def test_invalid_input_raises(texts: Any, options: Any) -> None:
    make_task().predict(texts, **options)


def test_metrics_equal_those_of_the_logits() -> None:
    task = make_task()
    texts = [text for text in TEXTS if text] + ["a bird"]
    report = task.evaluate(lines(texts), batch_size=2)
    nats = right = count = 0.0
    for ids in task.tokenizer.encode(texts):
        tokens, labels = np.array([[START, *ids]]), np.array([*ids, END])
        logits = keras.ops.convert_to_numpy(task.model({"tokens": tokens}))[0].astype("float64")
        logits[:, [PAD, START]] = -np.inf  # never generated
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        nats -= log_probs[range(len(labels)), labels].sum()
        right += (logits.argmax(-1) == labels).sum()
        count += len(labels)
    assert (report["lines"], report["tokens"], report["unknown"]) == (5, count, 1)
    assert report["perplexity"] == pytest.approx(np.exp(nats / count), rel=1e-4)
    assert report["accuracy"] == pytest.approx(100 * right / count)
    characters = sum(len(text) + 1 for text in texts)
    assert report["bits_per_character"] == pytest.approx(nats / np.log(2) / characters, rel=1e-4)
    assert set(task.metric_names) < report.keys()


def test_loss_is_the_log_of_the_perplexity() -> None:
    task, examples = make_task(), lines([text for text in TEXTS if text])
    batches, loss = task.make_batches(examples, 2, seed=1), task.make_loss()
    total = count = 0.0
    for inputs, labels in batches.dataset_in_order():
        size = float(loss.count(labels))
        logits = mask_special_tokens(task.model(inputs))  # padding and start are never generated
        total, count = total + float(loss(labels, logits)) * size, count + size
    assert task.evaluate(examples)["perplexity"] == pytest.approx(np.exp(total / count), rel=1e-4)


def test_lines_over_the_limit() -> None:
    task, long = make_task(), " ".join(["cat"] * 20)
    assert len(task.make_batches(lines(["a cat", long, "a dog"]), 2, seed=1)) == 2
    assert task.make_batches(lines(["a cat", long, "a dog"]), 2, seed=1).get_example_numbers(0) == [
        1,
        3,
    ]
    assert task.filter_by_length(lines([long, "a dog"])).texts == ["a dog"]
    with pytest.raises(ValueError, match="none of its 1 lines fits into 20 tokens; raise"):
        task.make_batches(lines([long]), 2, seed=1)
    with pytest.raises(ValueError, match="test lines:2: 20 tokens and the start token"):
        task.evaluate(lines(["a cat", long]))


def test_released_model_continues_the_end_of_text_token() -> None:
    task = tasks.load(GOLDEN / "gpt2")
    (answer,) = task.predict(["<|endoftext|>"], max_length=3, min_length=3)
    assert answer.prompt == "<|endoftext|>"
    assert len(answer.tokens) == 3
    assert answer.text
    with pytest.raises(ValueError, match="source 0: the text is not valid Unicode"):
        task.predict(["\ud800"])


def test_model_that_is_no_language_model_raises() -> None:
    with pytest.raises(ValueError, match=r"model must be a models\.GPT, got Dense"):
        LanguageModeling(keras.layers.Dense(3), make_task().tokenizer)


RECIPE = """\
task: language_modeling
data: {{corpus: text, train: {0}/train.txt, validation: {0}/some.txt, test: {0}/some.txt,
  max_length: 20}}
tokenizer: {{kind: word}}
model: {{preset: gpt_tiny, embedding_dim: 8, units: 8, num_layers: 1, max_length: 32}}
training: {{steps: 20, evaluate_every: 10, batch_size: 4, learning_rate: 0.01, monitor: accuracy}}
search: {{max_length: 5}}
"""


@pytest.mark.full
def test_training_run_from_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    some = "\n\n".join(text for text in TEXTS if text)
    (tmp_path / "train.txt").write_text(f"{some}\n{'cat ' * 30}\n" * 3)
    (tmp_path / "some.txt").write_text(some)
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(tmp_path))
    run = tmp_path / "run"
    out = output(capsys, "train", tmp_path / "recipe.yaml", f"run={run}")
    assert "12 training lines (3 over the length limits dropped), 4 validation lines" in out
    assert "bits_per_character  " in output(capsys, "evaluate", run)
    (entry,) = json.loads((run / "results.json").read_text())["evaluations"]
    assert entry["metrics"]["perplexity"] < 16
    (tmp_path / "in.txt").write_text("a dog\n\nthe cat saw\n")
    words = ["predict", run, tmp_path / "in.txt"]
    answers = output(capsys, *words, "search.max_length=3").splitlines()
    expected = tasks.load(run).predict(["a dog", "", "the cat saw"], max_length=3)
    assert answers == [answer.text for answer in expected]
    message = refused(capsys, *words, "data.max_length=2", "--strict")
    assert "in.txt:1: 2 tokens and the start token, the limit is 2" in message
    result = training.fit(tmp_path / "recipe.yaml", [f"run={run}"])
    assert result.step == 20


def test_prompt_over_the_limit_raises_before_any_output(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "DEFAULT_BATCH_SIZE", 1)
    make_task().save(tmp_path / "task")
    (tmp_path / "in.txt").write_text("a\nthe\na cat saw a dog\n")
    words = ["predict", tmp_path / "task", tmp_path / "in.txt", "search.max_length=28", "--strict"]
    message = "in.txt:3: the prompt has 6 tokens and its continuation may have 28, but the model"
    assert message in refused(capsys, *words)


def test_line_feeds_in_a_continuation_are_escaped(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_task().save(tmp_path / "task")
    (tmp_path / "in.txt").write_text("a\nthe\n")

    def predict_two_lines(task: Any, texts: list[str], **options: Any) -> list[Continuation]:
        """Return texts with a line feed, which a byte-level tokenizer can generate."""
        return [
            Continuation(text="one\ntwo", score=0.0, token_scores=(), prompt=text) for text in texts
        ]

    monkeypatch.setattr(tasks.LanguageModeling, "predict", predict_two_lines)
    out = output(capsys, "predict", tmp_path / "task", tmp_path / "in.txt")
    assert out == "one\\ntwo\n" * 2

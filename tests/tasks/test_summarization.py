"""Summarization: copied words and their origins, limits, evaluation and the commands."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.cli import main
from attention_zoo.data import TextPairs, generate_reports, train_tokenizer
from attention_zoo.decoding import AllowedTokens
from attention_zoo.tasks import SearchOptions, Summarization, load
from tests.refusals import refuses
from tests.tasks.summarizers import make_untrained_task

DOCS = Path(__file__).parents[2] / "docs" / "summarization.md"
KNOWN = ["a fire in the mill has hurt (all) people .", "the police, of the (town) say no fire"]
TEXTS = [
    "a fire in Tromak has hurt Sarno (Nemo) people . Belvik of the police",
    "the mill .",
    "the fire in Nemo, Sarno, Ilda, Kavon, Tidur",
    "no fire in the town. Nemo say no. Nemo of the mill " + "in the town " * 7,
]


@functools.cache
def summarizer(copies: int = 4) -> Summarization:
    limits = {"max_source_length": 50, "max_target_length": 9}
    search = SearchOptions(beam_width=2, n_best=2)
    return make_untrained_task(KNOWN, model={"copies": copies}, search=search, **limits)


def pairs(sources: list[str] = TEXTS, targets: list[str] | None = None) -> TextPairs:
    return TextPairs(sources, targets or ["Tromak fire"] * len(sources), "test pairs")


def token(text: str) -> int:
    """Return the id of the last token of a text."""
    return int(summarizer().tokenizer.encode([text])[0][-1])


def test_copy_id_without_a_source_word_is_unknown() -> None:
    task = summarizer()
    size = task.tokenizer.vocabulary_size
    ids = {0: size, 1: size + 2}
    nothing, one = task.predict(["the mill .", "the Tromak"], forced_tokens=ids, max_length=3)
    assert nothing.tokens[:2] == ("<unk>", "<unk>")
    assert one.tokens[:2] == ("Tromak", "<unk>")
    assert nothing.origins[:2] == (-1, -1)


@pytest.mark.full
def test_attention_copy_probabilities_and_origins_of_tokens() -> None:
    copied_cases = set()
    for text, answer in zip(TEXTS, summarizer().predict(TEXTS), strict=True):
        assert "".join(answer.source_tokens) == text.replace(" ", "")
        assert len(answer.alternatives) == 1
        for one in (answer, *answer.alternatives):
            size = len(one.tokens)
            assert one.attention.shape == (size, len(one.source_tokens))
            np.testing.assert_allclose(one.attention.sum(-1), 1, atol=1e-5)
            assert len(one.copied) == len(one.origins) == size
            assert len(one.token_scores) == size + (not one.truncated)
            assert "".join(one.tokens) == one.text.replace(" ", "")
            for label, share, origin in zip(one.tokens, one.copied, one.origins, strict=True):
                assert (origin >= 0) == (share >= 0.5)
                assert origin < 0 or label in (one.source_tokens[origin], "<unk>")
                copied_cases.add(origin >= 0)
    assert copied_cases == {True, False}


@pytest.mark.full
def test_copied_words_are_spelled_as_in_the_source() -> None:
    task = summarizer()
    size = task.model.vocabulary_size
    forced_ids = [size + 3, token("("), size + 2, size, 1, size + 1]
    options = {"forced_tokens": dict(enumerate(forced_ids)), "max_length": 7}
    (answer,) = task.predict(TEXTS[:1], **options)
    assert answer.tokens[:6] == ("Belvik", "(", "Nemo", "Tromak", "<unk>", "Sarno")
    assert answer.text.startswith("Belvik (Nemo Tromak <unk> Sarno")
    assert [answer.origins[at] for at in (0, 2, 3, 5)] == [12, 8, 3, 6]
    assert np.allclose([answer.copied[at] for at in (0, 2, 3, 5)], 1)
    assert answer.unknown == ()
    (many,) = task.predict(TEXTS[2:3])
    assert [many.source_tokens[at] for at in many.unknown] == ["Tidur"]


def test_model_without_copies_copies_nothing() -> None:
    task = summarizer(copies=0)
    options = {"forced_tokens": {0: 1, 1: 5}, "max_length": 4, "min_length": 4}
    (answer,) = task.predict(TEXTS[:1], replace_unknown=True, **options)
    assert set(answer.copied) == {0.0}
    assert set(answer.origins) == {-1}
    assert answer.unknown == (3, 6, 8, 12)
    np.testing.assert_allclose(answer.attention.sum(-1), 1, atol=1e-5)
    assert answer.tokens[0] == answer.source_tokens[answer.attention[0].argmax()]
    assert task.find_unknown_characters("a ☃") == ["☃"]
    assert summarizer().find_unknown_characters("a ☃") == []


@pytest.mark.full
def test_default_max_length() -> None:
    task = summarizer()
    assert task.search_options().max_length == 9
    assert task.search_options(max_length=4).max_length == 4
    assert task.search_options(max_length_ratio=0.5).max_length is None
    assert all(len(answer.tokens) <= 9 for answer in task.predict(TEXTS))
    for answer in task.predict(TEXTS, max_length=1):
        assert answer.truncated is (len(answer.tokens) == 1)


@pytest.mark.full
def test_truncate_source_truncates_and_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = summarizer()
    monkeypatch.setattr(task, "max_source_length", 4)
    with pytest.raises(ValueError, match=r"^source 0: 16 tokens, the limit is 4; .*truncate_s"):
        task.predict(TEXTS[:1])
    monkeypatch.setattr(task, "truncate_source", True)
    answers = task.predict([TEXTS[0], "a fire in Tromak", "the mill"])
    assert [answer.source_truncated for answer in answers] == [True, False, False]
    assert answers[0].source_tokens == ("a", "fire", "in", "Tromak")
    assert answers[0].text == answers[1].text
    batch, labels = task.make_batches(pairs(TEXTS[:1], ["Belvik Tromak"]), 1, seed=1).get_batch(0)
    size = task.model.vocabulary_size
    assert batch["source"][0, 3] == size
    assert labels[0, :3].tolist() == [1, size, 3]
    report = task.evaluate(pairs(TEXTS[:2]))
    assert report["sources_truncated"] == 1
    assert 0 <= report["copied_tokens"] <= 100


@pytest.mark.full
def test_rules_and_no_repeat_ngram_apply_to_all_texts() -> None:
    task = summarizer()
    size = task.model.vocabulary_size
    for ids, texts in (((5, 6), TEXTS), ((size, size + 1), [TEXTS[0], TEXTS[2]])):
        rules = [AllowedTokens(np.isin(np.arange(task.model.target_vocabulary_size), [3, *ids]))]
        for answer in task.predict(texts, rules=rules, no_repeat_ngram=2, min_length=5):
            words = {"Tromak", "Sarno", "Nemo"} if ids[0] == size else task.tokenizer.tokens(ids)
            assert set(answer.tokens) <= set(words)
            ngrams = list(zip(answer.tokens, answer.tokens[1:], strict=False))
            assert len(ngrams) == len(set(ngrams)) >= 3


@refuses(
    (["a", ""], {}, "^source 1: the text is empty"),
    ([" ".join(["fire"] * 51)], {}, "^source 0: 51 tokens, the limit is 50; shorten"),
    ("a fire", {}, r"write predict\(\[text\]\)"),
    (["a"], {"beam_with": 3}, "option 'beam_with'; did you mean 'beam_width'"),
    (
        ["a"],
        {"min_length": 10},
        "min_length must be at most max_length, got min_length=10, max_length=9",
    ),
)
def test_invalid_input_raises(texts: Any, options: Any) -> None:
    summarizer().predict(texts, **options)


def test_unsuitable_models_and_tokenizers_raise() -> None:
    tokenizer = train_tokenizer("word", KNOWN)
    model = models.from_preset("gpt_tiny", vocabulary_size=20, units=8, num_heads=2, num_layers=1)
    with pytest.raises(
        ValueError, match=r"model must be a models.CopyingMixin, such as .*, got GPT"
    ):
        Summarization(model, tokenizer)
    with pytest.raises(ValueError, match="the tokenizer has 7 tokens, but the model's vocab"):
        Summarization(summarizer().model, train_tokenizer("word", ["a b c"]))


def test_batches_have_copy_ids_and_drop_long_pairs() -> None:
    task = summarizer()
    size, fire = task.model.vocabulary_size, token("fire")
    long = " ".join(["fire"] * 9)  # with its end token one over the limit
    examples = pairs([*TEXTS[:2], "a"], ["Sarno Ilda fire Tromak", long, "fire"])
    batches = task.make_batches(examples, 2, seed=1)
    assert len(batches) == 2
    assert len(task.filter_by_length(examples)) == 2
    batch, labels = batches.make_batch(np.array([0]))
    assert labels[0, :5].tolist() == [size + 1, 1, fire, size, 3]
    assert batch["target"][0, :5].tolist() == [2, size + 1, 1, fire, size]
    assert batch["source"][0, [3, 6, 8, 12]].tolist() == [size, size + 1, size + 2, size + 3]
    with pytest.raises(ValueError, match="none of its 1 pairs fits into 50 source and 9 target"):
        task.make_batches(pairs(["a"], [long]), 2, seed=1)
    loss = task.make_loss()
    assert np.isfinite(float(loss(labels, task.model(batch))))
    with pytest.raises(ValueError, match=r"^label_smoothing must be 0 for .* that copies .*0\.1$"):
        task.make_loss(0.1)


@pytest.mark.full
def test_evaluate_agrees_with_predict() -> None:
    task = summarizer()
    answers = task.predict(TEXTS)
    targets = [answers[0].text, "x y", "x y", answers[3].text]
    report = task.evaluate(pairs(targets=targets))
    assert report["exact_match"] == 50
    assert report["rouge1"] >= 50
    assert report["sentences"] == 4
    assert report["truncated"] == sum(answer.truncated for answer in answers)
    is_copied = [origin >= 0 for answer in answers for origin in answer.origins]
    assert report["copied_tokens"] == pytest.approx(100 * np.mean(is_copied))
    assert set(task.metric_names) < report.keys()
    references = [("x", answer.text) for answer in answers]
    with_references = TextPairs(TEXTS, ["x"] * 4, "here", references=references)
    assert task.evaluate(with_references)["exact_match"] == 100


@pytest.mark.full
def test_evaluate_counts_copied_tokens() -> None:
    task = summarizer()
    first_unknown = {0: task.tokenizer.vocabulary_size}
    report = task.evaluate(pairs(["the Tromak"]), max_length=1, forced_tokens=first_unknown)
    assert report["copied_tokens"] == 100


def test_evaluate_locates_a_pair_over_the_limit() -> None:
    with pytest.raises(ValueError, match="test pairs, pair 2: 51 tokens, the limit is 50"):
        summarizer().evaluate(pairs(["a", " ".join(["fire"] * 51)], ["x", "y"]))


RECIPE = """\
task: summarization
data: {corpus: reports, size: 400, validation_size: 16, test_size: 16, max_events: 1}
tokenizer: {kind: whitespace, vocabulary_size: 600}
model: {preset: pointer_generator_small, embedding_dim: 32, units: 32}
training: {steps: 60, evaluate_every: 60, batch_size: 16, learning_rate: 0.01}
"""


@pytest.mark.slow
def test_training_on_reports_copies_unseen_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the commands of docs/summarization.md."""
    (tmp_path / "small.yaml").write_text(RECIPE)
    run = str(tmp_path / "runs/mine")
    assert main(["train", str(tmp_path / "small.yaml"), f"run={run}"]) == 0
    articles = generate_reports(2, "unseen", max_events=1).sources
    (tmp_path / "reports.txt").write_text("\n".join(articles))
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    (commands,) = (block for block in blocks if "predict" in block)
    predict, evaluate = (line.split()[1:] for line in commands.splitlines())
    assert main(predict) == 0
    expected = load(run).predict(articles, beam_width=4)
    assert capsys.readouterr().out.splitlines() == [answer.text for answer in expected]
    assert "words copied" in (tmp_path / "page.html").read_text("utf-8")
    for name in ("attention-1.png", "attention-2.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert main(evaluate) == 0
    output = capsys.readouterr().out
    report = json.loads((Path(run) / "results.json").read_text())["evaluations"][0]
    metrics = report["metrics"]
    assert metrics["facts"] > 15  # no name or number is in the vocabulary
    assert metrics["copied_tokens"] > 20
    assert metrics["rouge1"] > 30
    facts = ["facts", f"{metrics['facts']:.4f}", "%"]
    assert facts in [line.split() for line in output.splitlines()]
    assert "metric rouge1" in output

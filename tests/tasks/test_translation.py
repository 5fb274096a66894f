"""Translation: attention, prefixes, rules, limits, n-best and evaluation."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import TextPairs
from attention_zoo.decoding import AllowedTokens
from attention_zoo.tasks import SearchOptions, Translation
from tests.refusals import refuses
from tests.tasks.translators import make_untrained_task

SOURCES = ["a cat", "a dog saw the cat", "the dog", "a cat saw a dog and the dog saw a cat today ."]
TARGETS = ["eine Katze", "ein Hund sah die Katze", "der Hund", "eine Katze sah einen Hund ."]


@functools.cache
def translator(preset: str = "rnnsearch_small") -> Translation:
    return make_untrained_task(preset, SOURCES, TARGETS, max_source_length=20, max_target_length=20)


def pairs(sources: list[str] = SOURCES, targets: list[str] = TARGETS) -> TextPairs:
    return TextPairs(sources, targets, "test pairs")


@pytest.mark.full
def test_attention_has_a_row_for_each_token_and_sums_to_one() -> None:
    answers = translator().predict(SOURCES, beam_width=3, n_best=3)
    for text, answer in zip(SOURCES, answers, strict=True):
        assert " ".join(answer.source_tokens) == text
        for one in (answer, *answer.alternatives):
            assert one.attention is not None
            assert one.attention.shape == (len(one.tokens), len(one.source_tokens))
            np.testing.assert_allclose(one.attention.sum(-1), 1, atol=1e-5)


def test_predictions_begin_with_the_prefixes() -> None:
    prefixes = ["ein Hund", "", "Katze Katze Katze", "der"]
    answers = translator().predict(SOURCES, prefixes=prefixes, max_length=4, beam_width=2)
    for prefix, answer in zip(prefixes, answers, strict=True):
        assert answer.text.startswith(prefix)
    (free,) = translator().predict(SOURCES[1:2], max_length=4, beam_width=2)
    assert answers[1].text == free.text


def test_sources_with_an_end_token(tmp_path: Path) -> None:
    plain = translator()
    model, tokenizers = plain.model, (plain.source_tokenizer, plain.target_tokenizer)
    task = Translation(model, *tokenizers, max_source_length=20, add_source_end=True)
    (ids,) = task.encode_sources(["a cat"])
    assert ids == [*plain.encode_sources(["a cat"])[0], 3]
    result = model.search(np.array([ids], "int32"), max_length=5)
    (predicted,) = task.predict(["a cat"], max_length=5)
    assert predicted.score == pytest.approx(float(result.scores[0, 0]), abs=1e-5)
    assert predicted.source_tokens == ("a", "cat", "</s>")
    sources, _ = task.encode_pairs(pairs())
    assert sources.to_rows() == task.encode_sources(SOURCES)
    task.save(tmp_path)
    assert Translation.load(tmp_path).encode_sources(["a cat"]) == [ids]
    with pytest.raises(ValueError, match="source 0: the text is empty"):
        task.predict([""])


def test_invalid_prefixes_raise() -> None:
    invalid: dict[str, Any] = {
        "^prefixes must have one text for each of the 4 texts, got 1$": ["one"],
        "^prefixes must be a list of texts, got 'four'": "four",
        r"^source 0: the prefix: expected a str, got None$": [None] * 4,
        r"^source 1: the prefix has words .* vocabulary: 'Zanzibar', 'zwei'\. Rem": [
            "",
            "Zanzibar ein zwei",
        ]
        * 2,
    }
    for message, wrong in invalid.items():
        with pytest.raises(ValueError, match=message):
            translator().predict(SOURCES, prefixes=wrong)
    texts = [" ".join(["cat"] * 12), "a cat"]  # not searched together
    for at, prefixes in enumerate((["ein Hund sah", ""], ["", "ein Hund sah"])):
        with pytest.raises(ValueError, match=f"^source {at}: the prefix has a token at position 2"):
            translator().predict(texts, prefixes=prefixes, max_length=2)
    with pytest.raises(
        ValueError, match=r"^source 1: the prefix has 3 tokens, but the length limit"
    ):
        translator().predict(texts, prefixes=["der", "ein Hund sah"], max_length_ratio=1)


def test_rules_that_differ_by_source_raise() -> None:
    size = translator().target_tokenizer.vocabulary_size
    with pytest.raises(ValueError, match="rules: AllowedTokens depends on the sources of a"):
        translator().predict(SOURCES, rules=[AllowedTokens(np.ones((4, size), bool))])


@pytest.mark.full
def test_search_is_compiled_for_few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_untrained_task("rnnsearch_small", SOURCES, TARGETS)
    shapes = []
    search = task.model.compiled_search

    def record_shape(source: np.ndarray, *rest: object, **given: object) -> object:
        shapes.append(source.shape)
        return search(source, *rest, **given)

    monkeypatch.setattr(task.model, "compiled_search", record_shape)
    task.predict([" ".join(["cat"] * length) for length in range(1, 17)] * 3, max_length=2)
    assert shapes == [(32, 8), (32, 16)]  # 24 texts in each, filled up to a power of two


@pytest.mark.full
def test_xla_gives_equal_predictions() -> None:
    options = {"beam_width": 3, "n_best": 2, "max_length": 5, "max_length_ratio": 2}
    answers, compiled = (translator().predict(SOURCES, jit=jit, **options) for jit in (False, True))
    for one, other in zip(answers, compiled, strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_n_best_is_ordered_and_distinct() -> None:
    (answer,) = translator().predict(SOURCES[:1], beam_width=4, n_best=4)
    found = [answer, *answer.alternatives]
    scores = [one.score for one in found]
    assert len(found) == 4
    assert scores == sorted(scores, reverse=True)
    assert len({one.tokens for one in found}) == 4
    assert all(not one.alternatives for one in answer.alternatives)


def test_prediction_without_end_token_is_truncated() -> None:
    answers = translator().predict(SOURCES, beam_width=2, max_length=1)
    for answer in answers:
        assert answer.truncated is (len(answer.tokens) == 1)


def test_unknown_tokens_are_flagged() -> None:
    (answer,) = translator().predict(["a bird saw the worm"])
    assert answer.unknown == (1, 4)


def test_unknown_characters() -> None:
    task = translator()
    assert task.find_unknown_characters("a dot saw cat .") == []
    assert task.find_unknown_characters("a ☃ cat ☃ 猫 <") == ["☃", "猫", "<"]


@refuses(
    (["a cat", "", "a dog"], {}, r"^source 1: the text is empty"),
    (["a cat", " \t"], {}, r"^source 1: the text is empty"),
    ([" ".join(["cat"] * 21)], {}, r"^source 0: 21 tokens, the limit is 20; shorten"),
    ("a cat", {}, r"write predict\(\[text\]\)"),
    (["a cat"], {"beam_with": 3}, r"option 'beam_with'; did you mean 'beam_width'"),
    (["a cat"], {"banned_tokens": [99]}, "^banned_tokens must be ids from 0"),
    (
        ["a cat"],
        {"prefixes": ["ein Hund sah"], "max_length": 2},
        "^source 0: the prefix has a token at position 2 but max_length is 2",
    ),
)
def test_invalid_input_raises(texts: Any, options: Any) -> None:
    translator().predict(texts, **options)


@pytest.mark.full
def test_evaluate_agrees_with_predict() -> None:
    task = translator()
    answers = [answer.text for answer in task.predict(SOURCES, max_length=6)]
    targets = [answers[0], "x y", "x y", answers[3]]
    report = task.evaluate(pairs(targets=targets), max_length=6)
    assert report["exact_match"] == pytest.approx(50)
    assert report["sentences"] == 4
    assert report["truncated"] == sum(a.truncated for a in task.predict(SOURCES, max_length=6))
    assert set(task.metric_names) < report.keys()


def test_evaluate_locates_a_pair_over_the_limit() -> None:
    with pytest.raises(ValueError, match="test pairs, pair 2: 21 tokens, the limit is 20"):
        translator().evaluate(pairs(["a", " ".join(["cat"] * 21)], ["x", "y"]))


def test_batches_drop_long_pairs() -> None:
    task = translator()
    long = " ".join(["Katze"] * 20)  # with its end token one over the limit
    assert len(task.make_batches(pairs(["a cat"] * 2, ["eine Katze", long]), 2, seed=1)) == 1
    with pytest.raises(ValueError, match="none of its 1 pairs fits into 20 source and 20 target"):
        task.make_batches(pairs(["a cat"], [long]), 2, seed=1)


def test_model_without_attention_has_no_weights() -> None:
    (answer,) = translator("seq2seq_initial_small").predict(["a cat"])
    assert answer.attention is None


def test_override_of_search_options_changes_nothing_else() -> None:
    options = SearchOptions(beam_width=3, length_penalty="gnmt")
    assert options.override(n_best=2) == SearchOptions(
        beam_width=3, n_best=2, length_penalty="gnmt"
    )


@pytest.mark.full
def test_word_with_the_largest_weight_replaces_an_unknown_word() -> None:
    options = {"forced_tokens": {0: 1, 2: 1}, "min_length": 4, "beam_width": 2, "n_best": 2}
    text = "a dog saw the cat"
    (plain,) = translator().predict([text], **options)
    (copied,) = translator().predict([text], replace_unknown=True, **options)
    pairs = zip((plain, *plain.alternatives), (copied, *copied.alternatives), strict=True)
    for one, other in pairs:
        assert one.attention is not None
        most_attended = [text.split()[position] for position in one.attention.argmax(-1)]
        expected = [
            most_attended[at] if at in (0, 2) else token for at, token in enumerate(one.tokens)
        ]
        assert one.tokens[0] == one.tokens[2] == "<unk>"
        assert list(other.tokens) == expected
        assert other.text == " ".join(expected)


def test_replace_unknown_needs_attention() -> None:
    with pytest.raises(
        ValueError, match=r"^replace_unknown needs attention, but step returns attention=None: s"
    ):
        translator("seq2seq_initial_small").predict(["a cat"], replace_unknown=True)

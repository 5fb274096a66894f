"""BART and T5 checkpoints load as tasks that generate what `transformers` generates."""

from __future__ import annotations

import functools
import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo import models
from attention_zoo.data import TextPairs
from attention_zoo.tasks.generation_config import read_search_options
from attention_zoo.tasks.text_inputs import pad_batch
from tests.hub import use_cache, write_repository
from tests.models.public.checkpoints import GOLDEN, change_config, copy_of
from tests.refusals import refuses

FAMILIES = ("bart", "t5_gated")


@functools.cache
def load_task(family: str) -> Any:
    return az.load(GOLDEN / family)


@functools.cache
def read_expected(family: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / family / "expected.json").read_text("utf-8"))
    return content


def read_options(family: str, folder: Path, **changes: Any) -> Any:
    """Return the search options of a golden checkpoint with another generation config."""
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads((GOLDEN / family / path.name).read_text()) | changes))
    config = json.loads((GOLDEN / family / "config.json").read_text())
    return read_search_options(folder, config, load_task(family).tokenizer.from_checkpoint_id, 64)


def to_token_ids(family: str, ids: list[int]) -> list[int]:
    return [*map(load_task(family).tokenizer.from_checkpoint_id, ids)]


@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_equal_those_of_transformers(family: str, tmp_path: Path) -> None:
    """The shortest outputs of greedy search, without compilation; the full tier has all."""
    task, expected = load_task(family), read_expected(family)
    case = expected["cases"][0]
    (row, *_) = sorted(range(200), key=lambda row: len(case["ids"][row]))
    (article,) = task.articles([expected["sources"][row]])
    source = pad_batch([article.ids], 1, len(article.ids))
    result = task.model.search(source, read_options(family, tmp_path, num_beams=1))
    tokens = [int(one) for one in result.tokens[0, 0, : int(result.lengths[0, 0])]]
    assert tokens == to_token_ids(family, case["ids"][row])


@pytest.mark.full
@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("family", FAMILIES)
def test_all_tokens_equal_those_of_transformers(family: str, number: int, tmp_path: Path) -> None:
    """`<pad>` has probability 0 here, which changes scores slightly."""
    task, expected = load_task(family), read_expected(family)
    case, end = expected["cases"][number], 2 if family == "bart" else 1
    if family == "bart" and "repetition_penalty" in case["options"]:
        pytest.skip("not supported: the start token is the end token")
    options = read_options(family, tmp_path, **case["options"])
    sources = expected["sources"][: len(case["ids"])]
    results = task.predict(sources, **options.as_dict() | {"batch_size": 200})
    for result, ids in zip(results, case["ids"], strict=True):
        token_ids = to_token_ids(family, [one for one in ids if one != end])
        assert list(result.tokens) == task.tokenizer.tokens(token_ids)
        assert result.text == task.tokenizer.decode(token_ids)
        assert result.truncated == (ids[-1] != end)
    if case["scores"]:
        scores = [result.score for result in results]
        atol = 1e-3 if options.renormalize else 1e-4
        np.testing.assert_allclose(scores, case["scores"], atol=atol, rtol=0)


@pytest.mark.full
def test_a_forced_first_token_changes_the_tokens(tmp_path: Path) -> None:
    task, expected = load_task("bart"), read_expected("bart")
    case = expected["cases"][9]
    assert case["options"]["forced_bos_token_id"] == 9
    options = read_options("bart", tmp_path, **case["options"])
    results = task.predict(expected["sources"][:30], **options.as_dict() | {"batch_size": 32})
    want = [
        task.tokenizer.tokens(to_token_ids("bart", [one for one in ids if one != 2]))
        for ids in case["ids"]
    ]
    assert [list(result.tokens) for result in results] == want
    scores = [result.score for result in results]
    np.testing.assert_allclose(scores, case["scores"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_expected_tokens_differ_and_each_option_has_an_effect(family: str) -> None:
    end, (greedy, beam, *cases) = 2 if family == "bart" else 1, read_expected(family)["cases"]
    for case in (greedy, beam):
        assert len(case["ids"]) == 200
        assert len({str(ids) for ids in case["ids"]}) > 150
        assert sum(ids[-1] == end for ids in case["ids"]) > 150
        assert len({len(ids) for ids in case["ids"]}) > 4
    for case in cases:
        options = case["options"]
        base = greedy if options["num_beams"] == 1 else beam
        base = cases[1] if "renormalize_logits" in options else base
        assert case["ids"] != base["ids"][: len(case["ids"])], options


@pytest.mark.parametrize("family", FAMILIES)
def test_sources_have_the_special_tokens_of_the_checkpoint(family: str) -> None:
    task, text = load_task(family), read_expected(family)["sources"][0]
    tokenizer = task.tokenizer
    (ids,) = tokenizer.encode([("" if family == "bart" else "summarize: ") + text])
    want = [tokenizer.text_start, *ids, 3] if family == "bart" else [*ids, 3]
    (article,) = task.articles([text])
    assert article.ids == want
    assert len(article.surfaces) == len(article.labels) == len(want)
    assert article.labels[-1] == tokenizer.tokens([3])[0]
    assert not article.truncated
    sources, targets = task.encode_pairs(TextPairs([text, ""], ["ba de", "ki"], "pairs"))
    assert sources == [want, []]
    start = [tokenizer.text_start] if family == "bart" else []
    assert targets[0] == [*start, *tokenizer.encode(["ba de"])[0]]


@pytest.mark.parametrize("family", FAMILIES)
def test_long_texts_are_truncated(family: str) -> None:
    task, text = load_task(family), "ba de ki lo " * 400
    (article,) = task.articles([text])
    assert article.truncated
    assert len(article.ids) == task.max_source_length == (64 if family == "bart" else 512)
    assert article.ids[-1] == task.tokenizer.end
    with pytest.raises(ValueError, match="source 1: the text is empty"):
        task.check_sources(["ba", ""])


def test_search_options_of_the_task_apply_where_the_generation_config_has_none(
    tmp_path: Path,
) -> None:
    folder = copy_of("t5_gated", tmp_path)
    options = {"prefix": "tl;dr ", "num_beams": 7, "min_length": 9, "repetition_penalty": 1.0}
    change_config(folder, task_specific_params={"summarization": options}, n_positions=40)
    (folder / "generation_config.json").write_text('{"min_length": 5, "eos_token_id": 1}')
    task = az.load(folder)
    assert task.source_prefix == "tl;dr "
    assert (task.search.beam_width, task.search.min_length) == (7, 5)
    assert (task.max_source_length, task.search.max_length) == (40, 40)
    change_config(folder, task_specific_params=None, prefix=" ", decoder_start_token_id=None)
    assert az.load(folder).source_prefix == " "


def test_a_bart_without_a_row_for_the_mask_token(tmp_path: Path) -> None:
    """As `facebook/bart-large-cnn`: `<mask>` is the last id of the tokenizer only."""
    folder = copy_of("bart", tmp_path)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    del vocabulary["<mask>"]
    vocabulary |= {"more": len(vocabulary), "<mask>": len(vocabulary) + 1}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    task = az.load(folder)
    assert task.model.source_vocabulary_size == load_task("bart").model.source_vocabulary_size + 1
    assert task.tokenizer.mask == task.model.source_vocabulary_size - 1


@refuses(
    ("bart", {"task_specific_params": [1]}, "task_specific_params must be an object, got [1]"),
    ("t5_gated", {"task_specific_params": {"summarization": 3}}, "summarization must be an object"),
    ("t5_gated", {"prefix": 3, "task_specific_params": None}, "prefix must be a string, got 3"),
    (
        "t5_gated",
        {"task_specific_params": {"summarization": {"num_beam": 3}}},
        "num_beam=3 is not supported; remove it",
    ),
    (
        "t5_gated",
        {"n_positions": "many"},
        "n_positions must be an integer of at least 1, got 'many'",
    ),
    ("t5_gated", {"pad_token_id": 5}, "<unk>, <pad> and </s> must have the ids [2, 5, 1]"),
    ("t5_gated", {"eos_token_id": [1]}, "must have the ids [2, 0, [1]] of config.json"),
    ("bart", {"eos_token_id": 4}, "<unk>, <pad> and </s> must have the ids [3, 1, 4] of"),
    ("bart", {"model_type": "t5"}, "spiece.model: No such file; copy it from the checkpoint"),
    ("t5_gated", {"vocab_size": 20}, "vocab_size must be a whole number from"),
    literal=True,
)
def test_invalid_configs_are_rejected(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    folder = copy_of(family, tmp_path)
    change_config(folder, **changes)
    az.load(folder)


def test_tokenizers_of_other_families_are_rejected(tmp_path: Path) -> None:
    folder = copy_of("bart", tmp_path)
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    with pytest.raises(ValueError, match="a bart checkpoint requires a BartTokenizer, got a WordP"):
        az.load(folder)
    folder = copy_of("t5_gated", tmp_path)
    (folder / "added_tokens.json").write_text('{"{": 56}')
    with pytest.raises(ValueError, match=r"added token '\{' \(id 56\) is not supported"):
        az.load(folder)


def test_fields_of_older_checkpoints(tmp_path: Path) -> None:
    folder = copy_of("bart", tmp_path)
    (folder / "generation_config.json").unlink()
    change_config(folder, force_bos_token_to_be_generated=True, forced_bos_token_id=None)
    task = az.load(folder)
    assert task.search.forced_start == task.tokenizer.text_start
    penalty = {"repetition_penalty": 1.5, "num_beams": 1}
    for changes in ({"no_repeat_ngram_size": 1}, penalty):
        with pytest.raises(ValueError, match="is not supported if decoder_start_token_id is eos_t"):
            read_options("bart", tmp_path, **changes)


def test_missing_tokenizers_are_rejected(tmp_path: Path) -> None:
    folder = copy_of("t5_gated", tmp_path)
    (folder / "spiece.model").unlink()
    with pytest.raises(
        ValueError, match=r"spiece.model: No such file; copy it from the checkpoint"
    ):
        az.load(folder)


def assert_same_task(loaded: Any, task: Any) -> None:
    assert loaded.search == task.search
    assert (loaded.source_prefix, loaded.add_source_end) == (task.source_prefix, True)
    assert (loaded.truncate_source, loaded.max_source_length) == (True, task.max_source_length)
    assert type(loaded.tokenizer) is type(task.tokenizer)
    assert loaded.tokenizer.content_hash == task.tokenizer.content_hash


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_loads_from_the_hub(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cache(monkeypatch, tmp_path)
    write_repository(tmp_path, "org/summarizer", GOLDEN / family, "main")
    assert_same_task(az.load("hf://org/summarizer"), load_task(family))


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_task_predicts_the_same(family: str, tmp_path: Path) -> None:
    task, texts = load_task(family), read_expected(family)["sources"][:3]
    task.save(tmp_path)
    loaded = az.load(tmp_path)
    assert_same_task(loaded, task)
    for result, want in zip(loaded.predict(texts), task.predict(texts), strict=True):
        assert (result.text, result.tokens) == (want.text, want.tokens)
        np.testing.assert_allclose(result.attention.sum(-1), 1, atol=1e-5)
        assert result.copied == (0.0,) * len(result.tokens)
        assert result.origins == (-1,) * len(result.tokens)


@pytest.mark.full
def test_evaluate_and_pages(tmp_path: Path) -> None:
    task, expected = load_task("bart"), read_expected("bart")
    targets = [result.text for result in task.predict(expected["sources"][:8])]
    report = task.evaluate(TextPairs(expected["sources"][:8], targets, "pairs"))
    assert (report["rouge1"], report["exact_match"], report["copied_tokens"]) == (100, 100, 0)
    results = task.predict(expected["sources"][:2])
    task.write_report(results, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    for label in (*results[0].tokens, *results[0].source_tokens):
        assert f">{html.escape(label)}<" in page


def test_limits_above_the_positions_are_rejected() -> None:
    task = az.load(GOLDEN / "bart")
    task.max_source_length = 65
    message = (
        "max_source_length must be at most the 64 positions of the model, got 65; set data.max"
    )
    with pytest.raises(ValueError, match=message):
        task.predict(["ba"])
    pairs = TextPairs(["ba", "ba"], ["ba", ""], "pairs")
    with pytest.raises(ValueError, match=message):
        task.encode_pairs(pairs)
    task.max_source_length = 2
    with pytest.raises(ValueError, match=r"max_source_length must be at least 3 .*, got 2"):
        task.predict(["ba"])
    task.max_source_length = 64
    assert len(task.filter_by_length(pairs)) == 1, "pairs without a target are dropped"


def test_other_models_are_rejected() -> None:
    tokenizer = load_task("bart").tokenizer
    size = tokenizer.vocabulary_size
    model = models.Transformer(size, size + 1, 8, 8, 2, 1)
    with pytest.raises(ValueError, match=r"the tokenizer has \d+ tokens, but the model's"):
        az.tasks.Summarization(model, tokenizer)
    other = models.GPT(size, 8, 8, 2, 1)
    with pytest.raises(ValueError, match=r"model must be a models.CopyingMixin, such as"):
        az.tasks.Summarization(other, tokenizer)

"""A Marian checkpoint loads as a task that generates what `transformers` generates."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import load_sentencepiece_tokenizer
from attention_zoo.models.public.tensors import Tensors
from attention_zoo.tasks.generation_config import read_search_options
from attention_zoo.tasks.text_inputs import pad_batch
from attention_zoo.tasks.translation.sentences import join_results, split_source
from tests.hub import use_cache, write_repository
from tests.layers.running import array, close
from tests.models.public.checkpoints import (
    GOLDEN,
    change_config,
    copy_of,
    find_transformers,
    write_safetensors,
)
from tests.refusals import refuses

FOLDER = GOLDEN / "marian_translator"
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))
CASES = EXPECTED["cases"]


def name_case(number: int) -> str:
    return ",".join(f"{name}={value}" for name, value in CASES[number]["options"].items())


@pytest.fixture(scope="module")
def task() -> Any:
    return az.load(FOLDER)


def read_options(folder: Path, **changes: Any) -> Any:
    """Return the search options of the golden checkpoint with another generation config."""
    path = folder / "generation_config.json"
    config = json.loads((FOLDER / path.name).read_text()) | changes
    path.write_text(json.dumps(config))
    config = json.loads((FOLDER / "config.json").read_text())
    tokenizer = load_sentencepiece_tokenizer(FOLDER, "target")
    return read_search_options(folder, config, tokenizer.from_checkpoint_id, 40)


def test_tokens_equal_those_of_transformers(task: Any, tmp_path: Path) -> None:
    """The shortest outputs of greedy search, without compilation; the full tier has all."""
    case = CASES[0]
    rows = sorted(range(200), key=lambda row: len(case["ids"][row]))[:3]
    source = pad_batch(task.encode_sources([EXPECTED["sources"][row] for row in rows]), 3, 8)
    result = task.model.search(source, read_options(tmp_path, num_beams=1))
    for index, row in enumerate(rows):
        length = int(result.lengths[index, 0])
        tokens = [int(one) for one in result.tokens[index, 0, :length]]
        ids = [*map(task.target_tokenizer.to_checkpoint_id, tokens)]
        assert ids == case["ids"][row]


@pytest.mark.full
@pytest.mark.parametrize("number", range(len(CASES)), ids=name_case)
def test_all_texts_equal_those_of_transformers(number: int, task: Any, tmp_path: Path) -> None:
    """Without `renormalize_logits`, scores differ: padding and start have probability 0 here."""
    case = CASES[number]
    options = read_options(tmp_path, **case["options"])
    sources = EXPECTED["sources"][: len(case["ids"])]
    results = task.predict(sources, **options.as_dict() | {"batch_size": 200})
    assert [result.text for result in results] == case["texts"]
    tokenizer = task.target_tokenizer
    for result, ids in zip(results, case["ids"], strict=True):
        token_ids = [tokenizer.from_checkpoint_id(one) for one in ids if one != 0]
        assert list(result.tokens) == tokenizer.tokens(token_ids)
        assert result.truncated == (ids[-1] != 0)
    if case["scores"] and options.renormalize:
        scores = [result.score for result in results]
        np.testing.assert_allclose(scores, case["scores"], atol=5e-6, rtol=0)


def test_the_expected_texts_differ_and_each_option_has_an_effect() -> None:
    greedy, beam = CASES[:2]
    for case in (greedy, beam):
        assert len(case["ids"]) == 200
        assert len(set(case["texts"])) > 150
        assert sum(ids[-1] == 0 for ids in case["ids"]) > 150
        assert len({len(ids) for ids in case["ids"]}) > 8
    for case in CASES[2:]:
        base = greedy if case["options"]["num_beams"] == 1 else beam
        if "renormalize_logits" not in case["options"]:
            assert case["ids"] != base["ids"][: len(case["ids"])], case["options"]
    renormalized, other = CASES[-2:]
    assert renormalized["scores"] != other["scores"]


def test_a_generation_config_becomes_search_options(tmp_path: Path) -> None:
    options = read_options(tmp_path)
    assert (options.beam_width, options.max_length, options.banned_tokens) == (4, 23, (2,))
    assert options.force_end
    assert options.renormalize
    assert options.fill_beam
    assert options.early_stopping is False
    assert (options.length_penalty, options.length_penalty_weight) == ("average", 1.0)
    changes = {"num_beams": None, "length_penalty": 0, "forced_eos_token_id": None}
    options = read_options(tmp_path, **changes, bad_words_ids=None, suppress_tokens=[7, 5, 7])
    assert (options.beam_width, options.length_penalty, options.force_end) == (1, "none", False)
    assert options.banned_tokens == (7, 9)
    options = read_options(
        tmp_path, max_length=None, min_length=3, eos_token_id=[0], bad_words_ids=[[0]]
    )
    assert (options.max_length, options.min_length, options.banned_tokens) == (40, 3, ())
    assert read_options(tmp_path, forced_bos_token_id=7).forced_start == 9
    assert read_options(tmp_path, encoder_no_repeat_ngram_size=3).no_repeat_source_ngram == 3
    changes = {"min_length": 9, "temperature": 0.5, "_commit_hash": "a", "is_assistant": False}
    options = read_options(tmp_path, max_new_tokens=7, min_new_tokens=4, **changes)
    assert (options.max_length, options.min_length) == (7, 5)


def test_without_a_generation_config_that_of_the_model_applies(tmp_path: Path) -> None:
    config = {"eos_token_id": 0, "decoder_start_token_id": 3, "num_beams": 6, "max_length": 12}
    options = read_search_options(tmp_path, config, int, 40)
    assert (options.beam_width, options.max_length) == (6, 11)


@refuses(
    ({"do_sample": True}, r"config.json: do_sample=True is not supported, only False; remove it"),
    ({"encoder_no_repeat_ngram_size": "3"}, "encoder_no_repeat_ngram_size='3' has the wrong type"),
    ({"forced_bos_token_id": 86}, "forced_bos_token_id=86 is not in the vocabulary; remove it"),
    ({"forced_bos_token_id": True}, "forced_bos_token_id=True has the wrong type"),
    ({"decoder_start_token_id": 0}, "decoder_start_token_id must be 85, as in config.json, got 0"),
    ({"suppress_tokens": [-1]}, "suppress_tokens has id -1, which is not in the vocabulary"),
    ({"num_beam_groups": 2}, "num_beam_groups=2 is not supported, only 1"),
    ({"brand_new": 1}, "brand_new=1 is not supported; remove it"),
    ({"eos_token_id": [0, 5]}, r"eos_token_id must be 0, as in config.json, got \[0, 5\]"),
    ({"forced_eos_token_id": 5}, "forced_eos_token_id must be 0, as in config.json, got 5"),
    (
        {"bad_words_ids": [[3, 4]]},
        r"bad_words_ids=\[\[3, 4\]\] is not supported, only words of one",
    ),
    ({"suppress_tokens": [999]}, "suppress_tokens has id 999, which is not in the vocabulary"),
    ({"repetition_penalty": 1.2}, "repetition_penalty=1.2 is not supported with num_beams=4"),
    ({"length_penalty": -1.0}, "length_penalty must be at least 0, got -1.0"),
    ({"num_beams": "four"}, "num_beams='four' has the wrong type; copy the file again"),
    ({"min_length": 30}, "min_length must be at most max_length"),
    ({"max_length": True}, "config.json: max_length=True has the wrong type"),
    ({"early_stopping": "always"}, "early_stopping must be 'never', False or True, got 'always'"),
)
def test_unsupported_generation_configs_are_rejected(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    read_options(tmp_path, **changes)


def test_damaged_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "generation_config.json"
    for content, message in (("[1]", "expected an object"), ("{", "Expecting")):
        path.write_text(content)
        with pytest.raises(
            ValueError, match=rf"generation_config.json: {message}.*; copy it again"
        ):
            read_search_options(tmp_path, {}, int, 40)
    folder = copy_of("marian_translator", tmp_path)
    (folder / "target.spm").unlink()
    with pytest.raises(
        ValueError, match=r"target.spm: No such file .* copy it from the checkpoint"
    ):
        az.load(folder)


def test_a_vocabulary_of_another_size_is_rejected(tmp_path: Path) -> None:
    folder = copy_of("marian_translator", tmp_path)
    pieces = json.loads((folder / "vocab.json").read_text("utf-8"))
    (folder / "target_vocab.json").write_text(json.dumps(pieces | {"more": len(pieces)}))
    with pytest.raises(ValueError, match=r"86 and 87 pieces, but config\.json requires 86 and 86"):
        az.load(folder)


def write_separate_vocabularies(parent: Path) -> Path:
    """Write the golden translator with a target vocabulary in another order and two more tokens."""
    folder = copy_of("marian_translator", parent)
    vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
    size, rng = len(vocabulary), np.random.default_rng(0)
    special = [vocabulary[piece] for piece in ("</s>", "<unk>", "<pad>")]
    others = [number for number in range(size) if number not in special]
    order = np.arange(size)
    order[others] = rng.permutation(others)  # row n of the target is that of `order[n]`
    pieces = {number: piece for piece, number in vocabulary.items()}
    target = {pieces[number]: row for row, number in enumerate(order)}
    target |= {"more": size, "still more": size + 1}
    (folder / "target_vocab.json").write_text(json.dumps(target), "utf-8")
    golden = Tensors(folder)
    tensors = {name: golden[name] for name in golden if name != "model.shared.weight"}
    table, bias = golden["model.shared.weight"], golden["final_logits_bias"]
    tensors["model.encoder.embed_tokens.weight"] = table
    tensors["model.decoder.embed_tokens.weight"] = np.concatenate([table[order], table[4:6]])
    never = np.full((1, 2), -1e4, bias.dtype)
    tensors["final_logits_bias"] = np.concatenate([bias[:, order], never], axis=1)
    write_safetensors(folder / "model.safetensors", tensors)
    change_config(folder, decoder_vocab_size=size + 2, share_encoder_decoder_embeddings=False)
    return folder


def test_logits_with_separate_vocabularies(task: Any, tmp_path: Path) -> None:
    other = az.load(write_separate_vocabularies(tmp_path))
    assert (other.model.source_vocabulary_size, other.model.target_vocabulary_size) == (87, 89)
    source = pad_batch(task.encode_sources(EXPECTED["sources"][:3]), 3, 40)
    logits = []
    for each in (task, other):
        ids = each.target_tokenizer.encode(CASES[0]["texts"][:3])
        target = pad_batch([[2, *row] for row in ids], 3, 24)
        logits.append(array(each.model({"source": source, "target": target})))
    numbers = map(task.target_tokenizer.to_checkpoint_id, range(1, 87))
    names = {number: piece for piece, number in task.target_tokenizer.vocabulary.items()}
    pieces = [names[number] for number in numbers]
    to_other = [
        other.target_tokenizer.from_checkpoint_id(other.target_tokenizer.vocabulary[piece])
        for piece in pieces
    ]
    close(logits[1][..., [0, *to_other]], logits[0], 1e-5)


@pytest.mark.full
def test_predictions_with_separate_vocabularies(task: Any, tmp_path: Path) -> None:
    other = az.load(write_separate_vocabularies(tmp_path))
    sources = EXPECTED["sources"][:20]
    want = [result.text for result in task.predict(sources)]
    assert [result.text for result in other.predict(sources)] == want
    ids = [each.target_tokenizer.encode([want[0]]) for each in (task, other)]
    assert ids[0] != ids[1]
    other.save(tmp_path / "saved")
    saved = az.load(tmp_path / "saved")
    assert [result.text for result in saved.predict(sources)] == want


@pytest.mark.zoo
def test_separate_vocabularies_of_a_new_checkpoint(tmp_path: Path) -> None:
    """Predictions equal those of `transformers`, which has trained the checkpoint."""
    script = Path(__file__).with_name("translator_by_transformers.py")
    subprocess.run([find_transformers(), str(script), str(tmp_path), "7", "2"], check=True)
    golden = json.loads((tmp_path / "expected.json").read_text("utf-8"))
    task = az.load(tmp_path)
    names = [
        json.loads((tmp_path / name).read_text()) for name in ("vocab.json", "target_vocab.json")
    ]
    assert names[0] != names[1]
    for case in golden["cases"][:4]:
        options = read_options(tmp_path, **case["options"])
        sources = golden["sources"][: len(case["ids"])]
        results = task.predict(sources, **options.as_dict() | {"batch_size": 200})
        assert [result.text for result in results] == case["texts"]
        assert len(set(case["texts"])) > len(case["texts"]) // 2


@refuses(
    ({"decoder_vocab_size": "wide"}, "decoder_vocab_size must be a positive integer, got 'wide'"),
    ({"share_encoder_decoder_embeddings": "no"}, "share_encoder_decoder_embeddings='no' is not"),
    ({"share_encoder_decoder_embeddings": True}, "decoder_vocab_size=88 is not supported, only 86"),
    (
        {"decoder_vocab_size": 87},
        "tensor decoder.embed_tokens.weight has shape .88, 32., but config.json and the arguments",
    ),
    (
        {"pad_token_id": 84, "decoder_start_token_id": 84},
        "vocab.json: <pad> has id 85, but pad_tok",
    ),
)
def test_inconsistent_separate_vocabularies_are_rejected(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_separate_vocabularies(tmp_path)
    change_config(folder, **changes)
    az.load(folder)


def test_a_missing_target_vocabulary_is_rejected(tmp_path: Path) -> None:
    folder = write_separate_vocabularies(tmp_path)
    (folder / "target_vocab.json").unlink()
    with pytest.raises(ValueError, match=r"target_vocab.json: has no id of <unk>"):
        az.load(folder)


def test_language_codes_are_checked(task: Any) -> None:
    assert task.source_tokenizer.language_codes == [">>aaa<<", ">>bbb<<"]
    with pytest.raises(
        ValueError, match=r"source 1: unknown language code >>fra<<. Known: >>aaa<<, >>bbb"
    ):
        task.check_sources([">>bbb<< ba", ">>fra<< ba"])
    task.check_sources(["ba >>fra<< de", ">> ba", ">>a b<< de"])
    assert task.find_unknown_characters(">>aaa<< ba 京") == ["京"]
    assert task.find_unknown_characters("ba >>aaa<<") == [">", "<"]


def test_long_texts_are_split_into_sentences(task: Any) -> None:
    sentences = [text for text in EXPECTED["sources"] if text.startswith(">>bbb<<")][:4]
    code, plain = ">>bbb<<", [text.removeprefix(">>bbb<< ") for text in sentences]
    text = f"{code} " + "\n".join(plain)
    find = task.source_tokenizer.find_language_code
    assert split_source(text, find) == sentences
    assert split_source("\n".join(plain), find) == plain
    assert split_source(f"{code}\nba.\n>>aaa<< de.\nki.", find) == [
        f"{code} ba.",
        ">>aaa<< de.",
        f"{code} ki.",
    ]
    (whole,) = task.encode_parts([text])
    assert whole.texts == [text]  # it is not too long
    task = az.tasks.Translation(**{**vars(task), "max_source_length": 16})
    (parts,) = task.encode_parts([text])
    assert parts.texts == sentences
    assert parts.ids == task.encode_sources(sentences)
    with pytest.raises(ValueError, match="source 0: sentence 2: 32 tokens, the limit is 16"):
        task.check_sources([plain[0] + "\n" + plain[1] * 4])
    task.split_long_texts = False
    with pytest.raises(ValueError, match=r"source 0: \d+ tokens, the limit is 16; shorten it"):
        task.check_sources([text])


@pytest.mark.full
def test_a_long_text_is_translated_sentence_by_sentence(task: Any) -> None:
    sentences = [text for text in EXPECTED["sources"] if text.startswith(">>bbb<<")][:4]
    long = "\n".join([sentences[0], *(text.removeprefix(">>bbb<< ") for text in sentences[1:])])
    task = az.tasks.Translation(**{**vars(task), "max_source_length": 16})
    results = task.predict(sentences, n_best=2)
    short, joined = task.predict([sentences[1], long], n_best=2, prefixes=["", results[0].text])
    assert (short.text, short.tokens) == (results[1].text, results[1].tokens)
    assert joined.text == " ".join(result.text for result in results)
    expected = join_results(results)
    assert joined.tokens == expected.tokens
    np.testing.assert_allclose(joined.attention, expected.attention, atol=1e-6)
    with pytest.raises(ValueError, match=r"source 0: sentence 1: the search found no translation"):
        task.predict([long], banned_tokens=[1, *range(4, 87)], max_length=2, min_length=2)


def test_results_of_sentences_are_joined() -> None:
    def result(words: str, unknown: tuple[int, ...], finished: bool) -> Any:
        tokens = (*words.split(),)
        return az.tasks.TranslationResult(
            text=words,
            score=-1.5,
            tokens=tokens,
            source_tokens=("x", *tokens),
            attention=np.full((len(tokens), len(tokens) + 1), len(tokens), "float32"),
            unknown=unknown,
            truncated=not finished,
            token_scores=(-0.5,) * (len(tokens) + finished),
        )

    one, two = result("a b", (2,), True), result("c", (0, 1), False)
    assert join_results([one]) is one
    joined = join_results([one, two])
    assert (joined.text, joined.score, joined.truncated) == ("a b c", -3.0, True)
    assert joined.tokens == ("a", "b", "c")
    assert joined.source_tokens == ("x", "a", "b", "x", "c")
    assert joined.unknown == (2, 3, 4)
    assert joined.token_scores == (-0.5,) * 3
    assert joined.attention.tolist() == [[2, 2, 2, 0, 0], [2, 2, 2, 0, 0], [0, 0, 0, 1, 1]]
    failed = join_results([one, az.tasks.TranslationResult.failed("no")])
    assert (failed.ok, failed.error) == (False, "sentence 2: no")


def assert_same_task(loaded: Any, task: Any) -> None:
    assert loaded.search == task.search
    assert (loaded.add_source_end, loaded.split_long_texts) == (True, True)
    for name in ("source_tokenizer", "target_tokenizer"):
        assert vars(loaded)[name].content_hash == vars(task)[name].content_hash


def test_a_checkpoint_loads_from_the_hub(
    task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cache(monkeypatch, tmp_path)
    write_repository(tmp_path, "Org/opus-mt-aa-bb", FOLDER, "refs/pr/4")
    assert_same_task(az.load("hf://Org/opus-mt-aa-bb@refs/pr/4"), task)


@pytest.mark.full
def test_a_saved_task_translates_the_same(task: Any, tmp_path: Path) -> None:
    task.save(tmp_path)
    loaded = az.load(tmp_path)
    assert_same_task(loaded, task)
    texts = EXPECTED["sources"][:4]
    assert [one.text for one in loaded.predict(texts)] == CASES[1]["texts"][:4]

"""Corpora: splits, formats, limits and errors for missing files or names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from attention_zoo.tasks import TASKS, Corpus
from attention_zoo.tasks.line_corpora import LINES
from attention_zoo.tasks.tagging.corpora import TAGGED_SENTENCES
from attention_zoo.tasks.text_pair_corpora import TEXT_PAIRS, NamedPairCorpus
from attention_zoo.training import Recipe
from attention_zoo.training.recipe import read_recipe
from tests.data.text.test_tfds import make_mock_dataset
from tests.refusals import refuses

CORPORA: dict[str, Any] = {
    name: registry.get(name)
    for registry in (TEXT_PAIRS, LINES, TAGGED_SENTENCES)
    for name in registry.names()
}


def corpus(kind: str, **options: object) -> Corpus:
    kind_of = CORPORA[kind]
    languages = {"source": "de", "target": "en"} if issubclass(kind_of, NamedPairCorpus) else {}
    made: Corpus = kind_of(**languages, **options)
    return made


@pytest.mark.parametrize(
    ("kind", "column", "option"),
    [
        ("dates", "sources", "max_phrases"),
        ("date_lines", "texts", "max_phrases"),
        ("orders", "words", "max_items"),
        ("reports", "targets", "max_events"),
    ],
)
def test_sizes_and_splits(kind: str, column: str, option: str) -> None:
    instance = corpus(kind, size=30, validation_size=7, test_size=5, **{option: 1})
    splits = {split: instance.read(split) for split in instance.splits}
    sizes = {"train": 30, "validation": 7, "test": 5, "long": 5}
    unseen = {"unseen": 5} if kind == "reports" else {}
    assert {split: len(examples) for split, examples in splits.items()} == sizes | unseen
    longest = [max(map(len, getattr(splits[split], column))) for split in ("train", "long")]
    assert longest[0] < longest[1]
    two = corpus(kind, size=30, **{option: 2}).read("train")
    assert longest[0] < max(map(len, getattr(two, column))), "the option has no effect"


def test_jsonl(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"de": "eine Katze", "en": ["a cat", "cat"]}\n[]\n')
    path = str(tmp_path / "a.jsonl")
    pairs = corpus("jsonl", train=path, skip_bad=1).read("train")
    assert list(pairs) == [("eine Katze", "a cat")]
    assert pairs.references == [("a cat", "cat")]
    with pytest.raises(ValueError, match=r"a\.jsonl:2: "):
        corpus("jsonl", train=path).read("train")


def test_tsv(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("en\tde\na cat\teine Katze\nbad line\na dog\tein Hund\n")
    path = str(tmp_path / "a.tsv")
    pairs = corpus("tsv", train=path, skip_bad=1).read("train")
    assert pairs.sources == ["eine Katze", "ein Hund"]
    assert pairs.targets == ["a cat", "a dog"]
    with pytest.raises(ValueError, match=r"a\.tsv:3: "):
        corpus("tsv", train=path).read("train")


def test_parallel(tmp_path: Path) -> None:
    (tmp_path / "test.de").write_text("eine Katze\n")
    (tmp_path / "test.en").write_text("a cat\n")
    pairs = corpus("parallel", test=str(tmp_path / "test.{language}")).read("test")
    assert (pairs.sources, pairs.targets) == (["eine Katze"], ["a cat"])
    with pytest.raises(ValueError, match=r"data\.test=x must contain \{language\} where"):
        corpus("parallel", test="x").read("test")


@refuses(
    ("tfds", r"data\.name is missing"),
    *(
        (kind, r"data\.test is missing; name the file")
        for kind in ("conll", "jsonl", "text", "tsv")
    ),
)
def test_missing_file_or_name_raises(kind: str) -> None:
    corpus(kind).read("test")


@pytest.mark.parametrize("kind", CORPORA)
def test_unknown_split_raises(kind: str) -> None:
    with pytest.raises(ValueError, match="unknown split; did you mean 'train'"):
        corpus(kind).read("trian")


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the current and the home folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_csv_and_columns_by_number(folder: Path) -> None:
    write_files(folder, {"a.csv": 'en;de\n"a\ncat";eine Katze\n', "b.tsv": "x\ty\n"})
    pairs = corpus("csv", train="a.csv", delimiter=";").read("train")
    assert list(pairs) == [("eine Katze", "a\ncat")]
    for kind in ("tsv", "csv"):
        names: Any = {"source": "1", "target": "0", "header": False}
        delimiter = {"delimiter": "\t"} if kind == "csv" else {}
        found = CORPORA[kind](train="b.tsv", **names, **delimiter).read("train")
        assert list(found) == [("y", "x")]
    with pytest.raises(ValueError, match=r"^data\.source and data\.target are both '1'; name two"):
        CORPORA["tsv"](source="1", target="1")


@pytest.mark.parametrize(
    "paths", ["*.txt", "~/[ab].txt", ["~/a.txt", "b.txt"], ["a.txt", "b*"], "d/../?.txt"]
)
def test_several_files_of_a_split(paths: Any, folder: Path) -> None:
    write_files(folder, {"a.txt": "one\n", "b.txt": "two\n", "d/c": "three\n"})
    lines = corpus("text", train=paths).read("train")
    assert lines.texts == ["one", "two"]
    assert [Path(name).name for name in lines.locations()] == ["a.txt:1", "b.txt:1"]


def test_several_parallel_files(folder: Path) -> None:
    write_files(folder, {"1.de": "eins\n", "2.de": "zwei\n\n", "1.en": "one\n", "2.en": "two\nx\n"})
    pairs = corpus("parallel", train="~/*.{language}", skip_bad=1).read("train")
    assert (list(pairs), pairs.skipped) == ([("eins", "one"), ("zwei", "two")], 1)


def test_file_whose_name_is_a_pattern(folder: Path) -> None:
    write_files(folder, {"a[1].txt": "one\n", "a1.txt": "two\n"})
    assert corpus("text", train="a[1].txt").read("train").texts == ["one"]


@refuses(
    ("nan.txt", r"^data\.test: nan\.txt: no such file or folder; did you mean 'man\.txt'\?; the"),
    ("nan.txt", "the current folder is FOLDER$"),
    (["man.txt", "~/b*"], r"^data\.test: ~/b\*: no such file or folder$"),
    ("FOLDER/nan.txt", r"nan\.txt: no such file or folder; did you mean 'FOLDER/man\.txt'\?$"),
    ("man.txt", r"^data\.test: man\.txt: no line contains text"),
    ("FOLDER", r"^data\.test: FOLDER: Is a directory"),
    (7, r"^data\.test must be a path or a list of paths, got 7; put quotes around"),
    (["a", 7], r"^data\.test must be a path or a list of paths, got \['a', 7\]"),
    ([], r"^data\.test is missing; name the file"),
)
def test_message_names_option_and_path(paths: Any, folder: Path) -> None:
    write_files(folder, {"man.txt": "\n"})
    if isinstance(paths, str):
        paths = paths.replace("FOLDER", str(folder))
    try:
        corpus("text", test=paths).read("test")
    except ValueError as error:
        raise ValueError(str(error).replace(str(folder), "FOLDER")) from None


def test_recipe_names_several_files(folder: Path) -> None:
    write_files(
        folder, {"a.yaml": "data: {corpus: text, train: [a, b], test: c}", "b": "", "c": ""}
    )
    task = ["task=language_modeling"]
    data = read_recipe("a.yaml", task).data
    assert vars(data)["train"] == ["a", "b"]
    data = read_recipe("a.yaml", [*task, "data.train=c", "data.test=[b,c]"]).data
    assert (vars(data)["train"], vars(data)["test"]) == ("c", ["b", "c"])


def test_date_lines() -> None:
    options = {"size": 30, "max_phrases": 1}
    pairs = CORPORA["dates"](**options).read("train")
    assert corpus("date_lines", **options).read("train").texts == pairs.sources
    french = corpus("date_lines", language="fr", **options).read("train")
    assert french.texts == pairs.targets
    assert french.origin == "dates fr train (seed 1)"


def test_text(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("One line.\n\nAnd another.\n")
    lines = corpus("text", train=str(path)).read("train")
    assert lines.texts == ["One line.", "And another."]
    assert lines.origin == str(path)


CONLL = "# a\nA\tx\tO\nLeeds\tx\tI-LOC\n\nno\t-\tO\n"


def test_conll(tmp_path: Path) -> None:
    path = tmp_path / "train.conll"
    path.write_text(CONLL)
    options: dict[str, Any] = {"train": str(path), "comment": "# ", "marks": 1}
    found = corpus("conll", **options).read("train")
    assert found.words == [("A", "Leeds"), ("no",)]
    assert found.tags == [("O", "I-LOC"), ("O",)]
    assert found.marks == [(True, True), (False,)]
    assert corpus("conll", **options, tags=1, words=2).read("train").words[0] == ("O", "I-LOC")
    assert corpus("conll", **options, scheme="IOB1").read("train").tags == found.tags
    with pytest.raises(ValueError, match=r"train\.conll:3: 'I-LOC' may not come after 'O' in BIO"):
        corpus("conll", **options, scheme="BIO").read("train")
    lenient = corpus("conll", **options, scheme="BIO", strict=False)
    assert lenient.read("train").tags == found.tags
    with pytest.raises(ValueError, match=r"train\.conll:3: .*data\.skip_bad=1 or more"):
        corpus("conll", **options, scheme="BIO").read("train")
    skipping = corpus("conll", **options, scheme="iob2", skip_bad=1).read("train")
    assert (skipping.words, skipping.skipped) == ([("no",)], 1)
    path.write_text(CONLL + "bad line\n")
    with pytest.raises(ValueError, match=r"train\.conll:3: 'I-LOC' may not .*skip_bad=2 or more"):
        corpus("conll", **options, scheme="BIO", skip_bad=1).read("train")


def test_bilou(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("New B-LOC\nYork L-LOC\nLeeds U-LOC\n")
    found = corpus("conll", train=str(tmp_path / "a"), scheme="BILOU").read("train")
    assert found.tags == [("B-LOC", "L-LOC", "U-LOC")]
    with pytest.raises(ValueError, match=r"a:2: tag 'L-LOC' is not a BIO tag.*scheme: BILOU"):
        corpus("conll", train=str(tmp_path / "a"), scheme="BIO").read("train")


def test_conllu(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("# a\n1-2\tdu\t_\n1\tde\tADP\n2\tle\tDET\n")
    options: dict[str, Any] = {"train": str(tmp_path / "a"), "words": 1}
    assert corpus("conll", **options).read("train").words == [("de", "le")]
    with pytest.raises(ValueError, match=r"a:1: expected 3 columns"):
        corpus("conll", **options, conllu=False).read("train")


def test_conll2003(tfds: Any, tmp_path: Path) -> None:
    words = tf.ragged.constant([["U.N.", "in", "Paris"], [], ["no"]])
    tags = tf.ragged.constant([[3, 0, 5], [], [0]])
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset({"tokens": words, "ner": tags})):
        found = corpus("conll2003", data_dir=str(tmp_path)).read("validation")
        with pytest.raises(ValueError, match="has no feature 'nre'; did you mean 'ner'"):
            corpus("conll2003", data_dir=str(tmp_path), tags="nre").read("train")
        with pytest.raises(ValueError, match="feature 'tokens' is not a sequence of Cl"):
            corpus("conll2003", data_dir=str(tmp_path), tags="tokens").read("train")
    assert found.words == [("U.N.", "in", "Paris"), ("no",)]
    assert found.tags == [("B-ORG", "O", "B-LOC"), ("O",)]
    assert found.locations() == ["conll2003 dev:1", "conll2003 dev:3"]


def test_bad_rows_of_conll2003_are_skipped(tfds: Any, tmp_path: Path) -> None:
    words = tf.ragged.constant([["in", "Paris"], [b"caf\xe9"], ["a", "b"], ["no"]])
    tags = tf.ragged.constant([[0, 6], [0], [0], [0]])
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset({"tokens": words, "ner": tags})):
        for skip_bad, message in (
            (0, r"row 2: not valid UTF-8.*data\.skip_bad=1 or more"),
            (1, r"row 3: 2 words but 1 tags.*data\.skip_bad=2 or more"),
            (2, r"dev:1, word 2: .*data\.skip_bad=3 or more"),
        ):
            with pytest.raises(ValueError, match=message):
                corpus("conll2003", data_dir=str(tmp_path), skip_bad=skip_bad).read("validation")
        found = corpus("conll2003", data_dir=str(tmp_path), skip_bad=3).read("validation")
    assert (found.words, found.skipped) == ([("no",)], 3)


def test_corpus_without_skip_bad_does_not_recommend_it() -> None:
    with pytest.raises(ValueError, match=r"orders train .*:\d+, word \d+: ") as caught:
        corpus("orders", scheme="BIOES", size=3).read("train")
    assert "skip_bad" not in str(caught.value)
    assert str(caught.value).endswith(", or set data.strict=false to keep it")


def test_dataset_with_an_invalid_row(tfds: Any, tmp_path: Path) -> None:
    rows = {"dialogue": ["", "A: hi\nB: no"], "summary": ["none", "B is not there"]}
    options = {"name": "samsum", "source": "dialogue", "target": "summary"}
    with tfds.testing.mock_data(as_dataset_fn=make_mock_dataset(rows)):
        with pytest.raises(ValueError, match="samsum train: row 1: the field 'dialogue' is empty"):
            CORPORA["tfds"](**options, data_dir=str(tmp_path)).read("train")
        found = CORPORA["tfds"](**options, data_dir=str(tmp_path), skip_bad=1).read("train")
    assert list(found) == [("A: hi\nB: no", "B is not there")]


def test_examples_fit_the_task() -> None:
    assert TASKS.get("language_modeling").corpora.names() == ["date_lines", "text"]
    message = r"task translation: unknown data.corpus 'text' \(known: csv, dates, json"
    with pytest.raises(ValueError, match=message):
        Recipe(task="translation", data=corpus("text"))


@pytest.mark.parametrize("kind", CORPORA)
def test_limits_below_one_raise(kind: str) -> None:
    for name in CORPORA[kind].limits:
        with pytest.raises(ValueError, match=f"data.{name} must be at least 1, got 0"):
            corpus(kind, **{name: 0})


@pytest.mark.parametrize("task", TASKS.names())
def test_examples_have_the_attributes_that_training_needs(task: str) -> None:
    """All tasks have a generated corpus, except for those of other tests."""
    corpora = TASKS.get(task).corpora
    kinds = [kind for name in corpora.names() if (kind := corpora.get(name)).generated]
    for kind in kinds:
        examples = kind(size=4, validation_size=2, test_size=2).read("validation")
        assert (len(examples), len(examples.take([1])), examples.skipped) == (2, 1, 0)
        assert isinstance(examples.origin, str)
        assert len(list(examples)) == 2
